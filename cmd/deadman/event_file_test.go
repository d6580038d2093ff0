package main

import (
	"strings"
	"testing"

	"deadman/internal/testwait"
	"deadman/web"
)

// TestSendEvents checks that event send -f publishes the lines of a file in order, counts duplicates and refusals, and names
// the line of the first refusal and of an invalid line.
func TestSendEvents(t *testing.T) {
	t.Parallel()
	n := newInProcessNode(t)
	dir := t.TempDir()
	n.mustRun("rule", "apply", "-f", writeFile(t, dir, "rule.yaml", "name: late\nentity: order\ntrigger: {event: orders.created, key: event.id}\nresolve: {event: orders.shipped, key: event.id}\nescalate: [{after: 1h, step: first}]\n"))
	const lines = `{"subject": "orders.created", "data": {"id": "1"}, "id": "created-1"}
{"subject": "orders.created", "data": {"id": "2"}}

{"subject": "orders.created", "data": {"id": "1"}, "id": "created-1"}
{"subject": "orders.shipped", "data": {"id": "2"}}
`
	n.expect(0, []string{"event", "send", "-f", writeFile(t, dir, "good.ndjson", lines)}, "published: 4, duplicates: 1")
	testwait.Until(t, "order 1 waits, and order 2 does not", func() bool {
		jobs := readJSON[web.Page[web.Job]](n, "job", "list").Items
		ended := readJSON[web.Page[web.EndedJob]](n, "history", "list", "--rule", "late").Items
		return len(jobs) == 1 && jobs[0].Key == "1" && len(ended) == 1
	})
	n.expect(0, []string{"explain", "order", "1"}, "late, version 1")
	n.expect(0, []string{"explain", "late", "1"}, "late, version 1", "started")
	n.expect(0, []string{"explain", "late", "2"}, "resolved")
	n.expect(0, []string{"explain", "other", "1"}, "other", "no jobs, pending or ended", "no rule has the entity other")
	if e := readJSON[web.Entity](n, "explain", "late", "1"); e.Entity != "order" || len(e.Jobs.Items) != 1 {
		t.Errorf("%+v", e)
	}

	refused := n.run(lines+`{"subject": "orders.created", "data": {"number": 7}}`+"\n"+`{"subject": "orders.created", "data": {}}`, "event", "send", "-f", "-")
	if refused.code != exitCondition || refused.out != "published: 6, duplicates: 2, refused by a rule: 2\n" || !strings.Contains(refused.err, "line 6: rule late would refuse the event: ") {
		t.Errorf("%+v", refused)
	}
	counts := n.run(`{"subject": "orders.created", "data": {}}`, "event", "send", "-f", "-", "-o", "json")
	if counts.code != exitCondition || !strings.Contains(counts.out, `"first_refused": {`) || !strings.Contains(counts.out, `"line": 1`) {
		t.Errorf("%+v", counts)
	}
	for text, want := range map[string]string{
		"{":                       "line 6: unexpected EOF; write {",
		`{"data": {}}`:            "line 6: the event has no subject",
		`{"subject": "a.b"} more`: "line 6: there is text after the event",
		`{"subject": "a.b", "time": "2026-01-01T00:00:00Z"}`: `line 6: json: unknown field "time"`,
		`{"subject": "no.stream", "data": {}}`:               "line 6: ",
	} {
		got := n.run(lines+text+"\n"+lines, "event", "send", "-f", "-")
		if got.code != 1 || !strings.Contains(got.err, want) || !strings.Contains(got.err, "4 events of the lines before were published") || got.out != "published: 4, duplicates: 2\n" {
			t.Errorf("%s: %+v", text, got)
		}
	}
	n.expect(2, []string{"event", "send", "orders.created", "-f", "-"}, "each line of the file has its own")
	n.expect(2, []string{"event", "send", "-f", dir + "/none"}, "no such file")
}

// TestSendReportsEffect checks that event send reports the job that an event starts, updates or ends, or that it concerns no rule.
func TestSendReportsEffect(t *testing.T) {
	t.Parallel()
	n := newInProcessNode(t)
	n.mustRun("rule", "apply", "-f", writeFile(t, t.TempDir(), "rules.yaml", strings.Replace(goodRule, "key: event.id}\nescalate", "key: event.id, if: event.whole}\nescalate", 1)))
	n.expect(0, []string{"event", "send", "orders.created", `{"id": "1"}`}, "published: orders.created", "starts a job, unless one is pending, of order-unshipped: order 1")
	n.expect(0, []string{"event", "send", "orders.shipped", `{"id": "1", "whole": true}`}, "ends the pending job, if any, of order-unshipped: order 1")
	n.expect(0, []string{"event", "send", "orders.shipped", `{"id": "1", "whole": false}`}, "no rule takes it: none subscribes")
	n.expect(exitUsage, []string{"event", "send", "orders.created", `{id: 1}`}, "DATA is not JSON", "quote it for the shell")
	if got := n.mustRun("dead-letter", "list"); strings.Contains(got, "{id: 1}") {
		t.Errorf("the refused data was published:\n%s", got)
	}
}

// A token that may not read rules does not learn the effects of an event, nor that it has none.
func TestSendHidesEffects(t *testing.T) {
	t.Parallel()
	n := newClosedNode(t)
	n.mustRun("rule", "apply", "-f", writeFile(t, t.TempDir(), "rules.yaml", goodRule))
	made := readJSON[web.NewToken](n, "token", "create", "shop", "--scope", "events")
	shop := &inProcessNode{t: t, env: append(n.env[:1:1], "DEADMAN_TOKEN="+made.Secret)}
	shop.expect(0, []string{"event", "send", "orders.created", `{"id": "1"}`}, "published: orders.created", "no rule that the token may read takes it; the effects of other rules are hidden")
	n.expect(0, []string{"event", "send", "orders.created", `{"id": "2"}`}, "starts a job, unless one is pending, of order-unshipped: order 2")
}

// TestErrorsNameFlags checks that an error of the API names the flag or argument of the command, with the exit code of
// wrong usage.
func TestErrorsNameFlags(t *testing.T) {
	t.Parallel()
	n := newInProcessNode(t)
	n.mustRun("rule", "apply", "-f", writeFile(t, t.TempDir(), "rules.yaml", goodRule))
	for _, c := range []struct {
		args []string
		want string
	}{
		{[]string{"event", "send", "orders..created", "{}"}, "SUBJECT: "},
		{[]string{"job", "list", "--where", "nonsense"}, "--where: "},
		{[]string{"job", "cancel", "--all", "--rule", "order-unshipped", "--reason", "x", "--yes"}, "--all: "},
		{[]string{"mute", "create", "--match", "rule=order-unshipped", "--for", "2000d", "--reason", "x"}, "--for: "},
	} {
		got := n.expect(exitUsage, c.args, c.want)
		for _, word := range []string{"path.", "query.", "body."} {
			if strings.Contains(got.err, word) {
				t.Errorf("%q: %s", c.args, got.err)
			}
		}
	}
	n.expect(exitUsage, []string{"rule", "list", "--paused"}, "one of true, false", "--paused true")
}
