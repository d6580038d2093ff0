package main

import (
	"bytes"
	"context"
	"encoding/csv"
	"encoding/json"
	"io"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"deadman/internal/replay"
)

// replayedOrders are the events of two orders: the first is shipped late, the second not at all.
const replayedOrders = `{"subject": "orders.created", "time": "2026-03-02T10:00:00Z", "data": {"id": "1"}}
{"subject": "orders.created", "time": "2026-03-02T10:00:30Z", "data": {"id": "2"}}
{"subject": "orders.shipped", "time": "2026-03-02T17:00:00Z", "data": {"id": "1"}}
`

const replayedRule = `name: order-unshipped
entity: order
trigger: {event: orders.created, key: event.id}
resolve: {event: orders.shipped, key: event.id}
escalate: [{after: 3h, step: late, text: "order {{key}} is late"}]
`

// replayCLI runs replay without a node.
func replayCLI(t *testing.T, input string, args ...string) (code int, out, errors string) {
	t.Helper()
	var o, e bytes.Buffer
	io := newCLI(strings.NewReader(input), &o, &e, nil)
	io.zone = time.UTC
	code = io.run(t.Context(), append([]string{"replay"}, args...))
	return code, o.String(), e.String()
}

// Each format has the same alerts and counts, and the same input gives the same bytes.
func TestReplayPrints(t *testing.T) {
	t.Parallel()
	rule := writeFile(t, t.TempDir(), "rule.yaml", replayedRule)
	code, text, _ := replayCLI(t, replayedOrders, "-f", rule, "--events", "-")
	want := `2026-03-02 13:00:00 UTC  warning   order-unshipped  order 1  late  order 1 is late
2026-03-02 13:01:00 UTC  warning   order-unshipped  order 2  late  order 2 is late
2026-03-02 17:00:00 UTC  resolved  order-unshipped  order 1  late  order 1: resolved after 7h

3 events from 2026-03-02 10:00:00 UTC to 2026-03-02 17:00:00 UTC, 2 alerts, 1 resolved

RULE             JOBS  IN TIME  LATE  NEVER  PENDING  P50  P95  P99  GUARDS  ALERTS BY STEP
order-unshipped  2     0        1     0      1        7h   7h   7h   -       late 2
`
	if diff := cmp.Diff(want, text); diff != "" || code != 0 {
		t.Errorf("exit code %d:\n%s", code, diff)
	}
	if _, again, _ := replayCLI(t, replayedOrders, "-f", rule, "--events", "-"); again != text {
		t.Errorf("another run printed\n%s", again)
	}
	_, text, _ = replayCLI(t, replayedOrders, "-f", rule, "--events", "-", "-o", "json")
	var object struct {
		Alerts []replayedAlert
		replay.Summary
	}
	if err := json.Unmarshal([]byte(text), &object); err != nil || len(object.Alerts) != 3 || object.Alerts[0].Key != "1" || object.Rules[0].Alerts["late"] != 2 || object.Events != 3 {
		t.Errorf("%v\n%s", err, text)
	}
	_, text, _ = replayCLI(t, replayedOrders, "-f", rule, "--events", "-", "-o", "csv")
	rows, err := csv.NewReader(strings.NewReader(text)).ReadAll()
	if err != nil || len(rows) != 4 || rows[0][0] != "slot" || rows[3][0] != "2026-03-02T17:00:00Z" {
		t.Errorf("%v\n%s", err, text)
	}
	hostile := strings.ReplaceAll(replayedOrders, `"id": "2"`, `"id": "=1+1\u001b[2J"`)
	if _, text, _ := replayCLI(t, hostile, "-f", rule, "--events", "-", "-o", "csv"); !strings.Contains(text, `,'=1+1\x1b[2J,late,`) {
		t.Errorf("a formula with an escape sequence:\n%s", text)
	}
	for _, format := range []string{"text", "json", "csv"} {
		if _, text, _ := replayCLI(t, replayedOrders, "-f", rule, "--events", "-", "--summary", "-o", format); strings.Contains(text, "is late") || !strings.Contains(text, "order-unshipped") {
			t.Errorf("--summary -o %s printed\n%s", format, text)
		}
	}
}

