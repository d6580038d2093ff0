package main

import (
	"fmt"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"deadman/internal/access"
	"deadman/internal/testwait"
	"deadman/web"
)

// TestJobVerbs checks the commands on a job from its creation to its end.
func TestJobVerbs(t *testing.T) {
	t.Parallel()
	n := newInProcessNode(t)
	n.mustRun("rule", "apply", "-f", writeFile(t, filepath.Join(t.TempDir(), "shop"), "rules.yaml", goodRule+"---"+ruleNamed("other")))

	const key = "a/b ?c"
	before := time.Now().Add(-30 * time.Minute)
	j := readJSON[web.Job](n, "job", "create", "order-unshipped", key, "--event", `{"id": "1"}`, "--since", "-30m")
	if j.Key != key || !strings.Contains(string(j.Event), `"id": "1"`) || j.Since.Before(before.Add(-time.Minute)) || j.Since.After(before.Add(time.Minute)) {
		t.Errorf("%+v", j)
	}
	n.expect(1, []string{"job", "create", "order-unshipped", key}, "Conflict")
	n.expect(1, []string{"job", "create", "absent", key}, "absent", "not found")
	n.expect(2, []string{"job", "create", "order-unshipped", "2", "--event", "{"}, "--event", "not valid JSON")
	n.expect(2, []string{"job", "create", "order-unshipped", "2", "--since", "yesterday"}, "--since", "yesterday", "15:04")

	j = readJSON[web.Job](n, "job", "snooze", "order-unshipped", key, "--for", "2h")
	if rest := time.Until(j.NextCheckAt); rest < 119*time.Minute || rest > 122*time.Minute {
		t.Errorf("it rests %s", rest)
	}
	tomorrow := time.Now().UTC().Add(24 * time.Hour).Format("2006-01-02 15:04")
	n.expect(0, []string{"job", "snooze", "order-unshipped", key, "--until", tomorrow}, "next check     "+tomorrow)
	n.expect(2, []string{"job", "snooze", "order-unshipped", key}, "--for or --until")
	n.expect(2, []string{"job", "snooze", "order-unshipped", key, "--for", "2 h"}, "--for", "2 h")
	n.expect(exitUsage, []string{"job", "snooze", "order-unshipped", key, "--until", "-1h"}, "is in the past")

	n.expect(0, []string{"job", "list", "--due"}, "no pending jobs")
	n.expect(0, []string{"job", "list", "--where", `event.id = "1"`}, "searched 1 ", key, "unless orders.shipped")
	n.expect(0, []string{"job", "list", "--where", `event.id = "2"`}, "searched 1 ", "no pending jobs match these filters")
	n.expect(exitUsage, []string{"job", "list", "--where", "nonsense"}, "--where: ", "no = or !=")
	n.expect(0, []string{"job", "list", "--due-before", "+2d", "--key", key}, key, "waiting")
	n.expect(0, []string{"job", "check", "order-unshipped", key}, "pending ", "the expected event has not happened", "next check")
	if l := readJSON[web.CheckResult](n, "job", "check", "order-unshipped", key); l.Ended {
		t.Errorf("%+v", l)
	}
	n.expect(1, []string{"job", "check", "order-unshipped", "other"}, "not found", "history")

	n.mustRun("job", "create", "other", key)
	n.expect(0, []string{"job", "cancel", "--entity", "order", key, "-y"}, "cancelled: 2 jobs")
	n.expect(0, []string{"explain", "order", key}, "cancelled", "by "+access.Loopback)
	if c := readJSON[web.CancelAllResult](n, "job", "cancel", "--entity", "order", key); c.Cancelled != 0 {
		t.Errorf("cancelled again: %+v", c)
	}
	n.expect(2, []string{"job", "cancel", "--entity", "order", "order-unshipped", key}, "or KEY with --entity; got 2 arguments")
	n.expect(exitUsage, []string{"job", "cancel", "--all"}, "--all cancels every pending job; without a terminal it requires --yes")
	n.expect(exitUsage, []string{"job", "cancel", "--all", "--rule", "other", "-y"}, "it cannot be combined with other fields")
	n.expect(2, []string{"alert", "snooze", "--rule", "other"}, "requires either --for or --until")
	n.expect(0, []string{"alert", "snooze", "--rule", "nope", "--for", "1h"}, "0 jobs snoozed", "no rule is named nope")
	n.expect(0, []string{"alert", "ack", "--rule", "nope"}, "0 alerts acknowledged", "no rule is named nope")
	n.expect(0, []string{"alert", "unack", "--rule", "nope"}, "acknowledgements removed from 0 alerts", "no rule is named nope")
	n.expect(2, []string{"alert", "unack", "--severity", "bogus"}, "--severity", "bogus", "warning")
	n.expect(2, []string{"alert", "unack"}, "requires ID, RULE KEY, or a filter such as --rule")
	n.expect(2, []string{"alert", "unack", "1234", "--all"}, "either an alert or --all, not both")
	n.expect(2, []string{"job", "cancel", "order-unshipped"}, "requires RULE KEY")
	n.mustRun("job", "create", "other", "2")
	n.expect(0, []string{"job", "cancel", "other", "2"}, "cancelled: job of rule other for key 2")

	n.expect(0, []string{"history", "list", "--outcome", "cancelled", "--after", "-1h", "--before", "+1m"}, key, "other")
	n.expect(0, []string{"history", "list", "--outcome", "exhausted"}, "no ended jobs")
	n.expect(0, []string{"history", "list", "--before", "-1h"}, "no ended jobs")
	n.expect(2, []string{"history", "list", "--after", "soon"}, "--after", `invalid time "soon"`)
	n.expect(0, []string{"alert", "list", "--status", "firing", "--severity", "critical", "--after", "-1h"}, "no alerts")
	n.expect(2, []string{"alert", "list", "--status", "fired"}, "--status")
}

