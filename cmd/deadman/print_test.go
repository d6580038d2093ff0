package main

import (
	"bytes"
	"encoding/json"
	"io"
	"strings"
	"testing"
	"time"
	"unicode/utf8"

	"github.com/google/go-cmp/cmp"
	"github.com/google/uuid"

	"deadman/alerts"
	"deadman/web"
)

func at(seconds int) time.Time {
	return time.Date(2026, 1, 31, 15, 4, 5+seconds, 0, time.UTC)
}

func sampleAlert() alerts.Alert {
	return alerts.Alert{
		ID: uuid.MustParse("0194bd10-0000-8000-8000-000000000001"), Rule: "order-unshipped", RuleVersion: 3,
		Entity: "order", Key: "1234", DecidedAt: at(-10),
		Detail: alerts.Detail{
			Draft: alerts.Draft{
				Status: alerts.Firing, Severity: alerts.Critical, Step: "escalated", StepIndex: 1,
				SkippedSteps: []string{"primary"}, Text: "order 1234 waits\x1b[2J",
			},
			Since: at(-3600), Slot: at(-11), CheckCount: 1, Event: json.RawMessage(`{"id": "1234"}`),
		},
	}
}

func compareText(t *testing.T, got, want string) {
	t.Helper()
	want = strings.TrimPrefix(want, "\n")
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("(-want +got)\n%s", diff)
	}
}

// TestShowIdleSnooze checks that a snooze without an effect is marked.
func TestShowIdleSnooze(t *testing.T) {
	var out bytes.Buffer
	if err := printJob(inProcess(&out, nil), web.Job{Rule: "r", Key: "k", NextCheckAt: at(7200), SnoozedUntil: at(3600), SnoozeIneffective: true}); err != nil {
		t.Fatal(err)
	}
	if !strings.Contains(out.String(), "without effect: the next check is already later\n") {
		t.Error(out.String())
	}
}

func TestShowJob(t *testing.T) {
	var out bytes.Buffer
	p := inProcess(&out, nil)
	err := printJob(p, web.Job{
		Rule: "order-unshipped", RuleVersion: 3, Entity: "order", Key: "12\n34", Status: web.Open,
		Since: at(-3600), CreatedAt: at(-3600), FirstCheckAt: at(-5), NextCheckAt: at(7200), SnoozedUntil: at(7200), CheckCount: 1, Step: 1, CheckAttempts: 2,
		StartedAt: at(-5), CompletedAt: at(-4), CheckSecondsTotal: 0.0153, CheckSecondsMax: 0.01,
		Acknowledged: &web.Acknowledged{By: "ada", At: at(-5), Until: at(7200)},
		Alerts:       []alerts.ID{sampleAlert().ID}, Event: json.RawMessage(`{"id": "1234", "note": "\u0007 ` + "\u202e" + `"}`),
		Trail: []web.TrailEntry{
			{Kind: "pause", At: at(-90), By: "orders.\u202eheld"},
			{Kind: "check", At: at(-60), LatenessSeconds: 12.7, Values: `state.status = "OPEN"`, Next: at(-5)},
			{Kind: "check", At: at(-30), Reason: "no route to the shop", Next: at(-5)},
			{Kind: "check", At: at(-5), Values: `state.status = "OPEN"`, Step: "escalated", Next: at(7200)},
		},
	})
	if err != nil {
		t.Fatal(err)
	}
	compareText(t, out.String(), `
rule           order-unshipped, version 3
order          12\n34
status         open
started        2026-01-31 14:04:05 UTC (60 m ago)
first check    2026-01-31 15:04:00 UTC (5 s ago)
next check     2026-01-31 17:04:05 UTC (in 2 h)
snoozed until  2026-01-31 17:04:05 UTC (in 2 h)
steps taken    1
checks         1 decided, 2 in total
check time     15.3ms in total, slowest 10ms
last started   2026-01-31 15:04:00 UTC (5 s ago)
last finished  2026-01-31 15:04:01 UTC (4 s ago)
alert          0194bd10-0000-8000-8000-000000000001
acknowledged   by ada
since          2026-01-31 15:04:00 UTC (5 s ago)
until          2026-01-31 17:04:05 UTC (in 2 h)
timeline       2026-01-31 15:02:35 UTC  paused; by orders.\u202eheld
               2026-01-31 15:03:05 UTC  checked: nothing due; 12s late; found state.status = "OPEN"; next 2026-01-31 15:04:00 UTC
               2026-01-31 15:03:35 UTC  checked: undetermined; no route to the shop; next 2026-01-31 15:04:00 UTC
               2026-01-31 15:04:00 UTC  checked: step escalated; found state.status = "OPEN"; next 2026-01-31 17:04:05 UTC
event          {"id":"1234","note":"\u0007 \u202e"}
`)
}

