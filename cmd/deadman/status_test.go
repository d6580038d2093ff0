package main

import (
	"bufio"
	"encoding/json"
	"errors"
	"io"
	"net/http"
	"os"
	"runtime"
	"slices"
	"strings"
	"testing"
	"time"
	"unicode/utf8"

	"deadman/internal/testwait"
	"deadman/web"
)

// TestStatus checks the status of a node: exit code 0 without open alerts, 3 with one, and 0 once it is acknowledged; and
// that of a node that does not answer.
func TestStatus(t *testing.T) {
	t.Parallel()
	n := startNode(t, quickRule)
	expectRun(t, n, exitOK, []string{"status"}, "no open alerts", "All systems of deadman operational", "database", "connected", "this node can hold shards", "16")
	n.run(t, "event", "send", "orders.created", `{"id": "1", "placed_at": "`+time.Now().UTC().Format(time.RFC3339)+`"}`)
	testwait.Until(t, "an alert is open", func() bool { return n.run(t, "status").code == exitCondition })
	expectRun(t, n, exitCondition, []string{"status"}, "1 warning")
	out := n.run(t, "status", "-o", "json")
	var s nodeStatus
	if err := json.Unmarshal([]byte(out.out), &s); err != nil || s.OK || s.Open.Unacknowledged != 1 || len(s.Nodes) != 1 || len(s.Conditions) < 10 || s.Sentence != "All systems of deadman operational" {
		t.Errorf("%v: %s", err, out.out)
	}
	n.run(t, "alert", "ack", "--all")
	expectRun(t, n, exitCondition, []string{"event", "send", "orders.created", `{"number": 1}`}, "published", "rule order-unshipped would refuse the event")
	n.run(t, "rule", "pause", "order-unshipped")
	expectRun(t, n, exitOK, []string{"status"}, "1 acknowledged", "paused", "order-unshipped")
	expectRun(t, n, exitOK, []string{"help", "exit-codes"}, "3  a condition does not hold")
	expectRun(t, n, exitUsage, []string{"rule", "lst"}, "did you mean deadman rule list?")
	expectRun(t, n, exitOK, []string{"alert", "list", "--open", "--rule", "none"}, "no open alerts match these filters")
	expectRun(t, n, exitUsage, []string{"alert", "list", "--severity", "crit"}, `--severity is "crit"; it must be one of info, warning, error, critical`)
	expectRun(t, n, exitOK, []string{"alert", "list", "--rule", "none"}, "no alerts match these filters")
	file := writeFile(t, t.TempDir(), "rule.yaml", quickRule)
	expectRun(t, n, exitOK, []string{"rule", "lint", "-f", file}, "no errors")
	expectRun(t, n, exitOK, []string{"rule", "apply", file, "--dry-run", "--adopt"}, "order-unshipped")
	expectRun(t, n, exitOK, []string{"rule", "preview", file, "--event", `{"id": "1", "placed_at": "2026-01-31T15:04:05Z"}`, "--at", "2026-01-31T15:04:05Z"}, "primary")
	expectRun(t, n, exitUsage, []string{"rule", "preview", file, "-f", file}, "accepts one file")
	expectRun(t, n, exitOK, []string{"alert", "unack", "--rule", "order-unshipped", "-o", "json"}, `"unacknowledged": 1`)
	expectRun(t, n, exitOK, []string{"alert", "unack", "--all"}, "acknowledgements removed from 0 alerts")
	expectRun(t, n, exitOK, []string{"alert", "unack", "order-unshipped", "1"}, "was not acknowledged; nothing changed")
	expectRun(t, n, exitCondition, []string{"status"}) // the step that came due meanwhile may be open, too
	n.stop(t)
	if code := n.run(t, "status", "--url", "http://127.0.0.1:1").code; code != exitFailure {
		t.Errorf("the exit code of a node that is gone is %d", code)
	}
}

// TestStatusShowsSystemAlerts checks that the status has the open alerts of deadman about itself, with the page of their
// remedies once.
func TestStatusShowsSystemAlerts(t *testing.T) {
	t.Parallel()
	folder := t.TempDir()
	writeFile(t, folder, "rule.yaml", quickRule)
	writeFile(t, folder, "refused.yaml", "name: refused\nnonsense: 1\n")
	n := startNodeFlags(t, "", "--rules", folder)
	testwait.Until(t, "the alert about the refused file is raised", func() bool {
		return strings.Contains(n.run(t, "status").out, "system alert")
	})
	got := n.run(t, "status")
	if !strings.Contains(got.out, "refused.yaml") || strings.Count(got.out, "#condition-rule_files") != 1 {
		t.Errorf("%+v", got)
	}
	var s nodeStatus
	if out := n.run(t, "status", "-o", "json"); json.Unmarshal([]byte(out.out), &s) != nil || len(s.System) != 1 || s.System[0].Step != "refused" {
		t.Errorf("%+v", out)
	}
}