// TestJobsOfFile checks that the jobs of a file are created in several requests, and that errors name the lines of
// the file.
func TestJobsOfFile(t *testing.T) {
	t.Parallel()
	n := newInProcessNode(t)
	n.mustRun("rule", "apply", "-f", writeFile(t, filepath.Join(t.TempDir(), "shop"), "rules.yaml", goodRule))
	var lines strings.Builder
	const waits = web.MaxBulkLines + 5
	for i := range waits {
		fmt.Fprintf(&lines, `{"rule": "order-unshipped", "key": "%d"}`+"\n", i)
	}
	lines.WriteString("\n" + `{"rule": "absent", "key": "1"}` + "\n" + strings.Repeat("x", web.MaxBulkLine+1) + "\n" + `{"rule": "order-unshipped", "key": "7"}`)
	file := writeFile(t, t.TempDir(), "jobs.ndjson", lines.String())
	n.expect(3, []string{"job", "create", "-f", file}, "created: 10,005; existing: 1; refused: 2", "line 10007, rule", "absent", "line 10008", "256 KiB")
	if got := n.run("", "job", "create", "-f", file, "-o", "json"); got.code != 3 || !strings.Contains(got.out, `"created": 0`) || !strings.Contains(got.out, `"existed": 10006`) {
		t.Errorf("again: %d %.300s", got.code, got.out)
	}
	n.expect(0, []string{"job", "list", "--key", "10004"}, "10004", "waiting")
	n.expect(2, []string{"job", "create", "order-unshipped", "-f", file}, "each line of the file")
	n.expect(2, []string{"job", "create", "-f", file + ".not"}, "no such file")
	n.expect(2, []string{"job", "create", "order-unshipped"}, "requires RULE KEY")
}

// TestJobRow checks that no check is shown for a job that expects a beat after its last step, or for a paused one.
func TestJobRow(t *testing.T) {
	t.Parallel()
	now := time.Date(2026, 3, 2, 12, 0, 0, 0, time.UTC)
	p, soon := &cli{now: func() time.Time { return now }, zone: time.UTC}, now.Add(time.Minute)
	for _, c := range []struct {
		job  web.Job
		next string
		ack  string
	}{
		{web.Job{}, "-", ""},
		{web.Job{PausedAt: now}, "", ""},
		{web.Job{NextCheckAt: soon}, "in 60 s", ""},
		{web.Job{NextCheckAt: soon, Acknowledged: &web.Acknowledged{}}, "in 60 s", "no end"},
		{web.Job{NextCheckAt: soon, Acknowledged: &web.Acknowledged{Until: now.Add(time.Hour)}}, "in 60 s", "until 2026-03-02 13:00:00 UTC"},
	} {
		row := jobRow(p, c.job)
		if next, ack := row[0].text, row[len(row)-2].text; next != c.next || ack != c.ack {
			t.Errorf("%+v: next check %q, acknowledged %q", c.job, next, ack)
		}
	}
}