// A range leaves out the events outside, and the checks after its end.
func TestReplayRange(t *testing.T) {
	t.Parallel()
	rule := writeFile(t, t.TempDir(), "rule.yaml", replayedRule)
	for _, c := range []struct {
		args []string
		want string // of the table
	}{
		{[]string{"--until", "2026-03-02T12:59:59Z"}, "order-unshipped  2     0        0     0      2        -    -    -    -       "},
		{[]string{"--until", "2026-03-03T10:00:00Z"}, "order-unshipped  2     0        1     0      1        7h   7h   7h   -       late 2"},
		{[]string{"--since", "2026-03-02T10:00:15Z"}, "order-unshipped  1     0        0     0      1        -    -    -    -       late 1"},
	} {
		code, text, errors := replayCLI(t, replayedOrders, append([]string{"-f", rule, "--events", "-", "--summary"}, c.args...)...)
		if code != 0 || !strings.Contains(text, c.want+"\n") {
			t.Errorf("%s: exit code %d, %s\n%s", c.args, code, errors, text)
		}
	}
}

// A table needs mapped columns; a bad one names the line, and refused events end with exit code 3.
func TestReplayInput(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	rule := writeFile(t, dir, "rule.yaml", replayedRule)
	table := writeFile(t, dir, "orders.csv", "id,created_at,shipped_at\n1,2026-03-02 10:00,2026-03-02 17:00\n2,2026-03-02 10:00,\n")
	columns := []string{"--column", "orders.created=created_at", "--column", "orders.shipped=shipped_at"}
	code, text, errors := replayCLI(t, "", append(columns, "-f", rule, "--events", table, "--zone", "Europe/Berlin")...)
	if code != 0 || !strings.Contains(text, "2026-03-02 12:00:00 UTC  warning   order-unshipped  order 1") {
		t.Errorf("a table: exit code %d, %s\n%s", code, errors, text)
	}
	ticking := writeFile(t, dir, "ticking.yaml", strings.Replace(replayedRule, "trigger: {event: orders.created, key: event.id}", `trigger: {schedule: "0 * * * *", keys: [a]}`, 1)+"again: keep\n")
	bad := writeFile(t, dir, "bad.yaml", "name: a\nentity: order\n")
	handled := writeFile(t, dir, "handled.yaml", "name: a\nentity: order\ntrigger: {event: orders.created, key: event.id}\nhandler: fraud\n")
	office := writeFile(t, dir, "office.yaml", strings.Replace(replayedRule, "after: 3h", "after: 3h, of: office", 1))
	own := writeFile(t, dir, "own.yaml", strings.Replace(replayedRule, "after: 3h", "after: 3h, of: office", 1)+"calendars: {office: {zone: UTC}}\n")
	for _, c := range []struct {
		args  []string
		input string
		code  int
		want  string
	}{
		{[]string{"--events", "-"}, "", 2, "name their file or folder with -f"},
		{[]string{"-f", rule}, "", 2, "name their file with --events"},
		{[]string{"-f", rule, "--events", filepath.Join(dir, "none")}, "", 2, "no such file"},
		{[]string{"-f", rule, "--events", table}, "", 2, "map its columns with times to subjects"},
		{[]string{"-f", rule, "--events", table, "--column", "created_at"}, "", 2, "is not SUBJECT=COLUMN"},
		{[]string{"-f", rule, "--events", table, "--column", "orders.created=placed"}, "", 1, `no column "placed", only id, created_at, shipped_at`},
		{[]string{"-f", rule, "--events", "-"}, "", 2, "standard input has no events"},
		{[]string{"-f", rule, "--events", "-", "--column", "orders.created=at"}, "", 2, "standard input has no events: the table is empty; write the names"},
		{[]string{"-f", rule, "--events", table, "--column", "orders.created=created_at", "--zone", "Brazil"}, "", 2, `--zone "Brazil" is not a time zone; write a name of the IANA database, such as`},
		{[]string{"-f", ticking, "--events", "-"}, replayedOrders + strings.ReplaceAll(replayedOrders, "2026-", "9026-"), 1, "line 4: more than 10 years without an event, from 2026-03-02T17:00:00Z to 9026-03-02T10:00:00Z, while rule order-unshipped has a schedule or a heartbeat; correct the time of the event, or choose another --since or --until"},
		{[]string{"-f", ticking, "--events", "-", "--until", "9026-01-01"}, replayedOrders, 2, "--until: more than 10 years without an event, from 2026-03-02T17:00:00Z to 9026-01-01"},
		{[]string{"-f", rule, "--events", "-", "--since", "2026-03-03"}, replayedOrders, 2, "all events of standard input are before --since 2026-03-03"},
		{[]string{"-f", rule, "--events", "-", "--until", "2026-03-01"}, replayedOrders, 2, "all events of standard input are after --until 2026-03-01"},
		{[]string{"-f", rule, "--events", "-"}, strings.ReplaceAll(replayedOrders, "orders.", "order."), 0, "warning: no rule reads the subjects of the events, such as order.created, order.shipped"},
		{[]string{"-f", rule, "--events", "-"}, strings.ReplaceAll(replayedOrders, "orders.created", "orders.creatd"), 0, ""},
		{[]string{"-f", rule, "--events", "-"}, strings.ReplaceAll(replayedOrders, "orders.shipped", "orders.shiped"), 0, "warning: rule order-unshipped subscribes to orders.shipped, and the input has no such event; is the subject misspelled?"},
		{[]string{"-f", rule, "--events", "-"}, "{}", 1, "line 1: the event has no subject"},
		{[]string{"-f", rule, "--events", "-", "--max-disorder", "10s"}, replayedOrders + replayedOrders[:90], 1, "line 4: the events are not in order of time"},
		{[]string{"-f", rule, "--events", "-", "--since", "2026-03-03", "--until", "2026-03-02"}, "", 2, "is before --since"},
		{[]string{"-f", bad, "--events", "-"}, replayedOrders, 1, "trigger"},
		{[]string{"-f", office, "--events", "-"}, replayedOrders, 2, "the rules use the calendars office; name their file with --calendars"},
		{[]string{"-f", own, "--events", "-"}, replayedOrders, 0, ""},
		{[]string{"-f", handled, "--events", "-"}, replayedOrders, 1, "rule a calls handler fraud"},
		{[]string{"-f", rule, "--events", "-"}, `{"subject": "orders.created", "time": "2026-03-02T10:00:00Z", "data": {}}`, 3, "order-unshipped: 1 event refused, first orders.created at 2026-03-02 10:00:00 UTC: "},
	} {
		code, _, errors := replayCLI(t, c.input, c.args...)
		if code != c.code || !strings.Contains(errors, c.want) {
			t.Errorf("%s: exit code %d, want %d: %s", c.args, code, c.code, errors)
		}
	}
}