// TestErrorsAsJSON checks that with -o json an error is one JSON object on standard error, with the exit code of the text.
func TestErrorsAsJSON(t *testing.T) {
	t.Parallel()
	n := startNode(t, quickRule)
	for line, want := range map[string]errorProblem{
		"rule get nope":                         {Type: "urn:deadman:problem:not-found", Title: "Not Found", Status: 404, Detail: "rule nope", ExitCode: exitFailure},
		"job list --where event.":               {Status: 400, Title: "Bad Request", Detail: "--where", ExitCode: exitUsage},
		"alert list --severity crit":            {Title: "Usage", Detail: `--severity is "crit"`, ExitCode: exitUsage},
		"alert list --nonsense":                 {Title: "Usage", Detail: "--nonsense", ExitCode: exitUsage},
		"status --url http://127.0.0.1:1":       {Title: "Failure", Detail: "127.0.0.1:1", ExitCode: exitFailure},
		"rule apply /nowhere/of/the/rules.yaml": {Title: "Usage", Detail: "/nowhere/of/the/rules.yaml", ExitCode: exitUsage},
	} {
		flags := [][]string{{"-o", "json"}, {"--output=json"}, {"-ojson"}}
		if want.Title != "Usage" { // the forms differ only in the command line
			flags = flags[:1]
		}
		for _, flag := range flags {
			got := n.run(t, append(strings.Fields(line), flag...)...)
			var p errorProblem
			if err := json.Unmarshal([]byte(got.err), &p); err != nil || got.out != "" || got.code != want.ExitCode || p.ExitCode != got.code {
				t.Errorf("%s: %v: %+v", line, err, got)
			}
			if p.Title != want.Title || p.Status != want.Status || !strings.Contains(p.Detail, want.Detail) || want.Type != "" && p.Type != want.Type || strings.HasPrefix(p.Detail, p.Title) {
				t.Errorf("%s: %+v, want %+v", line, p, want)
			}
			if want.Status == http.StatusBadRequest && (len(p.Errors) != 1 || p.Errors[0].Location != "--where") {
				t.Errorf("%s: the errors are %+v", line, p.Errors)
			}
		}
		if got := n.run(t, strings.Fields(line)...); !strings.HasPrefix(got.err, "deadman: ") || got.code != want.ExitCode {
			t.Errorf("%s as text: %+v", line, got)
		}
	}
	if got := n.run(t, "heartbeat", "run", "http://127.0.0.1:1/ping/x", "--", "false", "-o", "json"); strings.HasPrefix(got.err, "{") {
		t.Errorf("the flag of another command counts: %+v", got)
	}
}

// TestStatusWithoutDatabase checks that the status has the conditions while the node has no database.
func TestStatusWithoutDatabase(t *testing.T) {
	t.Parallel()
	if runtime.GOOS == "windows" {
		t.Skip("nodes are stopped by a signal")
	}
	f := newFleet(t)
	m := f.startReady(os.Args[0])
	if err := f.postgres.Crash(); err != nil {
		t.Fatal(err)
	}
	m.eventually("the node notices", func() bool { return m.ready() == http.StatusServiceUnavailable })
	m.eventually("it cannot look tokens up", func() bool { return m.get("/api/v1/tokens/self") == http.StatusServiceUnavailable })
	status := func(args ...string) result {
		return runBinary(t, []string{"DEADMAN_URL=" + m.url()}, append([]string{"status"}, args...)...)
	}
	if got := status(); got.code != exitCondition || !strings.Contains(got.out, "unknown: ") || !strings.Contains(got.out, "#condition-database") {
		t.Errorf("%+v", got)
	}
	if got := status(); !strings.Contains(got.out, "details are hidden") || strings.Count(got.out, "remedies: ") != 1 || strings.Index(got.out, "\ndatabase ") > strings.Index(got.out, " failed") {
		t.Errorf("the database is not first, or not the only remedy:\n%s", got.out)
	}
	var s nodeStatus
	if got := status("-o", "json"); json.Unmarshal([]byte(got.out), &s) != nil || s.OK || s.Error == "" || !web.LacksDatabase(s.Conditions) {
		t.Errorf("%+v", got)
	}
	if err := f.postgres.Restart(); err != nil {
		t.Fatal(err)
	}
	m.eventually("the node has its database again", func() bool { return m.ready() == http.StatusOK })
	if got := status(); got.code == exitFailure || strings.Contains(got.out, "unknown: ") {
		t.Errorf("%+v", got)
	}
}

