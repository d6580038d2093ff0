package main

import (
	"database/sql"
	"path/filepath"
	"strings"
	"testing"
	"time"

	futurejobs "deadman/future_jobs"
	"deadman/internal/store"
	"deadman/internal/testwait"
	"deadman/web"
)

// TestRetention checks that the rows that retention will delete are told before, for other times, settings and periods of a
// rule, and that a saved period deletes them.
func TestRetention(t *testing.T) {
	t.Parallel()
	n := newInProcessNode(t)
	file := writeFile(t, t.TempDir(), "rule.yaml", ruleNamed("late"))
	n.mustRun("rule", "apply", "-f", file)
	n.mustRun("job", "create", "late", "a")
	n.mustRun("job", "create", "late", "b")
	n.mustRun("job", "cancel", "late", "a")
	n.mustRun("job", "cancel", "late", "b")
	endedBefore(t, n, 10*futurejobs.Day)
	report := func(args ...string) web.RetentionReport {
		return readJSON[web.RetentionReport](n, append([]string{"retention"}, args...)...)
	}
	if r := report(); r.History != 0 || len(r.Items) != 0 || r.KeepHistory != (90*futurejobs.Day).Seconds() {
		t.Errorf("now: %+v", r)
	}
	for _, args := range [][]string{{"--at", "+85d"}, {"--keep-history", "7d"}, {"--keep-history", "7d", "--rule", "late"}} {
		r := report(args...)
		if r.History != 2 || len(r.Items) != 1 || r.Items[0].Rule != "late" || r.Items[0].Outcome != "cancelled" || time.Since(r.Items[0].Oldest) < 9*futurejobs.Day {
			t.Errorf("%v: %+v", args, r)
		}
	}
	if r := report("--keep-history", "7d", "--rule", "other"); r.History != 0 {
		t.Errorf("of another rule: %+v", r)
	}
	n.expect(0, []string{"retention", "--at", "+85d"}, "late", "cancelled", "2 ended jobs, 0 alerts, 0 dead letters, 0 applied ticks", "history 90d")
	tickedBefore(t, n, "late", 10*futurejobs.Day)
	r := report("--keep-history", "7d")
	if r.Ticks != 3 || r.History != 2 || len(r.Items) != 2 || r.Items[0].Kind != "ticks" || r.Items[0].Rows != 3 || time.Since(r.Items[0].Oldest) < 10*futurejobs.Day {
		t.Errorf("with applied ticks: %+v", r)
	}
	if r := report("--keep-history", "7d", "--rule", "other"); r.Ticks != 0 {
		t.Errorf("applied ticks of another rule: %+v", r)
	}
	n.expect(0, []string{"retention", "--keep-history", "7d"}, "ticks", "3 applied ticks")
	n.expect(2, []string{"retention", "--keep-history", "5m"}, `"5m" is not a duration from 1h to 100y`)

	keep := writeFile(t, t.TempDir(), "rule.yaml", ruleNamed("late")+"\nkeep: {outcomes: {cancelled: 8d}}\n")
	n.expect(0, []string{"rule", "apply", "-f", keep, "--adopt", "--dry-run"}, "deletes 2 ended jobs and 0 alerts within a minute")
	if got := n.mustRun("history", "list"); strings.Count(got, "cancelled") != 2 {
		t.Errorf("after a dry run:\n%s", got)
	}
	const incomplete = "incomplete: retention deletes ended jobs from before"
	export := func(args ...string) string {
		t.Helper()
		got := n.run("", append([]string{"history", "export", "-", "--format", "jsonl"}, args...)...)
		if got.code != 0 {
			t.Errorf("export %v: %d %s", args, got.code, got.err)
		}
		return got.err
	}
	if got := export(); strings.Contains(got, "retention") {
		t.Errorf("retention has deleted nothing, and the export says: %s", got)
	}
	n.mustRun("rule", "apply", "-f", keep, "--adopt")
	testwait.Until(t, "retention deletes the history", func() bool { return !strings.Contains(n.mustRun("history", "list"), "cancelled") })
	if r := report("--at", "+85d"); r.History != 0 {
		t.Errorf("afterwards: %+v", r)
	}
	for _, c := range []struct {
		args []string
		want bool
	}{
		{nil, true},
		{[]string{"--after", "-9d"}, true},
		{[]string{"--after", "-7d"}, false},
		{[]string{"--rule", "late", "--after", "-9d"}, true},
		{[]string{"--rule", "other", "--after", "-9d"}, false},
		{[]string{"--rule", "other"}, true},
		{[]string{"--rule", "other", "--after", "-91d"}, true},
	} {
		if got := export(c.args...); strings.Contains(got, incomplete) != c.want {
			t.Errorf("export %v, incomplete %v: %s", c.args, c.want, got)
		}
	}
	if got := n.run("", "alert", "export", "-", "--format", "jsonl"); strings.Contains(got.err, "retention") {
		t.Errorf("no alert was deleted, and the export says: %s", got.err)
	}
	open := n.env
	n.env = append(open[:len(open):len(open)], "DEADMAN_TOKEN="+readJSON[web.NewToken](n, "token", "create", "admin", "--scope", "admin").Secret)
	tenant := readJSON[web.NewToken](n, "token", "create", "late-x", "--scope", "read", "--prefix", "late*")
	n.env = append(open[:len(open):len(open)], "DEADMAN_TOKEN="+tenant.Secret)
	if got := export(); !strings.Contains(got, "unknown: whether retention has deleted ended jobs of the range from before") {
		t.Errorf("the export of a tenant says: %s", got)
	}
}

// endedBefore moves the ends of all jobs of a node back.
func endedBefore(t *testing.T, n *inProcessNode, by time.Duration) {
	t.Helper()
	n.execute(t, `UPDATE history SET ended_at = ended_at - $1`, by.Microseconds())
}

// tickedBefore records three applied ticks of a rule at a time in the past.
func tickedBefore(t *testing.T, n *inProcessNode, rule string, ago time.Duration) {
	t.Helper()
	for i := range int64(3) {
		at := time.Now().Add(-ago).UnixMicro() - i
		n.execute(t, `INSERT INTO tick_history (rule_id, tick_at, applied_at, outcome, missed, attempts) SELECT id, $1, $1, 'started', 0, 1 FROM rule WHERE name = $2`, at, rule)
	}
}

// execute changes the database of a node on SQLite.
func (n *inProcessNode) execute(t *testing.T, text string, args ...any) {
	t.Helper()
	db, err := sql.Open("sqlite", "file:"+filepath.Join(n.dir, store.DatabaseFile)+"?_pragma=busy_timeout(10000)")
	if err != nil {
		t.Fatal(err)
	}
	defer db.Close()
	if _, err := db.ExecContext(t.Context(), text, args...); err != nil {
		t.Fatal(err)
	}
}