// TestDeadLetter checks that a dead letter is shown with its event.
func TestDeadLetter(t *testing.T) {
	t.Parallel()
	n := newInProcessNode(t)
	n.mustRun("rule", "apply", "-f", writeFile(t, filepath.Join(t.TempDir(), "shop"), "rule.yaml", goodRule))
	n.expect(exitCondition, []string{"event", "send", "orders.created", `{"note": "no id"}`}, "published")
	bytes := writeFile(t, t.TempDir(), "event", "\xff\xfe")
	n.expect(exitCondition, []string{"event", "send", "orders.created", "@" + bytes}, "published")
	var letters []web.DeadLetter
	testwait.Until(t, "the dead letters are there", func() bool {
		letters = readJSON[web.Page[web.DeadLetter]](n, "dead-letter", "list").Items
		return len(letters) == 2
	})
	shown := n.mustRun("dead-letter", "get", "2") + n.mustRun("dead-letter", "get", "1")
	for _, part := range []string{
		"orders.created", "DEADMAN_EVENTS, message 1", `body           {"note": "no id"}`, "header         content-type: application/json",
		`body           "\xff\xfe" (not UTF-8)`, "order-unshipped",
	} {
		if !strings.Contains(shown, part) {
			t.Errorf("it does not contain %q:\n%s", part, shown)
		}
	}
	if d := readJSON[web.DeadLetter](n, "dead-letter", "get", "1"); d.ID != 1 || d.Reason == "" {
		t.Errorf("%+v", d)
	}
	n.expect(1, []string{"dead-letter", "get", "99"}, "not found")
}

// TestSummaryOfDeadLetters checks that a summary is shown with its number of events and without a body.
func TestSummaryOfDeadLetters(t *testing.T) {
	var out strings.Builder
	io := &cli{out: &out, now: time.Now, zone: time.UTC}
	at := time.Date(2026, 3, 2, 12, 0, 0, 0, time.UTC)
	if err := printDeadLetter(io, web.DeadLetter{ID: 7, Rule: "acme-hold", Reason: "no room", Stream: "ORDERS", Seq: 11, EventAt: at, Summarized: 17, LastSeq: 30, LastEventAt: at.Add(time.Second)}); err != nil {
		t.Fatal(err)
	}
	for _, want := range []string{"stream, message 11", "17 refused events, up to message 30; they are not stored and cannot be retried", "2026-03-02 12:00:01 UTC"} {
		if !strings.Contains(strings.ReplaceAll(out.String(), "ORDERS", "stream"), want) {
			t.Errorf("it does not contain %q:\n%s", want, out.String())
		}
	}
	if strings.Contains(out.String(), "body") {
		t.Errorf("a summary has a body:\n%s", out.String())
	}
}

// TestDeadLetterActions checks that dead letters are retried with the current rule, and dropped.
func TestDeadLetterActions(t *testing.T) {
	t.Parallel()
	n := newInProcessNode(t)
	rule := writeFile(t, filepath.Join(t.TempDir(), "shop"), "rule.yaml", strings.ReplaceAll(goodRule, "event.id", "event.number"))
	n.mustRun("rule", "apply", "-f", rule)
	for _, id := range []string{"1", "2", "3"} {
		sent := n.run("", "event", "send", "orders.created", `{"id": "`+id+`"}`)
		if sent.code != exitCondition || !strings.Contains(sent.err, "rule order-unshipped would refuse the event: trigger: ") || !strings.Contains(sent.out, "published: ") {
			t.Errorf("%+v", sent)
		}
	}
	testwait.Until(t, "the dead letters are there", func() bool {
		return len(readJSON[web.Page[web.DeadLetter]](n, "dead-letter", "list", "--subject", "orders.created").Items) == 3
	})
	counted := readJSON[web.DeadLetterReasons](n, "dead-letter", "reasons", "--rule", "order-unshipped")
	if len(counted.Items) != 1 || counted.Count != 3 || counted.Items[0].Count != 3 {
		t.Errorf("counted: %+v", counted)
	}
	n.expect(0, []string{"dead-letter", "reasons"}, "3      order-unshipped", counted.Items[0].Reason)
	n.expect(0, []string{"dead-letter", "reasons", "--reason", "another"}, "no dead letters")
	n.expect(0, []string{"dead-letter", "list", "--reason", counted.Items[0].Reason}, counted.Items[0].Reason)
	n.expect(1, []string{"dead-letter", "retry", "1"}, "retried: 1 dead letter; 0 processed, 1 refused again")
	n.expect(0, []string{"dead-letter", "get", "1"}, "retried        1 time")

	n.mustRun("rule", "apply", "-f", writeFile(t, filepath.Dir(rule), "rule.yaml", goodRule))
	n.expect(0, []string{"dead-letter", "retry", "2", "1"}, "retried: 2 dead letters; 2 processed, 0 refused again")
	if j := readJSON[web.Job](n, "job", "get", "order-unshipped", "2"); j.Key != "2" || !strings.Contains(string(j.Event), `"id": "2"`) {
		t.Errorf("%+v", j)
	}
	n.expect(1, []string{"dead-letter", "retry", "1"}, "not found")
	n.expect(0, []string{"dead-letter", "retry", "--rule", "order-unshipped"}, "retried: 1 dead letter; 1 processed")
	if got := readJSON[web.RetryResult](n, "dead-letter", "retry", "--all"); got.Retried != 0 {
		t.Errorf("nothing is left: %+v", got)
	}
	n.expect(0, []string{"token", "audit", "--action", "dead-letter.retry"}, "dead-letter/1", "ingested; jobs created: 1", "refused again: trigger")

	n.expect(exitCondition, []string{"event", "send", "orders.created", `{}`}, "published")
	testwait.Until(t, "another one is there", func() bool {
		return len(readJSON[web.Page[web.DeadLetter]](n, "dead-letter", "list").Items) == 1
	})
	n.expect(0, []string{"dead-letter", "drop", "--subject", "orders.shipped", "-y"}, "dropped: 0 dead letters")
	n.expect(0, []string{"dead-letter", "drop", "4"}, "dropped: 1 dead letter")
	n.expect(1, []string{"dead-letter", "drop", "4"}, "not found")
	for _, verb := range []string{"retry", "drop"} {
		n.expect(2, []string{"dead-letter", verb}, "requires IDs")
		n.expect(2, []string{"dead-letter", verb, "4", "--all"}, "requires IDs")
		n.expect(2, []string{"dead-letter", verb, "x"}, `"x" is not a dead letter id`)
	}
}

