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

// happens is an event of a story: its time after ten o'clock, its subject and its body.
type happens struct {
	after   string
	subject string
	body    string
}

// told plays a story through a rule and returns its results, one a line: the time, after ten o'clock of the first day,
// and the result.
func told(t *testing.T, text string, known calendars.Set, story ...happens) []string {
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
		events = append(events, rules.PreviewEvent{Subject: h.subject, At: ten.Add(span(t, h.after)), Data: json.RawMessage(h.body)})
	}
	preview, err := rule.Preview(t.Context(), events, ten.Add(span(t, "40d")))
	if err != nil {
		t.Fatal(err)
	}
	var lines []string
	for _, l := range preview.Lines {
		line := fmt.Sprintf("%s %s", document.Duration(l.At.Sub(ten)), l.Kind)
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
				line += " next " + document.Duration(l.Next.Sub(ten)).String()
			}
		}
		lines = append(lines, line)
	}
	for _, refused := range preview.Refusals {
		lines = append(lines, "refused "+refused)
	}
	return lines
}

// ten is a Monday.
var ten = time.Date(2026, 3, 2, 10, 0, 0, 0, time.UTC)

func span(t *testing.T, s string) time.Duration {
	t.Helper()
	d, err := document.ParseDuration(s)
	if err != nil {
		t.Fatal(err)
	}
	return time.Duration(d)
}

