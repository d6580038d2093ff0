package rules_test

import (
	"encoding/json"
	"fmt"
	"strings"
	"testing"
	"time"

	"deadman/rules/document"

	"github.com/google/go-cmp/cmp"

	"deadman/internal/calendars"
	"deadman/rules"
)

// timedEvent is an event of a story: its time after ten o'clock, its subject and its body.
type timedEvent struct {
	after   string
	subject string
	body    string
}

// evaluateStory plays a story through a rule and returns its results, one a line: the time, after ten o'clock of the first day,
// and the result.
func evaluateStory(t *testing.T, text string, known calendars.Set, story ...timedEvent) []string {
	t.Helper()
	documents, err := rules.Parse([]byte(text), "")
	if err != nil {
		t.Fatalf("%s\n%v", text, err)
	}
	var reads []rules.StreamBinding
	for _, subject := range documents[0].Subjects() {
		stream, _, _ := strings.Cut(subject, ".") // one for each first token
		reads = append(reads, rules.StreamBinding{Subject: subject, Stream: stream})
	}
	rule, err := rules.Compile(documents[0], rules.RuleVersion{Version: 1, Reads: reads}, known)
	if err != nil {
		t.Fatal(err)
	}
	var events []rules.PreviewEvent
	for _, h := range story {
		events = append(events, rules.PreviewEvent{Subject: h.subject, At: tenOClock.Add(parseSpan(t, h.after)), Data: json.RawMessage(h.body)})
	}
	preview, err := rule.Preview(t.Context(), events, tenOClock.Add(parseSpan(t, "40d")))
	if err != nil {
		t.Fatal(err)
	}
	var lines []string
	for _, l := range preview.Lines {
		line := fmt.Sprintf("%s %s", document.Duration(l.At.Sub(tenOClock)), l.Kind)
		switch l.Kind {
		case rules.LineAlert:
			line += fmt.Sprintf(" %s %s", l.Status, l.Step)
			if l.Text != "" && l.Status == "firing" {
				line += " " + l.Text
			}
			if len(l.SkippedSteps) > 0 {
				line += fmt.Sprint(" instead of ", l.SkippedSteps)
			}
		case rules.LineEnds:
			line += " " + l.Note
		case rules.LineCheck, rules.LineEvent, rules.LineStarts:
			if !l.Next.IsZero() {
				line += " next " + document.Duration(l.Next.Sub(tenOClock)).String()
			}
		}
		lines = append(lines, line)
	}
	for _, refused := range preview.Refusals {
		lines = append(lines, "refused "+refused)
	}
	return lines
}

// tenOClock is a Monday.
var tenOClock = time.Date(2026, 3, 2, 10, 0, 0, 0, time.UTC)

func parseSpan(t *testing.T, s string) time.Duration {
	t.Helper()
	d, err := document.ParseDuration(s)
	if err != nil {
		t.Fatal(err)
	}
	return time.Duration(d)
}

// joinLines returns a rule about things: the given lines, and the required fields.
func joinLines(lines ...string) string {
	text := strings.Join(lines, "\n") + "\n"
	for field, line := range map[string]string{
		"trigger:":  "trigger: {event: t.started, key: event.id}",
		"escalate:": `escalate: [{after: 1h, step: one, text: "."}, {after: 3h, step: two, text: "."}]`,
		"slot:":     "slot: 15m",
		"hold:":     "hold: 1h",
	} {
		if !strings.Contains(text, field) {
			text += line + "\n"
		}
	}
	return "name: thing-late\nentity: thing\n" + text
}

const (
	doneResolves = "resolve: {event: t.done, key: event.id}"
	itBegins     = `{"id": 1, "n": 2, "began": "2026-03-02T09:30:00Z"}`
)

