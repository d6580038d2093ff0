package main

import (
	"bytes"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"deadman/web"
)

// runWithAnswer runs the program on a real terminal with an answer to its question.
func (h *inProcessNode) runWithAnswer(answer string, args ...string) result {
	h.t.Helper()
	terminal, screen := pseudoTerminal(h.t, 80)
	if _, err := screen.WriteString(answer); err != nil {
		h.t.Fatal(err)
	}
	var out, errOut bytes.Buffer
	p := newCLI(terminal, &out, &errOut, h.env)
	p.zone = time.UTC
	code := p.run(h.t.Context(), args)
	return result{code, out.String(), errOut.String()}
}

// TestConfirm checks that an irreversible action asks for confirmation, and that only yes confirms.
func TestConfirm(t *testing.T) {
	t.Parallel()
	n := newInProcessNode(t)
	shop := filepath.Join(t.TempDir(), "shop")
	n.mustRun("rule", "apply", "-f", filepath.Dir(writeFile(t, shop, "rules.yaml", ruleNamed("a")+"---"+ruleNamed("b")+"---"+ruleNamed("c"))))
	left := func() (names string) {
		for _, r := range readJSON[web.Page[web.Rule]](n, "rule", "list").Items {
			names += r.Name
		}
		return names
	}
	writeFile(t, shop, "rules.yaml", ruleNamed("a")+"---"+strings.Replace(ruleNamed("b"), "1h", "2h", 1))
	prune := []string{"rule", "apply", "-f", shop, "--prune"}
	for _, no := range []string{"n\n", "\n", "yess\n", "\x04"} {
		n.runWithAnswer(no, prune...).check(t, prune, 1, "Delete 1 rule not in the files (c) and end their jobs? [y/N]", "cancelled; no changes made")
	}
	if v := readJSON[web.Page[web.RuleVersion]](n, "rule", "versions", "b").Items; left() != "abc" || len(v) != 1 {
		t.Errorf("no was no no: %s, %+v", left(), v)
	}
	n.runWithAnswer("y\n", prune...).check(t, prune, 0, "3 rules: 1 changed, 1 unchanged, 1 deleted")
	if left() != "ab" {
		t.Errorf("there are %s", left())
	}
	remove := []string{"rule", "delete", "b", "--bundle", "file:shop"}
	n.runWithAnswer("n\n", remove...).check(t, remove, 1, "Delete rule b and end all its jobs?")
	n.runWithAnswer("", append(remove, "--yes")...).check(t, remove, 0, "deleted")

	n.mustRun("job", "create", "a", "1")
	all := []string{"job", "cancel", "--entity", "order", "1"}
	n.runWithAnswer("no\n", all...).check(t, all, 1, "Cancel 1 pending job?", "cancelled; no changes made")
	n.runWithAnswer("YES\n", all...).check(t, all, 0, "cancelled: 1 job")
	n.env = append(n.env, "DEADMAN_TOKEN="+readJSON[web.NewToken](n, "token", "create", "ci", "--scope", "admin").Secret)
	revoke := []string{"token", "revoke", "ci"}
	n.runWithAnswer("n\n", revoke...).check(t, revoke, 1, "Revoke token ci?")
	n.runWithAnswer("y\n", revoke...).check(t, revoke, 0, "revoked")
}

// TestDiffColours checks that a diff is colored on a terminal.
func TestDiffColours(t *testing.T) {
	var out bytes.Buffer
	p := inProcess(&out, nil)
	p.palette.on = true
	if err := printDiff(p, "--- a\n+++ b\n@@ -1 +1 @@\n same\n-old\x1b\n+new\n", "  "); err != nil {
		t.Fatal(err)
	}
	compareText(t, out.String(), "  \x1b[01m--- a\x1b[00m\n  \x1b[01m+++ b\x1b[00m\n  \x1b[34m@@ -1 +1 @@\x1b[00m\n  \x1b[02m same\x1b[00m\n  \x1b[31m-old\\x1b\x1b[00m\n  \x1b[32m+new\x1b[00m\n")
}