// An interrupted replay ends with a word, also while it waits for its standard input.
func TestReplayIsInterrupted(t *testing.T) {
	t.Parallel()
	rule := writeFile(t, t.TempDir(), "rule.yaml", replayedRule)
	var out, errors bytes.Buffer
	ctx, interrupt := context.WithCancel(t.Context())
	input, writer := io.Pipe()
	defer writer.Close() // ends the read that is left behind
	go func() {
		_, _ = writer.Write([]byte(replayedOrders)) // until the replay has read it, and waits for more
		interrupt()
	}()
	io := newCLI(input, &out, &errors, nil)
	if code := io.run(ctx, []string{"replay", "-f", rule, "--events", "-"}); code != 1 || errors.String() != "deadman: interrupted\n" {
		t.Errorf("exit code %d: %s%s", code, &out, &errors)
	}
}

// Lookups are answered from a file; the table and the report count the jobs that used up their attempts.
func TestReplayLookups(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	rule := writeFile(t, dir, "rule.yaml", replayedRule+"lookup: {kv: {source: shop, bucket: orders}}\nwhile: state.open\n")
	answers := writeFile(t, dir, "lookups.yaml", "sources: {shop: {answers: [{key: 1, found: {open: true}}, {key: 2, error: no access}]}}")
	bad := writeFile(t, dir, "bad.yaml", "sources: {shop: {answers: {key: 1}}}")
	report := filepath.Join(dir, "report.html")
	code, text, errors := replayCLI(t, replayedOrders, "-f", rule, "--events", "-", "--lookups", answers, "--report", report)
	page, err := os.ReadFile(report)
	if code != 0 || err != nil || !strings.Contains(text, "attempts 1  late 1, undetermined 1\n") || !bytes.Contains(page, []byte("<td>attempts 1</tr>")) {
		t.Errorf("exit code %d, %s, %v\n%s", code, errors, err, text)
	}
	if _, text, _ = replayCLI(t, replayedOrders, "-f", rule, "--events", "-", "--lookups", answers, "--summary", "-o", "csv"); !strings.Contains(text, ",p99,guards\n") || !strings.Contains(text, ",attempts 1\n") {
		t.Errorf("CSV:\n%s", text)
	}
	for file, want := range map[string]string{"": "queries source shop, whose past answers are unknown", bad: bad + ":1:", filepath.Join(dir, "none"): "no such file"} {
		if code, _, errors := replayCLI(t, replayedOrders, "-f", rule, "--events", "-", "--lookups", file); code == 0 || !strings.Contains(errors, want) {
			t.Errorf("%s: exit code %d, %s", file, code, errors)
		}
	}
}

