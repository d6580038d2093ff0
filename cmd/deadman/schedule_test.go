package main

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"deadman/internal/testwait"
	"deadman/web"
)

// newScheduleNode runs a node with the rule report-due, whose schedules are stored.
func newScheduleNode(t *testing.T) *inProcessNode {
	n := newInProcessNode(t)
	n.mustRun("rule", "apply", "-f", writeFile(t, t.TempDir(), "rules.yaml", goodRule+"---\nname: report-due\nentity: report\n"+
		"trigger: {schedule: \"@stored\", emit: {subject: reports.due}}\n"))
	return n
}

// TestSchedules checks that a stored schedule is created, replaced, shown with its next ticks, listed and deleted.
func TestSchedules(t *testing.T) {
	t.Parallel()
	n := newScheduleNode(t)
	n.expect(0, []string{"schedule", "list", "report-due"}, "no stored schedules")
	n.expect(0, []string{"schedule", "put", "report-due", "customer/1", "--schedule", "30 8 * * MON-FRI", "--zone", "Europe/Berlin", "--data", `{"customer": 1}`},
		"customer/1", "30 8 * * MON-FRI", "Europe/Berlin", "next ticks", `{"customer":1}`)
	s := readJSON[web.Schedule](n, "schedule", "get", "report-due", "customer/1")
	if s.ID != "customer/1" || !s.Enabled || s.Version != 1 || len(s.Next) != 5 || !strings.Contains(string(s.Data), `"customer": 1`) {
		t.Errorf("%+v", s)
	}
	got := n.expect(0, []string{"schedule", "get", "report-due", "customer/1"}, "Europe/Berlin", "version")
	for _, at := range s.Next {
		if !strings.Contains(got.out, at.Format("2006-01-02 15:04")) {
			t.Errorf("%s has no tick %s", got.out, at)
		}
	}
	off := readJSON[web.Schedule](n, "schedule", "put", "report-due", "customer/1", "--schedule", "@every 90m", "--disabled")
	if off.Enabled || off.Version != 2 || off.Data != nil || off.Next != nil {
		t.Errorf("replaced: %+v", off)
	}
	n.expect(0, []string{"schedule", "get", "report-due", "customer/1"}, "enabled", "no", "next tick", "none")
	n.mustRun("schedule", "put", "report-due", "other", "--schedule", "@daily")
	n.expect(0, []string{"schedule", "list", "report-due"}, "NEXT TICK", "customer/1", "@every 90m", "other", "UTC")
	n.expect(0, []string{"schedule", "list", "report-due", "--limit", "1"}, "more results: continue with --cursor")
	if page := readJSON[web.Page[web.Schedule]](n, "schedule", "list", "report-due", "--prefix", "o"); len(page.Items) != 1 || page.Items[0].ID != "other" {
		t.Errorf("%+v", page)
	}
	n.expect(0, []string{"schedule", "list", "report-due", "--prefix", "x"}, "no stored schedules match these filters")
	n.expect(0, []string{"schedule", "delete", "report-due", "customer/1"}, "deleted: schedule customer/1 of rule report-due")
	if deleted := readJSON[map[string]string](n, "schedule", "delete", "report-due", "other"); deleted["deleted"] != "other" {
		t.Errorf("%v", deleted)
	}
	for _, verb := range []string{"get", "delete"} {
		n.expect(1, []string{"schedule", verb, "report-due", "customer/1"}, "customer/1", "not found")
		n.expect(1, []string{"schedule", verb, "none", "customer/1"}, "none", "not found")
	}
	n.expect(1, []string{"schedule", "list", "none"}, "none", "not found")
}