// TestUndeterminedManualCheckReturnsItsReason checks that an undetermined check differs from one that found no event.
func TestUndeterminedManualCheckReturnsItsReason(t *testing.T) {
	t.Parallel()
	n := newInProcessNode(t)
	openRule := strings.Replace(ruleNamed("waiting"), "\nescalate:", "\nwhile: state.status == \"OPEN\"\nescalate:", 1)
	n.mustRun("rule", "apply", "-f", writeFile(t, filepath.Join(t.TempDir(), "shop"), "rules.yaml", openRule))
	n.mustRun("job", "create", "waiting", "1", "--event", `{"id": "1"}`)
	n.expect(0, []string{"job", "check", "waiting", "1"}, "undetermined", "the check could not get an answer", "a value is missing")
	if l := readJSON[web.CheckResult](n, "job", "check", "waiting", "1"); l.Ended || !l.Undetermined {
		t.Errorf("%+v", l)
	}
	n.mustRun("job", "create", "waiting", "2", "--event", `{"id": "2", "status": "OPEN"}`)
	n.expect(0, []string{"job", "check", "waiting", "2"}, "still pending")
}

// TestJobOfMissedHeartbeat checks that a missed heartbeat is not checked after its last step until a beat comes.
func TestJobOfMissedHeartbeat(t *testing.T) {
	t.Parallel()
	n := newInProcessNode(t)
	n.mustRun("rule", "apply", "-f", writeFile(t, t.TempDir(), "rule.yaml", `name: device-silent
entity: device
trigger: {heartbeat: {event: devices.*.beat, key: wildcard(1), every: 1s}}
slot: 1s
`))
	n.mustRun("event", "send", "devices.a.beat", `{}`)
	testwait.Until(t, "the silence of the device is alerted", func() bool {
		page := readJSON[web.Page[web.Job]](n, "job", "list")
		return len(page.Items) == 1 && page.Items[0].Step == 1
	})
	if j := readJSON[web.Job](n, "job", "get", "device-silent", "a"); !j.NextCheckAt.IsZero() || j.Status != web.Open {
		t.Errorf("%+v", j)
	}
	for _, verb := range [][]string{{"job", "get", "device-silent", "a"}, {"explain", "device", "a"}} {
		if text := n.mustRun(verb...); !strings.Contains(text, "next check     none scheduled") || strings.Contains(text, " d)") {
			t.Errorf("%v: %s", verb, text)
		}
	}
	if l := readJSON[web.CheckResult](n, "job", "check", "device-silent", "a"); !l.NextCheckAt.IsZero() || l.Reason != "still pending" {
		t.Errorf("checked now: %+v", l)
	}
}
