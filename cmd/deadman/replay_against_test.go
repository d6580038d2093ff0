package main

import (
	"bytes"
	"encoding/json"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"deadman/internal/replay"
)

// earlierRule raises at two hours and at seven; replayedRule at three.
const earlierRule = `name: order-unshipped
entity: order
trigger: {event: orders.created, key: event.id}
resolve: {event: orders.shipped, key: event.id}
escalate: [{after: 2h, step: late, text: "order {{key}} is late"}, {after: 6h, step: lost}]
`

// A replay is compared with the rules of a file: each format has the changes, and the counts of each rule.
func TestReplayAgainstFile(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	rule, old, report := writeFile(t, dir, "rule.yaml", replayedRule), writeFile(t, dir, "old.yaml", earlierRule), filepath.Join(dir, "report.html")
	args := []string{"-f", rule, "--against", old, "--events", "-"}
	code, text, errors := replayCLI(t, replayedOrders, append(args, "--report", report)...)
	want := `
RULE             ALERTS BEFORE  AFTER  COMES  GOES  MOVES
order-unshipped  5              3      0      2     2

moves  2026-03-02 12:00:00 UTC → 2026-03-02 13:00:00 UTC  warning  order-unshipped  order 1  late  order 1 is late
moves  2026-03-02 12:01:00 UTC → 2026-03-02 13:01:00 UTC  warning  order-unshipped  order 2  late  order 2 is late
goes   2026-03-02 16:00:00 UTC  warning  order-unshipped  order 1  lost  `
	if !strings.Contains(text, ", 3 alerts after the change: 2 firing, 1 resolved\n") {
		t.Errorf("the counts differ from those of the table:\n%s", text)
	}
	if _, got, _ := strings.Cut(text, "late 2\n"); code != 0 || !strings.HasPrefix(got, want) {
		t.Errorf("exit code %d, %s:\n%s", code, errors, cmp.Diff(want, got))
	}
	page, err := os.ReadFile(report)
	if err != nil || !bytes.Contains(page, []byte("<td>order-unshipped<td>5<td>3<td>0<td>2<td>2</tr>")) || !bytes.Contains(page, []byte("<td>goes<td>2026-03-02 16:00:00 UTC warning firing<td><td>order-unshipped<td>order 1<td>lost<td>")) {
		t.Errorf("%v\n%s", err, page)
	}
	_, text, _ = replayCLI(t, replayedOrders, append(args, "-o", "json")...)
	var object struct {
		Alerts  []replayedAlert
		Against replay.Difference
	}
	if err := json.Unmarshal([]byte(text), &object); err != nil || len(object.Alerts) != 3 || len(object.Against.Changes) != 4 || object.Against.Rules[0].Moves != 2 {
		t.Errorf("%v\n%s", err, text)
	}
	_, text, _ = replayCLI(t, replayedOrders, append(args, "-o", "csv")...)
	if !strings.Contains(text, "\nmoves,order-unshipped,order,1,late,2026-03-02T10:00:00Z,2026-03-02T12:00:00Z,2026-03-02T13:00:00Z,warning,warning,firing,firing,order 1 is late,order 1 is late\n") {
		t.Errorf("CSV:\n%s", text)
	}
	if _, text, _ = replayCLI(t, replayedOrders, append(args, "-o", "csv", "--summary")...); text != "rule,before,after,comes,goes,moves\norder-unshipped,5,3,0,2,2\n" {
		t.Errorf("CSV with --summary:\n%s", text)
	}
	if _, text, _ = replayCLI(t, replayedOrders, append(args, "--summary")...); strings.Contains(text, "is late") || !strings.Contains(text, "MOVES") {
		t.Errorf("--summary:\n%s", text)
	}
	if _, text, _ = replayCLI(t, replayedOrders, "-f", rule, "--against", rule, "--events", "-"); !strings.HasSuffix(text, "order-unshipped  3              3      0      0     0\n") {
		t.Errorf("the same rules:\n%s", text)
	}
	badKey := `{"subject": "orders.created", "time": "2026-03-02T10:00:00Z", "data": {}}`
	if code, _, errors := replayCLI(t, badKey, args...); code != 3 || !strings.Contains(errors, "--against: order-unshipped: 1 event refused") {
		t.Errorf("a refused event: exit code %d, %s", code, errors)
	}
}

// A replay is compared with a version of a rule on a node.
func TestReplayAgainstVersion(t *testing.T) {
	t.Parallel()
	node, dir := newInProcessNode(t), t.TempDir()
	file := writeFile(t, dir, "rule.yaml", earlierRule)
	node.mustRun("rule", "apply", file)
	writeFile(t, dir, "rule.yaml", replayedRule)
	node.mustRun("rule", "apply", file)
	for _, c := range []struct {
		against string
		code    int
		want    string
	}{
		{"order-unshipped@1", 0, "order-unshipped  5              3      0      2     2"},
		{"order-unshipped", 0, "order-unshipped  3              3      0      0     0"},
		{"order-unshipped@9", 1, "9"},
		{"order-unshipped@x", 2, "x is not a version"},
		{"other", 2, "the files of -f have no rule other to compare with other of the node"},
		{"./none.yaml", 2, "there is no file ./none.yaml"},
	} {
		got := node.run(replayedOrders, "replay", "-f", file, "--events", "-", "--summary", "--against", c.against)
		got.check(t, []string{c.against}, c.code, c.want)
	}
}