// TestSchedulesOfFormerRule checks that the schedules of a rule that has another trigger now are shown as inactive, and can be
// deleted, one at a time and by a file, but not replaced.
func TestSchedulesOfFormerRule(t *testing.T) {
	t.Parallel()
	n := newScheduleNode(t)
	for _, id := range []string{"a", "b", "c/1"} {
		n.mustRun("schedule", "put", "report-due", id, "--schedule", "@daily")
	}
	if s := readJSON[web.Schedule](n, "schedule", "get", "report-due", "a"); s.Inactive {
		t.Errorf("%+v", s)
	}
	n.mustRun("rule", "apply", "-f", writeFile(t, t.TempDir(), "rules.yaml", "name: report-due\nentity: report\ntrigger: {schedule: \"@daily\", emit: {subject: reports.due}}\n"))
	testwait.Until(t, "the node has the trigger", func() bool { return readJSON[web.Schedule](n, "schedule", "get", "report-due", "a").Inactive })
	n.expect(0, []string{"schedule", "get", "report-due", "a"}, "inactive", "delete it", "@stored")
	n.expect(0, []string{"schedule", "list", "report-due"}, "ENABLED", "inactive", "c/1")
	if page := readJSON[web.Page[web.Schedule]](n, "schedule", "list", "report-due"); len(page.Items) != 3 || !page.Items[2].Inactive || !page.Items[2].NextAt.IsZero() {
		t.Errorf("%+v", page)
	}
	n.expect(2, []string{"schedule", "put", "report-due", "a", "--schedule", "@hourly"}, "RULE: ", "deleted only", "@stored")
	n.expect(0, []string{"schedule", "delete", "report-due", "c/1"}, "deleted: schedule c/1 of rule report-due")
	n.expect(1, []string{"schedule", "delete", "report-due", "c/1"}, "not found")
	lines := `{"rule": "report-due", "id": "a", "deleted": true}` + "\n" + `{"rule": "report-due", "id": "b", "schedule": "@hourly"}`
	n.run(lines, "schedule", "put", "-f", "-").check(t, []string{"a file"}, 3, "deleted: 1; refused: 1", "line 2, rule", "deleted only")
	if page := readJSON[web.Page[web.Schedule]](n, "schedule", "list", "report-due"); len(page.Items) != 1 || page.Items[0].ID != "b" {
		t.Errorf("%+v", page)
	}
}

// TestScheduleWithoutTicks checks that a schedule without a further tick is stored with a warning, and that those of a paused
// rule have no next ticks, and the reason.
func TestScheduleWithoutTicks(t *testing.T) {
	t.Parallel()
	n := newScheduleNode(t)
	n.expect(0, []string{"schedule", "put", "report-due", "past", "--schedule", "@at 2026-01-01T00:00:00Z"}, "next tick      none", "warning", "no tick after now")
	line := `{"rule": "report-due", "id": "%d", "schedule": "@at 2026-01-01T00:00:00Z"}` + "\n"
	n.run("\n"+fmt.Sprintf(line, 1)+fmt.Sprintf(line, 2), "schedule", "put", "-f", "-").check(t, []string{"past lines"}, 0, "created: 2", "ended: 2", "warning: 2 enabled schedules", "lines 2 3")
	n.mustRun("schedule", "put", "report-due", "daily", "--schedule", "@daily")
	n.mustRun("rule", "pause", "report-due")
	got := n.expect(0, []string{"schedule", "get", "report-due", "daily"}, "paused", "deadman rule resume report-due", "next tick      none")
	if strings.Contains(got.out, "next ticks") {
		t.Errorf("%s has next ticks", got.out)
	}
	n.expect(0, []string{"schedule", "list", "report-due", "--prefix", "daily"}, "paused")
	n.mustRun("rule", "resume", "report-due")
	n.expect(0, []string{"schedule", "get", "report-due", "daily"}, "next ticks")
}

// TestScheduleErrors checks that errors name the flag or argument.
func TestScheduleErrors(t *testing.T) {
	t.Parallel()
	n := newScheduleNode(t)
	daily := []string{"--schedule", "@daily"}
	for _, c := range []struct {
		args  []string
		code  int
		parts []string
	}{
		{[]string{"report-due", "a"}, 2, []string{"requires --schedule"}},
		{append([]string{"report-due"}, daily...), 2, []string{"RULE", "ID"}},
		{[]string{"report-due", "a", "--schedule", "never"}, 2, []string{"--schedule", "5 fields"}},
		{append([]string{"report-due", "a", "--zone", "Mars"}, daily...), 2, []string{"--zone", "time zone"}},
		{append([]string{"report-due", "a", "--data", "{"}, daily...), 2, []string{"--data", "not valid JSON"}},
		{append([]string{"report-due", "a b"}, daily...), 1, []string{"query.id", "spaces"}},
		{append([]string{"order-unshipped", "a"}, daily...), 2, []string{"RULE: ", "@stored"}},
		{append([]string{"none", "a"}, daily...), 1, []string{"none", "not found"}},
		{[]string{"report-due", "-f", "x"}, 2, []string{"each line of the file"}},
		{[]string{"--disabled", "-f", "x"}, 2, []string{"each line of the file"}},
		{[]string{"-f", filepath.Join(t.TempDir(), "absent")}, 2, []string{"absent"}},
	} {
		n.expect(c.code, append([]string{"schedule", "put"}, c.args...), c.parts...)
	}
	n.expect(2, []string{"schedule", "ticks", "report-due", "a", "--outcome", "started"}, "--outcome", "emitted, planned, paused, skipped, canceled, unknown, failed")
}