func TestMeaning(t *testing.T) {
	known, err := calendars.Parse([]byte(`
calendars:
  office: {zone: UTC, days: mon-fri, hours: "09:00-17:00"}
`), "")
	if err != nil {
		t.Fatal(err)
	}
	begin := timedEvent{"5m", "t.started", itBegins}
	for name, c := range map[string]struct {
		rule  string
		story []timedEvent
		want  []string
	}{
		"it happens after all": {
			joinLines(doneResolves),
			[]timedEvent{begin, {"2h", "t.done", `{"id": 1}`}},
			[]string{"5m starts next 1h15m", "1h15m alert firing one .", "2h alert resolved one", "2h ends resolved"},
		},
		"it never happens: held, then over": {
			joinLines(doneResolves),
			[]timedEvent{begin},
			[]string{"5m starts next 1h15m", "1h15m alert firing one .", "3h15m alert firing two .", "4h15m ends exhausted"},
		},
		"without resolve the last step ends it": {
			joinLines("quiet: true"),
			[]timedEvent{begin},
			[]string{"5m starts next 1h15m", "1h15m alert firing one .", "3h15m alert firing two .", "3h15m ends exhausted"},
		},
		"what happens in the hold closes what was said": {
			joinLines(doneResolves),
			[]timedEvent{begin, {"4h", "t.done", `{"id": 1}`}},
			[]string{"5m starts next 1h15m", "1h15m alert firing one .", "3h15m alert firing two .", "4h alert resolved two", "4h ends resolved"},
		},
		"as names the outcome": {
			joinLines("resolve: [{event: t.done, key: event.id}, {event: t.dropped, key: event.id, if: event.why == 1, as: dropped}]"),
			[]timedEvent{begin, {"20m", "t.dropped", `{"id": 1, "why": 2}`}, {"30m", "t.dropped", `{"id": 1, "why": 1}`}},
			[]string{"5m starts next 1h15m", "30m ends dropped"},
		},
		"quiet says nothing when it happened": {
			joinLines(doneResolves, "quiet: true"),
			[]timedEvent{begin, {"2h", "t.done", `{"id": 1}`}},
			[]string{"5m starts next 1h15m", "1h15m alert firing one .", "2h ends resolved"},
		},
		"the condition clears": {
			joinLines("update: {event: t.changed, key: event.id}", `while: state.status != "PAID"`, doneResolves, `trigger: {event: t.started, key: event.id}`),
			[]timedEvent{{"5m", "t.started", `{"id": 1, "status": "NEW"}`}, {"2h", "t.changed", `{"id": 1, "status": "PAID"}`}},
			[]string{"5m starts next 1h15m", "1h15m alert firing one .", "2h event next 3h15m", "3h15m alert resolved one", "3h15m ends cleared"},
		},
		"an update is merged, and null takes a field away": {
			joinLines("update: {event: t.changed, key: event.id}", `escalate: [{after: 1h, step: one, text: "{{state}} {{event.n}}"}]`),
			[]timedEvent{begin, {"20m", "t.changed", `{"id": 1, "n": 3, "began": null, "more": {"a": [1]}}`}},
			[]string{"5m starts next 1h15m", "20m event next 1h15m", `1h15m alert firing one {"id":1,"more":{"a":[1]},"n":3} 2`, "1h15m ends exhausted"},
		},
		"time stands still": {
			joinLines("pause: {event: t.changed, key: event.id, if: event.hold}", doneResolves),
			[]timedEvent{begin, {"30m", "t.changed", `{"id": 1, "hold": true}`}, {"40m", "t.changed", `{"id": 1, "hold": true}`}, {"2h30m", "t.changed", `{"id": 1, "hold": false}`}, {"2h40m", "t.changed", `{"id": 1, "hold": false}`}},
			[]string{"5m starts next 1h15m", "30m event", "2h30m event next 3h15m", "3h15m alert firing one .", "5h15m alert firing two .", "6h15m ends exhausted"},
		},
		"any of several pauses": {
			joinLines("pause: [{event: t.changed, key: event.id, if: event.why == 1}, {event: t.changed, key: event.id, if: event.why == 2}]", doneResolves),
			[]timedEvent{begin, {"30m", "t.changed", `{"id": 1, "why": 1}`}, {"50m", "t.changed", `{"id": 1, "why": 2}`}, {"1h30m", "t.changed", `{"id": 1, "why": 3}`}, {"2h30m", "t.done", `{"id": 1}`}},
			[]string{"5m starts next 1h15m", "30m event", "1h30m event next 2h15m", "2h15m alert firing one .", "2h30m alert resolved one", "2h30m ends resolved"},
		},
		"time stands still in the hold": {
			joinLines("pause: {event: t.changed, key: event.id, if: event.hold}", doneResolves),
			[]timedEvent{begin, {"3h20m", "t.changed", `{"id": 1, "hold": true}`}, {"9h20m", "t.changed", `{"id": 1, "hold": false}`}},
			[]string{"5m starts next 1h15m", "1h15m alert firing one .", "3h15m alert firing two .", "3h20m event", "9h20m event next 10h15m", "10h15m ends exhausted"},
		},
		"an instant does not wait for a pause to end": {
			joinLines("pause: {event: t.changed, key: event.id, if: event.hold}", `escalate: [{at: date(event.began) + hours(2), step: one, text: "."}]`),
			[]timedEvent{begin, {"30m", "t.changed", `{"id": 1, "hold": true}`}, {"2h30m", "t.changed", `{"id": 1, "hold": false}`}},
			[]string{"5m starts next 1h30m", "30m event", "2h30m event next 2h45m", "2h45m alert firing one .", "2h45m ends exhausted"},
		},
		"computed steps are sorted": {
			joinLines(`escalate: [{after: hours(event.n), step: computed, text: "."}, {at: date(event.began) + hours(1), step: instant, text: "."}, {after: 4h, step: fixed, text: "."}]`),
			[]timedEvent{begin},
			[]string{"5m starts next 30m", "30m alert firing instant .", "2h15m alert firing computed .", "4h15m alert firing fixed .", "4h15m ends exhausted"},
		},
		"every": {
			joinLines(`escalate: [{after: 1h, step: first, text: "."}, {every: 30m, times: 3, step: again, text: "{{job.turn}} of {{job.turns}}"}]`),
			[]timedEvent{begin},
			[]string{
				"5m starts next 1h15m", "1h15m alert firing first .", "1h45m alert firing again 1 of 3", "2h15m alert firing again 2 of 3",
				"2h45m alert firing again 3 of 3", "2h45m ends exhausted",
			},
		},
		"of office time": {
			joinLines(`escalate: [{after: 8h, of: office, step: one, text: "."}]`),
			[]timedEvent{begin},
			[]string{"5m starts next 1d15m", "1d15m alert firing one .", "1d15m ends exhausted"},
		},
		"of office time, paused over night": {
			joinLines("pause: {event: t.changed, key: event.id, if: event.hold}", `escalate: [{after: 8h, of: office, step: one, text: "."}]`),
			[]timedEvent{begin, {"1h5m", "t.changed", `{"id": 1, "hold": true}`}, {"24h", "t.changed", `{"id": 1, "hold": false}`}},
			[]string{"5m starts next 1d15m", "1h5m event", "1d event next 1d7h", "1d7h alert firing one .", "1d7h ends exhausted"},
		},
		"within office time": {
			joinLines(`escalate: [{after: 9h, within: office, step: one, text: "."}]`),
			[]timedEvent{begin},
			[]string{"5m starts next 23h", "23h alert firing one .", "23h ends exhausted"},
		},
		"a check in between never postpones a step": {
			joinLines("update: {event: t.changed, key: event.id}", "recheck: date(state.check)", doneResolves, `while: (state.ok ?? false) == false`),
			[]timedEvent{begin, {"1h20m", "t.changed", `{"id": 1, "check": "2026-03-02T14:00:00Z"}`}, {"3h20m", "t.changed", `{"id": 1, "check": "2026-03-02T13:40:00Z"}`}},
			[]string{
				"5m starts next 1h15m", "1h15m alert firing one .", "1h20m event next 3h15m", "3h15m alert firing two .",
				"3h20m event next 4h15m", "4h15m ends exhausted",
			},
		},
		"a check in between, known from the start": {
			joinLines("recheck: date(event.began) + minutes(70)", doneResolves),
			[]timedEvent{begin, {"3h30m", "t.done", `{"id": 1}`}},
			[]string{"5m starts next 45m", "45m check next 1h15m", "1h15m alert firing one .", "3h15m alert firing two .", "3h30m alert resolved two", "3h30m ends resolved"},
		},
		"a pause does not forget the check in between": {
			joinLines("recheck: date(event.began) + minutes(70)", "pause: {event: t.changed, key: event.id, if: event.hold}", doneResolves),
			[]timedEvent{begin, {"10m", "t.changed", `{"id": 1, "hold": true}`}, {"20m", "t.changed", `{"id": 1, "hold": false}`}, {"50m", "t.done", `{"id": 1}`}},
			[]string{"5m starts next 45m", "10m event", "20m event next 45m", "45m check next 1h15m", "50m ends resolved"},
		},
		"the first trigger counts": {
			joinLines(doneResolves),
			[]timedEvent{begin, {"50m", "t.started", itBegins}},
			[]string{"5m starts next 1h15m", "1h15m alert firing one .", "3h15m alert firing two .", "4h15m ends exhausted"},
		},
		"a repeated trigger begins anew": {
			joinLines("again: restart", doneResolves),
			[]timedEvent{begin, {"1h20m", "t.started", itBegins}},
			[]string{
				"5m starts next 1h15m", "1h15m alert firing one .", "1h20m alert resolved one", "1h20m ends restarted", "1h20m starts next 2h30m",
				"2h30m alert firing one .", "4h30m alert firing two .", "5h30m ends exhausted",
			},
		},
		"a resolve that comes first, by a faster road": {
			joinLines("resolve: {event: other.done, key: event.id}", "trigger: {event: t.started, key: event.id, since: event.began}"),
			[]timedEvent{{"0s", "other.done", `{"id": 1}`}, begin},
			[]string{"5m ends resolved"},
		},
		"a resolve of the time before is another one's": {
			joinLines("resolve: {event: other.done, key: event.id}"),
			[]timedEvent{{"0s", "other.done", `{"id": 1}`}, begin, {"20m", "other.done", `{"id": 1}`}},
			[]string{"5m starts next 1h15m", "20m ends resolved"},
		},
		"nothing is remembered for longer than early": {
			joinLines("resolve: {event: other.done, key: event.id}", "trigger: {event: t.started, key: event.id, since: event.began}", "early: 4m"),
			[]timedEvent{{"0s", "other.done", `{"id": 1}`}, begin, {"10m", "other.done", `{"id": 1}`}},
			[]string{"5m starts next 30m", "10m ends resolved"},
		},
		"a set that an update completes": {
			joinLines("update: {event: t.changed, key: event.id}", "resolve: {event: t.file, key: event.batch, distinct: event.name, need: state.files}"),
			[]timedEvent{begin, {"10m", "t.file", `{"batch": 1, "name": "a"}`}, {"12m", "t.file", `{"batch": 1, "name": "b"}`}, {"20m", "t.changed", `{"id": 1, "files": 2}`}},
			[]string{"5m starts next 1h15m", "10m event next 1h15m", "12m event next 1h15m", "20m ends resolved"},
		},
		"nothing divided by nothing is not fine": {
			joinLines("while: event.failed / event.all > 0.5", "guards: {attempts: 1, end: true}"),
			[]timedEvent{{"5m", "t.started", `{"id": 1, "failed": 0, "all": 0}`}},
			[]string{"5m starts next 1h15m", "1h15m alert gave_up ", "1h15m ends undetermined"},
		},
		"all files of a batch": {
			joinLines("resolve: {event: t.file, key: event.batch, distinct: event.name, need: state.n}"),
			[]timedEvent{begin, {"10m", "t.file", `{"batch": 1, "name": "a"}`}, {"11m", "t.file", `{"batch": 1, "name": "a"}`}, {"12m", "t.file", `{"batch": 1, "name": "b"}`}},
			[]string{"5m starts next 1h15m", "10m event next 1h15m", "12m ends resolved"},
		},
		"wildcards": {
			joinLines("trigger: {event: dev.*.*.up, key: 'wildcard(2) + \"/\" + wildcard(1)'}", "resolve: {event: dev.>, key: event.id, if: wildcard(1) == \"x.y.down\"}"),
			[]timedEvent{{"5m", "dev.a.b.up", `{}`}, {"7m", "dev.x.y.up", `{"id": "b/a"}`}, {"8m", "dev.x.y.down", `{"id": "b/a"}`}},
			[]string{"5m starts next 1h15m", "8m ends resolved"},
		},
		"an event that a rule can't take in": {
			joinLines(doneResolves, `trigger: {event: t.started, key: event.id, if: event.n > 1}`),
			[]timedEvent{{"1m", "t.started", `{"id": 1, "n": "5"}`}, begin},
			[]string{
				"5m starts next 1h15m", "1h15m alert firing one .", "3h15m alert firing two .", "4h15m ends exhausted",
				"refused t.started at 2026-03-02T10:01:00Z: trigger: event.n > 1: invalid operation: text > a number",
			},
		},
		"a computed time that can't be": {
			joinLines("escalate: [{after: hours(event.h), step: one}]"),
			[]timedEvent{{"1m", "t.started", `{"id": 1, "h": 9999}`}},
			[]string{"refused t.started at 2026-03-02T10:01:00Z: trigger: step one would be at 2027-04-23T01:01:00Z, beyond the horizon, 30d; raise guards.horizon"},
		},
		"a guard ends it": {
			joinLines("recheck: date(event.began) + minutes(state.m)", "update: {event: t.changed, key: event.id}", "guards: {max_checks: 3}", doneResolves, "hold: 9d"),
			[]timedEvent{
				begin, {"1h", "t.changed", `{"id": 1, "m": 110}`}, {"1h20m", "t.changed", `{"id": 1, "m": 140}`},
			},
			[]string{
				"5m starts next 1h15m", "1h event next 1h15m", "1h15m alert firing one .", "1h20m event next 1h30m", "1h30m check next 2h",
				"2h alert gave_up ", "2h ends guard_max_checks",
			},
		},
	} {
		t.Run(name, func(t *testing.T) {
			if diff := cmp.Diff(c.want, evaluateStory(t, c.rule, known, c.story...)); diff != "" {
				t.Errorf("%s\n(-want +got):\n%s", c.rule, diff)
			}
		})
	}
}
