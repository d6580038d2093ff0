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
	n.expect(0, []string{"explain", "other", "1"}, "other", "no pending jobs")
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
		if got.code != 1 || !strings.Contains(got.err, want) || !strings.Contains(got.err, "4 events of the lines before were published") {
			t.Errorf("%s: %+v", text, got)
		}
	}
	n.expect(2, []string{"event", "send", "orders.created", "-f", "-"}, "each line of the file has its own")
	n.expect(2, []string{"event", "send", "-f", dir + "/none"}, "no such file")
}