func TestShowEntity(t *testing.T) {
	var out bytes.Buffer
	a := web.Alert{AlertFields: web.AlertFields(sampleAlert())}
	other := sampleAlert()
	other.ID = uuid.MustParse("0194bd10-0000-8000-8000-000000000002")
	job := web.Job{
		Rule: "order-unshipped", RuleVersion: 3, Entity: "order", Key: "1234", Status: web.Waiting, Since: at(-3600), NextCheckAt: at(7200),
		Trail: []web.TrailEntry{{Kind: "update", At: at(-90), By: "orders.changed"}},
	}
	was := job
	was.Alerts, was.Trail = []alerts.ID{a.ID}, nil
	known := web.Entity{
		Entity: "order", Key: "1234", Jobs: web.Page[web.Job]{Items: []web.Job{job}}, Alerts: web.Page[web.Alert]{Items: []web.Alert{a, {AlertFields: web.AlertFields(other)}}},
		History: web.Page[web.EndedJob]{Items: []web.EndedJob{{Job: was, Outcome: "cancelled", Reason: "by hand", EndedAt: at(-5)}}},
	}
	if err := printEntity(inProcess(&out, nil), known, nil); err != nil {
		t.Fatal(err)
	}
	compareText(t, out.String(), `
rule           order-unshipped, version 3
started        2026-01-31 14:04:05 UTC (60 m ago)
critical       2026-01-31 15:03:55 UTC  order 1234 waits\x1b[2J
ended          cancelled
reason         by hand
at             2026-01-31 15:04:00 UTC (5 s ago)

rule           order-unshipped, version 3
started        2026-01-31 14:04:05 UTC (60 m ago)
timeline       2026-01-31 15:02:35 UTC  updated; by orders.changed
status         waiting
next check     2026-01-31 17:04:05 UTC (in 2 h)
`)
	out.Reset()
	if err := printEntity(inProcess(&out, nil), web.Entity{Entity: "order", Key: "9"}, nil); err != nil {
		t.Fatal(err)
	}
	compareText(t, out.String(), "order          9: no jobs, pending or ended\n")
}

func TestShowAlert(t *testing.T) {
	var out bytes.Buffer
	if err := printAlert(inProcess(&out, nil), web.Alert{
		AlertFields: web.AlertFields(sampleAlert()), Published: true,
		Deliveries:   []web.Delivery{{Channel: "on-call", State: "waiting", Attempts: 2, Error: "it answers 503"}},
		Acknowledged: &web.Acknowledged{By: "ada\x07", At: at(-5), Note: "I am on it"},
	}, []web.Rule{{Description: "Call the carrier."}}, nil); err != nil {
		t.Fatal(err)
	}
	compareText(t, out.String(), `
alert          0194bd10-0000-8000-8000-000000000001
summary        order 1234 waits\x1b[2J
description    Call the carrier.
severity       critical, firing
rule           order-unshipped, version 3
order          1234
step           escalated
skipped        primary
started        2026-01-31 14:04:05 UTC (60 m ago)
slot           2026-01-31 15:03:54 UTC (11 s ago)
raised         2026-01-31 15:03:55 UTC (10 s ago)
published      true
acknowledged   by ada\a
since          2026-01-31 15:04:00 UTC (5 s ago)
until          no end
note           I am on it
delivery       on-call: waiting after 2 attempts: it answers 503
event          {"id":"1234"}
`)
}

func TestShowEndOfAlert(t *testing.T) {
	for _, c := range []struct {
		end  web.AlertEnd
		want string
	}{
		{web.AlertEnd{At: at(-5), Outcome: "exhausted", Reason: "orders.shipped never came"}, "over           since 2026-01-31 15:04:00 UTC (exhausted): orders.shipped never came\n"},
		{web.AlertEnd{At: at(-5), Outcome: "cancelled", By: "ada", Reason: "handled\x07"}, "closed         by ada at 2026-01-31 15:04:00 UTC: handled\\a\n"},
		{web.AlertEnd{Outcome: "unknown"}, "over           its job is not pending, and the history no longer has it\n"},
	} {
		var out bytes.Buffer
		if err := printAlert(inProcess(&out, nil), web.Alert{AlertFields: web.AlertFields(sampleAlert()), Ended: &c.end}, nil, nil); err != nil {
			t.Fatal(err)
		}
		if word, _, _ := strings.Cut(c.want, " "); !strings.HasPrefix(out.String(), c.want) || !strings.Contains(out.String(), "critical, "+word+"\n") {
			t.Errorf("an alert with the end %+v begins otherwise than %q:\n%s", c.end, c.want, out.String())
		}
	}
}