// expectRun runs a command and checks its exit code and texts of its output.
func expectRun(t *testing.T, n *node, code int, args []string, texts ...string) {
	t.Helper()
	got := n.run(t, args...)
	if got.code != code {
		t.Errorf("%q: exit code %d, want %d: %s%s", args, got.code, code, got.out, got.err)
	}
	for _, text := range texts {
		if !strings.Contains(got.out+got.err, text) {
			t.Errorf("%q does not print %q: %s%s", args, text, got.out, got.err)
		}
	}
}

// TestListsFitTerminal checks that lists fit a real terminal of 80 columns, that a summary keeps its room, and
// that the left-out columns are named.
func TestListsFitTerminal(t *testing.T) {
	t.Parallel()
	n := startNode(t, strings.ReplaceAll(quickRule, "order-unshipped", "order-unshipped-in-the-warehouse"))
	n.run(t, "event", "send", "orders.created", `{"id": "order-2026-11-26-000017", "placed_at": "`+time.Now().UTC().Format(time.RFC3339)+`"}`)
	n.run(t, "event", "send", "orders.created", `{"number": 1}`)
	testwait.Until(t, "an alert is open", func() bool { return n.run(t, "status").code == exitCondition })
	for _, c := range []struct {
		args  []string
		whole string
		left  string
	}{
		{[]string{"alert", "list"}, "order order-2026-11-26-000017 is ", "step, entity, rule"},
		{[]string{"rule", "list"}, "order-unshipped-in-the-warehouse", "by, bundle"},
		{[]string{"event", "streams"}, "DEADMAN_EVENTS", "gap-free since"},
		{[]string{"dead-letter", "list"}, "event.id", "seq"},
		{[]string{"job", "list"}, "order-2026-11-26-000017", "checks"},
		{[]string{"status"}, "All systems of deadman operational", ""},
	} {
		terminal, screen := pseudoTerminal(t, 80)
		warnings := new(strings.Builder)
		p := newCLI(strings.NewReader(""), terminal, warnings, append(n.env(), "NO_COLOR=1"))
		code := p.run(t.Context(), c.args)
		if code != exitOK && code != exitCondition {
			t.Fatalf("%q: exit code %d: %s", c.args, code, warnings)
		}
		if _, err := io.WriteString(terminal, "end of the list\n"); err != nil {
			t.Fatal(err)
		}
		var shown []string
		for lines := bufio.NewScanner(screen); lines.Scan(); {
			line := strings.TrimRight(lines.Text(), " \r")
			if line == "end of the list" {
				break
			}
			shown = append(shown, line)
			if width := utf8.RuneCountInString(line); width > 80 {
				t.Errorf("%q: %d columns: %s", c.args, width, line)
			}
		}
		if text := strings.Join(shown, "\n"); !strings.Contains(text, c.whole) {
			t.Errorf("%q does not show %q:\n%s", c.args, c.whole, text)
		}
		if !strings.Contains(warnings.String(), c.left) {
			t.Errorf("%q names the columns %q, want %s", c.args, warnings, c.left)
		}
	}
	if all := runJSON[web.Page[web.Alert]](t, n, "alert", "list"); !slices.ContainsFunc(all.Items, func(a web.Alert) bool { return a.Step == "primary" }) {
		t.Error("JSON lacks the step")
	}
}

// TestStatusNamesRemedies checks that a failed condition has the address of its section in the documentation, in the status,
// at /readyz and on the page of the node's health, and that the node serves the section.
func TestStatusNamesRemedies(t *testing.T) {
	t.Parallel()
	n := startNodeFlags(t, "", "--heartbeat-url", "http://127.0.0.1:1/", "--heartbeat-every", "1s")
	testwait.Until(t, "the heartbeat fails", func() bool { return n.run(t, "status").code == exitCondition })
	at := endpointsOf(t, n).HTTP
	const section = "/docs/operations/troubleshooting#condition-heartbeat"
	expectRun(t, n, exitCondition, []string{"status"}, "failed", "remedies: "+at+section)
	expectRun(t, n, exitCondition, []string{"status", "-o", "json"}, `"runbook": "`+at+section+`"`)
	for path, text := range map[string]string{
		"/readyz": `"runbook":"` + section + `"`, "/health": `<a href="` + section + `">`, strings.Split(section, "#")[0]: ` id="condition-heartbeat"`,
	} {
		response, err := http.Get(at + path)
		if err != nil {
			t.Fatal(err)
		}
		body, err := io.ReadAll(response.Body)
		if err = errors.Join(err, response.Body.Close()); err != nil || !strings.Contains(string(body), text) {
			t.Errorf("%s has no %q: %v: %.300s", path, text, err, body)
		}
	}
}
