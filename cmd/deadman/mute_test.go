package main

import (
	"errors"
	"fmt"
	"maps"
	"strconv"
	"strings"
	"testing"

	"deadman/web"
)

func TestMuteMatch(t *testing.T) {
	got, err := matchOf([]string{"rule=order-*", "site=a=b"})
	if want := map[string]string{"rule": "order-*", "site": "a=b"}; err != nil || !maps.Equal(got, want) {
		t.Errorf("%v, %v", got, err)
	}
	for _, c := range []struct {
		matches  []string
		wantText string
	}{
		{nil, "is required"},
		{[]string{"rule"}, "NAME=PATTERN"},
		{[]string{"=x"}, "NAME=PATTERN"},
		{[]string{"rule="}, "NAME=PATTERN"},
		{[]string{"rule=a", "rule=b"}, "twice"},
		{[]string{"severity=crit"}, `severity: "crit" is not a severity; write one of info, warning, error, critical`},
		{[]string{"status=foo"}, "is not a status"},
		{[]string{"severity!=info"}, "a match has = only"},
		{[]string{"severity=~warn.*"}, "is not a severity"},
	} {
		_, err := matchOf(c.matches)
		if misuse := (usageError{}); !errors.As(err, &misuse) || !strings.Contains(err.Error(), c.wantText) {
			t.Errorf("%q: %v", c.matches, err)
		}
	}
}

// TestNamesThatDoNotExist checks that a mute of an unknown rule, and groups by an unknown label, come with a hint.
func TestNamesThatDoNotExist(t *testing.T) {
	t.Parallel()
	n := newInProcessNode(t)
	n.mustRun("rule", "apply", "-f", writeFile(t, t.TempDir(), "rules.yaml", goodRule+"labels: {team: fulfilment}\n"))
	mute := func(rule string) result {
		return n.expect(0, []string{"mute", "create", "--match", "rule=" + rule, "--reason", "mended", "--for", "1h"}, "muted: rule="+rule)
	}
	if got, want := mute("order-unshiped").err, "warning: no rule is named order-unshiped; the mute takes effect once there is one; did you mean order-unshipped?\n"; got != want {
		t.Errorf("a mute of an unknown rule: %q, want %q", got, want)
	}
	if got := mute("order-unshipped").err; got != "" {
		t.Errorf("a mute of a rule: %q", got)
	}
	for match, want := range map[string]string{
		"rule=order-*":  "it matches 0 open alerts and 1 rule\n",
		"severity=info": "it matches 0 open alerts and 0 rules\n",
		"team=ful*":     "it matches 0 open alerts and 1 rule\n",
	} {
		if got := n.expect(0, []string{"mute", "create", "--match", match, "--reason", "mended", "--for", "1h"}, want); got.err != "" {
			t.Errorf("%s: %q", match, got.err)
		}
	}
	n.expect(0, []string{"status"}, "rule=order-*, ends in ", ": mended")
	for id := range 5 {
		n.mustRun("mute", "end", fmt.Sprint(id+1))
	}
	if got := n.mustRun("status"); strings.Contains(got, "mended") {
		t.Errorf("the status has mutes that ended: %s", got)
	}
	n.expect(0, []string{"mute", "create", "--match", "site=north", "--reason", "upgrade", "--starts-at", "+2h", "--for", "1h"}, "muted: site=north from ", " until ")
	if got := n.mustRun("status"); strings.Contains(got, "upgrade") {
		t.Errorf("the status has a mute that begins later: %s", got)
	}
	n.expect(0, []string{"mute", "list"}, "pending", "upgrade", "ended")
	n.expect(2, []string{"mute", "create", "--match", "site=north", "--reason", "upgrade", "--starts-at", "soon", "--for", "1h"})
	if got := n.expect(2, []string{"mute", "create", "--match", "site=north", "--reason", "upgrade", "--starts-at", "-2h", "--for", "1h"}).err; !strings.Contains(got, "--starts-at: ") || !strings.Contains(got, "is in the past") {
		t.Errorf("a start in the past: %q", got)
	}
	made := readJSON[web.Mute](n, "mute", "create", "--match", "rule=order-*", "--reason", "mended", "--for", "1h")
	n.expect(0, []string{"mute", "end", strconv.FormatInt(made.ID, 10), "-o", "json"}, fmt.Sprintf(`"id": %d`, made.ID), `"outcome": "ended"`)
	n.expect(2, []string{"mute", "end", "four"})
	got := n.expect(0, []string{"alert", "groups", "--by", "taem"}, "no open alerts")
	if want := "no open alert has the label taem; did you mean team?; labels of rules: team\n"; got.err != want {
		t.Errorf("groups of an unknown label: %q, want %q", got.err, want)
	}
}