func TestAlertLine(t *testing.T) {
	p := inProcess(nil, nil)
	a := sampleAlert()
	compareText(t, alertLine(p, a, 0), `15:03:55  00000001  critical  order-unshipped  order 1234  escalated  order 1234 waits\x1b[2J`)
	a.Status, a.Step, a.Text = alerts.Resolved, "", "it shipped"
	compareText(t, alertLine(p, a, 0), `15:03:55  00000001  resolved  order-unshipped  order 1234  it shipped`)
	p.palette.on = true
	compareText(t, alertLine(p, a, 0), "\x1b[02m15:03:55\x1b[00m  \x1b[02m00000001\x1b[00m  \x1b[32mresolved\x1b[00m  order-unshipped  \x1b[01morder 1234\x1b[00m  it shipped")
}

func TestStreamedAlertIsAJSONLine(t *testing.T) {
	var out bytes.Buffer
	p := inProcess(&out, nil)
	p.output = asJSON
	if err := printStreamedAlert(p, streamedAlert{raw: []byte("{\"text\":  \"a\u009bb\"}")}); err != nil {
		t.Fatal(err)
	}
	compareText(t, out.String(), `{"text":"a\u009bb"}`+"\n")
}

// TestTable checks that columns align with and without colors, because every color has the same width for the
// tabwriter.
func TestTable(t *testing.T) {
	rows := [][]cell{
		{cellOf("1"), colouredCell(red, "critical"), cellOf("tab\there")},
		{cellOf("22222"), colouredCell(yellow, "due"), dimCell("x")},
	}
	show := func(on bool) string {
		var out bytes.Buffer
		table := newTable(&out, colors{on}, "no", "status", "text")
		for _, r := range rows {
			table.row(r...)
		}
		if err := table.end(); err != nil {
			t.Fatal(err)
		}
		return out.String()
	}
	compareText(t, show(false), `
NO     STATUS    TEXT
1      critical  tab\there
22222  due       x
`)
	bare := show(true)
	for _, c := range []colour{normal, dim, red, yellow} {
		bare = strings.ReplaceAll(bare, "\x1b["+string(c)+"m", "")
	}
	bare = strings.ReplaceAll(bare, "\x1b[00m", "")
	compareText(t, bare, show(false))
}

// TestTableFits checks that a table fits its terminal, and is complete without one.
func TestTableFits(t *testing.T) {
	remedy := strings.Repeat("what to do about it, ", 10)
	show := func(width int) string {
		var out bytes.Buffer
		table := newTable(&out, colors{}, "said", "key", "text")
		table.row(cellOf("5 s ago"), cellOf(strings.Repeat("k", 40)), cellOf(remedy))
		if err := table.fit(width).end(); err != nil {
			t.Fatal(err)
		}
		return out.String()
	}
	if whole := show(terminalWidth(new(bytes.Buffer))); !strings.Contains(whole, remedy) {
		t.Errorf("a pipe gets %s", whole)
	}
	for _, width := range []int{44, 60, 80, 200, 270} {
		for line := range strings.Lines(show(width)) {
			if n := utf8.RuneCountInString(strings.TrimRight(line, " \n")); n > width {
				t.Errorf("a line of %d letters does not fit into %d: %s", n, width, line)
			}
		}
	}
	if got := show(80); !strings.Contains(got, strings.Repeat("k", 32)+"…") || !strings.Contains(got, "  what to do about it, what to do abo…") {
		t.Errorf("the text has to keep 36 characters, and the key the rest:\n%s", got)
	}
	if got := show(100); !strings.Contains(got, strings.Repeat("k", 40)) || !strings.Contains(got, "…") {
		t.Errorf("the text has to give way first:\n%s", got)
	}
	if got := show(3); !strings.Contains(got, "5 s ago") || !strings.Contains(got, "what to do abou…") {
		t.Errorf("on no terminal of sense it is\n%s", got)
	}
}

func TestColours(t *testing.T) {
	for _, env := range [][]string{nil, {"NO_COLOR=1"}, {"TERM=dumb"}} {
		if inProcess(new(bytes.Buffer), nil, env...).palette.on {
			t.Errorf("what is no terminal gets colours, with %v", env)
		}
	}
}

// TestTableUsesItsRoom checks that a table leaves out only the columns that do not fit, also if an important one is too wide.
func TestTableUsesItsRoom(t *testing.T) {
	for _, c := range []struct {
		width int
		left  string
	}{{0, ""}, {80, ""}, {64, "by"}, {60, "by version"}, {43, "subjects"}, {40, "by subjects"}, {24, "by version subjects"}} {
		table := newTable(io.Discard, colors{}, "rule", "entity", "version", "by", "subjects")
		table.row(cellOf("order-unshipped"), cellOf("order"), cellOf("1"), cellOf("somebody"), cellOf(strings.Repeat("orders ", 4)))
		if left := strings.Join(table.drop(c.width, []string{"by", "version", "subjects"}), " "); left != c.left {
			t.Errorf("%d wide, without %q, want %q", c.width, left, c.left)
		}
	}
}