// TestScheduleFile checks that the schedules of a file of any size are changed in several requests, and that its refused
// lines have their numbers in the file.
func TestScheduleFile(t *testing.T) {
	t.Parallel()
	n := newScheduleNode(t)
	var lines strings.Builder
	for i := range web.MaxBulkLines + 5 {
		fmt.Fprintf(&lines, `{"rule": "report-due", "id": "%05d", "schedule": "@daily"}`+"\n", i)
	}
	lines.WriteString(`{"rule": "absent", "id": "1", "schedule": "@daily"}` + "\n{")
	file := filepath.Join(t.TempDir(), "schedules.ndjson")
	if err := os.WriteFile(file, []byte(lines.String()), 0o600); err != nil {
		t.Fatal(err)
	}
	n.expect(3, []string{"schedule", "put", "-f", file}, "created: 10,005; updated: 0; refused: 2", "line 10006, rule", "absent", "line 10007")
	again := n.run("", "schedule", "put", "-f", file, "-o", "json")
	again.check(t, []string{"again"}, 3, `"created": 0`, `"unchanged": 10005`, `"line": 10006`)
	changes := `{"rule": "report-due", "id": "00000", "schedule": "@hourly"}` + "\n" + `{"rule": "report-due", "id": "00001", "deleted": true}` + "\n" +
		`{"rule": "report-due", "id": "none", "deleted": true}`
	n.run(changes, "schedule", "put", "--file", "-").check(t, []string{"changes"}, 0, "created: 0; updated: 1; deleted: 1; unknown: 1\n")
	if s := readJSON[web.Schedule](n, "schedule", "get", "report-due", "00000"); s.Schedule != "@hourly" || s.Version != 2 {
		t.Errorf("%+v", s)
	}
}

// TestScheduleTicks checks that the ticks of a stored schedule are listed as a table and as JSON, by outcome and time.
func TestScheduleTicks(t *testing.T) {
	t.Parallel()
	n := newScheduleNode(t)
	n.mustRun("schedule", "put", "report-due", "a/b", "--schedule", "@every 1s")
	var ticks web.Page[web.ScheduleTick]
	testwait.Until(t, "two emitted ticks", func() bool {
		ticks = readJSON[web.Page[web.ScheduleTick]](n, "schedule", "ticks", "report-due", "a/b", "--outcome", "emitted")
		return len(ticks.Items) >= 2
	})
	if last := ticks.Items[0]; last.Outcome != "emitted" || last.Attempts < 1 || last.EmittedAt.Before(last.DecidedAt) || !last.Tick.After(ticks.Items[1].Tick) {
		t.Errorf("%+v", ticks.Items)
	}
	n.expect(0, []string{"schedule", "ticks", "report-due", "a/b", "--outcome", "emitted", "--limit", "1"}, "OUTCOME", "emitted", "more results: continue with --cursor")
	n.expect(0, []string{"schedule", "ticks", "report-due", "a/b", "--outcome", "skipped"}, "no ticks match these filters")
	n.expect(0, []string{"schedule", "ticks", "report-due", "a/b", "--to", "-1h"}, "no ticks match these filters")
	n.expect(1, []string{"schedule", "ticks", "report-due", "none"}, "schedule none of rule report-due", "not found", "deadman schedule list report-due")
	n.expect(0, []string{"rule", "ticks", "report-due"}, "no ticks; the ticks of stored schedules are listed by deadman schedule ticks report-due\n")
	for _, command := range [][]string{{"schedule", "ticks", "report-due", "a/b"}, {"rule", "ticks", "report-due"}, {"history", "list"}} {
		names := []string{"--from", "--to"}
		if command[0] == "history" {
			names = []string{"--after", "--before"}
		}
		n.expect(2, append(command, names[0], "-1h", names[1], "-2h"), names[1], "is not after "+names[0], "swap them")
	}
	n.expect(2, []string{"schedule", "ticks", "report-due", "--late", "soon"}, "--late")
	n.mustRun("schedule", "put", "report-due", "c", "--schedule", "@every 1s")
	testwait.Until(t, "ticks of both schedules", func() bool {
		of := make(map[string]bool)
		for _, tick := range readJSON[web.Page[web.ScheduleTick]](n, "schedule", "ticks", "report-due", "--outcome", "emitted").Items {
			of[tick.ID] = true
		}
		return of["a/b"] && of["c"]
	})
	n.mustRun("schedule", "delete", "report-due", "c")
	n.expect(0, []string{"schedule", "ticks", "report-due", "c"}, "emitted")
	n.expect(0, []string{"schedule", "ticks", "report-due", "--late", "1h"}, "no ticks match these filters")
	n.expect(0, []string{"schedule", "ticks", "report-due", "--missed", "--late", "2h"}, "no ticks match these filters")
	n.expect(2, []string{"schedule", "ticks"}, "RULE ID")
	if out := n.mustRun("rule", "ticks", "order-unshipped"); out != "no ticks\n" {
		t.Errorf("a rule without stored schedules: %q", out)
	}
	n.expect(1, []string{"schedule", "ticks", "none", "a/b"}, "not found")
}