// The report is a file; one that can't be written is an error.
func TestReplayReport(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	rule, report := writeFile(t, dir, "rule.yaml", replayedRule), filepath.Join(dir, "report.html")
	code, _, errors := replayCLI(t, replayedOrders, "-f", rule, "--events", "-", "--report", report)
	page, err := os.ReadFile(report)
	if code != 0 || err != nil || !bytes.Contains(page, []byte("<h1>2 alerts of 3 events</h1>")) {
		t.Errorf("exit code %d, %s, %v\n%s", code, errors, err, page)
	}
	if code, _, errors := replayCLI(t, replayedOrders, "-f", rule, "--events", "-", "--report", filepath.Join(dir, "none", "report.html")); code != 2 || !strings.Contains(errors, "no such file") {
		t.Errorf("exit code %d, %s", code, errors)
	}
	// A replay that fails keeps the older report, and no input is overwritten.
	if code, _, errors := replayCLI(t, "{}", "-f", rule, "--events", "-", "--report", report); code != 1 {
		t.Errorf("exit code %d, %s", code, errors)
	}
	if now, err := os.ReadFile(report); err != nil || !bytes.Equal(now, page) {
		t.Errorf("the older report is gone: %v", err)
	}
	if code, _, errors := replayCLI(t, replayedOrders, "-f", rule, "--events", "-", "--report", rule); code != 2 || !strings.Contains(errors, "is an input of the replay") {
		t.Errorf("exit code %d, %s", code, errors)
	}
	if files, err := os.ReadDir(dir); err != nil || len(files) != 2 {
		t.Errorf("files are left: %v, %v", files, err)
	}
}

// CSV is refused by commands that have none.
func TestCSVOutputIsRefusedElsewhere(t *testing.T) {
	t.Parallel()
	var out, errors bytes.Buffer
	io := newCLI(nil, &out, &errors, nil)
	if code := io.run(t.Context(), []string{"version", "-o", "csv"}); code != 2 || !strings.Contains(errors.String(), "prints no csv") {
		t.Errorf("exit code %d: %s%s", code, &out, &errors)
	}
}