// of returns a rule about things: the given lines, and the required fields.
func of(lines ...string) string {
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
	begin := happens{"5m", "t.started", itBegins}
	for name, c := range map[string]struct {
		rule  string
		story []happens
		want  []string
	}{
		"it happens after all": {
			of(doneResolves),
			[]happens{begin, {"2h", "t.done", `{"id": 1}`}},
			[]string{"5m starts next 1h15m", "1h15m alert firing one .", "2h alert resolved one", "2h ends resolved"},
		},
		"it never happens: held, then over": {
			of(doneResolves),
			[]happens{begin},
			[]string{"5m starts next 1h15m", "1h15m alert firing one .", "3h15m alert firing two .", "4h15m ends exhausted"},
		},
		"without resolve the last step ends it": {
			of("quiet: true"),
			[]happens{begin},
			[]string{"5m starts next 1h15m", "1h15m alert firing one .", "3h15m alert firing two .", "3h15m ends exhausted"},
		},
		"what happens in the hold closes what was said": {
			of(doneResolves),
			[]happens{begin, {"4h", "t.done", `{"id": 1}`}},
			[]string{"5m starts next 1h15m", "1h15m alert firing one .", "3h15m alert firing two .", "4h alert resolved two", "4h ends resolved"},
		},
		"as names the outcome": {
			of("resolve: [{event: t.done, key: event.id}, {event: t.dropped, key: event.id, if: event.why == 1, as: dropped}]"),
			[]happens{begin, {"20m", "t.dropped", `{"id": 1, "why": 2}`}, {"30m", "t.dropped", `{"id": 1, "why": 1}`}},
			[]string{"5m starts next 1h15m", "30m ends dropped"},
		},
		"quiet says nothing when it happened": {
			of(doneResolves, "quiet: true"),
			[]happens{begin, {"2h", "t.done", `{"id": 1}`}},
			[]string{"5m starts next 1h15m", "1h15m alert firing one .", "2h ends resolved"},
		},
		"the condition clears": {
			of("update: {event: t.changed, key: event.id}", `while: state.status != "PAID"`, doneResolves, `trigger: {event: t.started, key: event.id}`),
			[]happens{{"5m", "t.started", `{"id": 1, "status": "NEW"}`}, {"2h", "t.changed", `{"id": 1, "status": "PAID"}`}},
			[]string{"5m starts next 1h15m", "1h15m alert firing one .", "2h event next 3h15m", "3h15m alert resolved one", "3h15m ends cleared"},
		},
		"an update is merged, and null takes a field away": {
			of("update: {event: t.changed, key: event.id}", `escalate: [{after: 1h, step: one, text: "{{state}} {{event.n}}"}]`),
			[]happens{begin, {"20m", "t.changed", `{"id": 1, "n": 3, "began": null, "more": {"a": [1]}}`}},
			[]string{"5m starts next 1h15m", "20m event next 1h15m", `1h15m alert firing one {"id":1,"more":{"a":[1]},"n":3} 2`, "1h15m ends exhausted"},
		},
		"time stands still": {
			of("pause: {event: t.changed, key: event.id, if: event.hold}", doneResolves),
			[]happens{begin, {"30m", "t.changed", `{"id": 1, "hold": true}`}, {"40m", "t.changed", `{"id": 1, "hold": true}`}, {"2h30m", "t.changed", `{"id": 1, "hold": false}`}, {"2h40m", "t.changed", `{"id": 1, "hold": false}`}},
			[]string{"5m starts next 1h15m", "30m event", "2h30m event next 3h15m", "3h15m alert firing one .", "5h15m alert firing two .", "6h15m ends exhausted"},
		},
		"any of several pauses": {
			of("pause: [{event: t.changed, key: event.id, if: event.why == 1}, {event: t.changed, key: event.id, if: event.why == 2}]", doneResolves),
			[]happens{begin, {"30m", "t.changed", `{"id": 1, "why": 1}`}, {"50m", "t.changed", `{"id": 1, "why": 2}`}, {"1h30m", "t.changed", `{"id": 1, "why": 3}`}, {"2h30m", "t.done", `{"id": 1}`}},
			[]string{"5m starts next 1h15m", "30m event", "1h30m event next 2h15m", "2h15m alert firing one .", "2h30m alert resolved one", "2h30m ends resolved"},
		},
		"time stands still in the hold": {
			of("pause: {event: t.changed, key: event.id, if: event.hold}", doneResolves),
			[]happens{begin, {"3h20m", "t.changed", `{"id": 1, "hold": true}`}, {"9h20m", "t.changed", `{"id": 1, "hold": false}`}},
			[]string{"5m starts next 1h15m", "1h15m alert firing one .", "3h15m alert firing two .", "3h20m event", "9h20m event next 10h15m", "10h15m ends exhausted"},
		},
		"an instant does not wait for a pause to end": {
			of("pause: {event: t.changed, key: event.id, if: event.hold}", `escalate: [{at: date(event.began) + hours(2), step: one, text: "."}]`),
			[]happens{begin, {"30m", "t.changed", `{"id": 1, "hold": true}`}, {"2h30m", "t.changed", `{"id": 1, "hold": false}`}},
			[]string{"5m starts next 1h30m", "30m event", "2h30m event next 2h45m", "2h45m alert firing one .", "2h45m ends exhausted"},
		},
		"computed steps are sorted": {
			of(`escalate: [{after: hours(event.n), step: computed, text: "."}, {at: date(event.began) + hours(1), step: instant, text: "."}, {after: 4h, step: fixed, text: "."}]`),
			[]happens{begin},
			[]string{"5m starts next 30m", "30m alert firing instant .", "2h15m alert firing computed .", "4h15m alert firing fixed .", "4h15m ends exhausted"},
		},
		"every": {
			of(`escalate: [{after: 1h, step: first, text: "."}, {every: 30m, times: 3, step: again, text: "{{job.turn}} of {{job.turns}}"}]`),
			[]happens{begin},
			[]string{
				"5m starts next 1h15m", "1h15m alert firing first .", "1h45m alert firing again 1 of 3", "2h15m alert firing again 2 of 3",
				"2h45m alert firing again 3 of 3", "2h45m ends exhausted",
			},
		},
		"of office time": {
			of(`escalate: [{after: 8h, of: office, step: one, text: "."}]`),
			[]happens{begin},
			[]string{"5m starts next 1d15m", "1d15m alert firing one .", "1d15m ends exhausted"},
		},
		"of office time, paused over night": {
			of("pause: {event: t.changed, key: event.id, if: event.hold}", `escalate: [{after: 8h, of: office, step: one, text: "."}]`),
			[]happens{begin, {"1h5m", "t.changed", `{"id": 1, "hold": true}`}, {"24h", "t.changed", `{"id": 1, "hold": false}`}},
			[]string{"5m starts next 1d15m", "1h5m event", "1d event next 1d7h", "1d7h alert firing one .", "1d7h ends exhausted"},
		},
		"within office time": {
			of(`escalate: [{after: 9h, within: office, step: one, text: "."}]`),
			[]happens{begin},
			[]string{"5m starts next 23h", "23h alert firing one .", "23h ends exhausted"},
		},
		"a look in between never postpones a step": {
			of("update: {event: t.changed, key: event.id}", "recheck: date(state.look)", doneResolves, `while: (state.ok ?? false) == false`),
			[]happens{begin, {"1h20m", "t.changed", `{"id": 1, "look": "2026-03-02T14:00:00Z"}`}, {"3h20m", "t.changed", `{"id": 1, "look": "2026-03-02T13:40:00Z"}`}},
			[]string{
				"5m starts next 1h15m", "1h15m alert firing one .", "1h20m event next 3h15m", "3h15m alert firing two .",
				"3h20m event next 4h15m", "4h15m ends exhausted",
			},
		},
		"a look in between, known from the start": {
			of("recheck: date(event.began) + minutes(70)", doneResolves),
			[]happens{begin, {"3h30m", "t.done", `{"id": 1}`}},
			[]string{"5m starts next 45m", "45m check next 1h15m", "1h15m alert firing one .", "3h15m alert firing two .", "3h30m alert resolved two", "3h30m ends resolved"},
		},
		"a pause does not forget the look in between": {
			of("recheck: date(event.began) + minutes(70)", "pause: {event: t.changed, key: event.id, if: event.hold}", doneResolves),
			[]happens{begin, {"10m", "t.changed", `{"id": 1, "hold": true}`}, {"20m", "t.changed", `{"id": 1, "hold": false}`}, {"50m", "t.done", `{"id": 1}`}},
			[]string{"5m starts next 45m", "10m event", "20m event next 45m", "45m check next 1h15m", "50m ends resolved"},
		},
		"the first trigger counts": {
			of(doneResolves),
			[]happens{begin, {"50m", "t.started", itBegins}},
			[]string{"5m starts next 1h15m", "1h15m alert firing one .", "3h15m alert firing two .", "4h15m ends exhausted"},
		},
		"a repeated trigger begins anew": {
			of("again: restart", doneResolves),
			[]happens{begin, {"1h20m", "t.started", itBegins}},
			[]string{
				"5m starts next 1h15m", "1h15m alert firing one .", "1h20m alert resolved one", "1h20m ends restarted", "1h20m starts next 2h30m",
				"2h30m alert firing one .", "4h30m alert firing two .", "5h30m ends exhausted",
			},
		},
		"a resolve that comes first, by a faster road": {
			of("resolve: {event: other.done, key: event.id}", "trigger: {event: t.started, key: event.id, since: event.began}"),
			[]happens{{"0s", "other.done", `{"id": 1}`}, begin},
			[]string{"5m ends resolved"},
		},
		"a resolve of the time before is another one's": {
			of("resolve: {event: other.done, key: event.id}"),
			[]happens{{"0s", "other.done", `{"id": 1}`}, begin, {"20m", "other.done", `{"id": 1}`}},
			[]string{"5m starts next 1h15m", "20m ends resolved"},
		},
		"nothing is remembered for longer than early": {
			of("resolve: {event: other.done, key: event.id}", "trigger: {event: t.started, key: event.id, since: event.began}", "early: 4m"),
			[]happens{{"0s", "other.done", `{"id": 1}`}, begin, {"10m", "other.done", `{"id": 1}`}},
			[]string{"5m starts next 30m", "10m ends resolved"},
		},
		"a set that an update completes": {
			of("update: {event: t.changed, key: event.id}", "resolve: {event: t.file, key: event.batch, distinct: event.name, need: state.files}"),
			[]happens{begin, {"10m", "t.file", `{"batch": 1, "name": "a"}`}, {"12m", "t.file", `{"batch": 1, "name": "b"}`}, {"20m", "t.changed", `{"id": 1, "files": 2}`}},
			[]string{"5m starts next 1h15m", "10m event next 1h15m", "12m event next 1h15m", "20m ends resolved"},
		},
		"nothing divided by nothing is not fine": {
			of("while: event.failed / event.all > 0.5", "guards: {attempts: 1, end: true}"),
			[]happens{{"5m", "t.started", `{"id": 1, "failed": 0, "all": 0}`}},
			[]string{"5m starts next 1h15m", "1h15m alert gave_up ", "1h15m ends undetermined"},
		},
		"all files of a batch": {
			of("resolve: {event: t.file, key: event.batch, distinct: event.name, need: state.n}"),
			[]happens{begin, {"10m", "t.file", `{"batch": 1, "name": "a"}`}, {"11m", "t.file", `{"batch": 1, "name": "a"}`}, {"12m", "t.file", `{"batch": 1, "name": "b"}`}},
			[]string{"5m starts next 1h15m", "10m event next 1h15m", "12m ends resolved"},
		},
		"wildcards": {
			of("trigger: {event: dev.*.*.up, key: 'wildcard(2) + \"/\" + wildcard(1)'}", "resolve: {event: dev.>, key: event.id, if: wildcard(1) == \"x.y.down\"}"),
			[]happens{{"5m", "dev.a.b.up", `{}`}, {"7m", "dev.x.y.up", `{"id": "b/a"}`}, {"8m", "dev.x.y.down", `{"id": "b/a"}`}},
			[]string{"5m starts next 1h15m", "8m ends resolved"},
		},
		"an event that a rule can't take in": {
			of(doneResolves, `trigger: {event: t.started, key: event.id, if: event.n > 1}`),
			[]happens{{"1m", "t.started", `{"id": 1, "n": "5"}`}, begin},
			[]string{
				"5m starts next 1h15m", "1h15m alert firing one .", "3h15m alert firing two .", "4h15m ends exhausted",
				"refused t.started at 2026-03-02T10:01:00Z: trigger: event.n > 1: invalid operation: text > a number",
			},
		},
		"a computed time that can't be": {
			of("escalate: [{after: hours(event.h), step: one}]"),
			[]happens{{"1m", "t.started", `{"id": 1, "h": 9999}`}},
			[]string{"refused t.started at 2026-03-02T10:01:00Z: trigger: step one would be at 2027-04-23T01:01:00Z, beyond the horizon, 30d; raise guards.horizon"},
		},
		"a guard ends it": {
			of("recheck: date(event.began) + minutes(state.m)", "update: {event: t.changed, key: event.id}", "guards: {max_checks: 3}", doneResolves, "hold: 9d"),
			[]happens{
				begin, {"1h", "t.changed", `{"id": 1, "m": 110}`}, {"1h20m", "t.changed", `{"id": 1, "m": 140}`},
			},
			[]string{
				"5m starts next 1h15m", "1h event next 1h15m", "1h15m alert firing one .", "1h20m event next 1h30m", "1h30m check next 2h",
				"2h alert gave_up ", "2h ends guard_max_checks",
			},
		},
	} {
		t.Run(name, func(t *testing.T) {
			if diff := cmp.Diff(c.want, told(t, c.rule, known, c.story...)); diff != "" {
				t.Errorf("%s\n(-want +got):\n%s", c.rule, diff)
			}
		})
	}
}
