package ruletest_test

import (
	"fmt"
	"io/fs"
	"maps"
	"os"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"deadman/internal/ruletest"
	"deadman/rules"
)

// lateRule is checked each quarter of an hour.
const lateRule = `
name: order-late
entity: order
trigger: {event: orders.created, key: event.id, if: event.vip == true or event.total > 100}
resolve:
  - {event: orders.shipped, key: event.id}
  - {event: orders.changed, key: event.id, if: event.status == "CANCELLED", as: cancelled}
escalate:
  - {after: 'event.vip == true ? hours(1) : hours(3)', step: late, severity: warning, text: "order {{key}} is late"}
  - {after: 8h, step: lost, severity: critical}
slot: 15m
hold: 1d
labels: {team: fulfilment}
`

// pingRule expects a report each hour.
const pingRule = `
name: backup-silent
entity: backup
trigger: {heartbeat: {every: 1h, keys: [photos]}}
escalate: [{after: 0s, step: silent}]
`

// stateRule has a condition at its checks.
const stateRule = `
name: order-open
entity: order
trigger: {event: orders.opened, key: event.id}
update: {event: orders.changed, key: event.id}
while: not (state.held ?? false) and state.status == "OPEN"
escalate: [{after: 1h, step: open}]
`

// lookupRule queries a source.
const lookupRule = `
name: order-stuck
entity: order
trigger: {event: orders.created, key: event.id}
lookup: {sql: {source: shop, query: select status from orders where id = $1}}
while: state.status == "UNSHIPPED"
escalate: [{after: 1h, step: late}, {after: 2h, step: lost}]
`

// load reads tests of a rule.
func load(t *testing.T, tests string, texts ...string) (*ruletest.Suite, error) {
	t.Helper()
	files := map[string]string{"rule.test.yaml": tests, "rule.yaml": strings.Join(texts, "---\n")}
	return ruletest.Load("rule.test.yaml", nil, func(path string) ([]byte, error) {
		text, ok := files[path]
		if !ok {
			return nil, fmt.Errorf("%s: %w", path, fs.ErrNotExist)
		}
		return []byte(text), nil
	})
}

// TestOwnCalendars checks that the calendars of a rule need no file, and count in its tests. 2026-03-06 is a Friday.
func TestOwnCalendars(t *testing.T) {
	own := strings.Replace(pingRule, "after: 0s", "after: 1h, of: office", 1) + "calendars: {office: {zone: UTC, days: mon-fri, hours: \"09:00-17:00\"}}\n"
	const tests = `
tests:
  - name: the weekend does not count
    start: 2026-03-06T15:30:00Z
    until: 3d
    alerts: [{at: 2026-03-09T09:30:00Z, step: silent}]
`
	if got := failures(t, rules.NewCoverage(), tests, own); got != "\n" {
		t.Error(got)
	}
}

// failures runs tests, and returns the text of all failures.
func failures(t *testing.T, used *rules.Coverage, tests string, texts ...string) string {
	t.Helper()
	s, err := load(t, tests, texts...)
	if err != nil {
		t.Fatal(err)
	}
	var lines []string
	for i := range s.Tests {
		failed, err := s.Run(t.Context(), &s.Tests[i], used)
		if err != nil {
			t.Fatal(err)
		}
		for _, f := range failed {
			lines = append(lines, fmt.Sprintf("%d: %s", f.Line, strings.Join(f.Lines(), "\n")))
		}
	}
	return strings.Join(lines, "\n") + "\n"
}

func TestRun(t *testing.T) {
	for _, c := range []struct {
		name, rule, test, want string
	}{
		{"passes", lateRule, `
events:
  - {at: 5m, subject: orders.created, data: {id: "1", total: 200}}
  - {at: 5m, subject: orders.created, data: {id: "2", total: 50}}
  - {at: 6h55m, subject: orders.shipped, data: {id: "1"}}
alerts:
  - {at: 3h15m, rule: order-late, key: "1", step: late, status: firing, severity: warning, text: order 1 is late, labels: {team: fulfilment}}
  - {at: 2026-03-02T16:55:00Z, key: "1", status: resolved, contains: resolved after}
outcomes: [{key: "1", outcome: resolved, at: 6h55m}]
`, "\n"},
		{"a time between two slots", lateRule, `
events:
  - {at: 5m, subject: orders.created, data: {id: "1", total: 200}}
  - {at: 1h, subject: orders.changed, data: {id: "1", status: PAID}}
  - {at: 7h, subject: orders.shipped, data: {id: "1"}}
alerts:
  - {at: 3h5m, key: "1", step: late}
  - {at: 7h, key: "1", status: resolved}
`, `
8: 1 alert not as expected (- expected, + actual)

  at       key  step  status
- [3h5m]   1    late            line 8
+ [3h15m]  1    late  firing
  7h       1    late  resolved

order-late is checked each 15m only, and 3h5m (13:05:00) is between two checks: expect at: 3h15m, or give the rule a smaller slot

order-late, key 1:
  5m     event  orders.created starts the job; next check at 3h15m
                  trigger.if: event.vip == true is false; event.vip is missing
                  trigger.if: event.total > 100 is true; event.total = 200
                  step late after: event.vip == true is false; event.vip is missing
  1h     event  orders.changed {"id":"1","status":"PAID"} has no effect
                  resolve[1].if: event.status == "CANCELLED" is false; event.status = "PAID"
  3h15m  check  step late is due; next check at 8h15m
  3h15m  alert  firing warning late: order 1 is late
  7h     alert  resolved warning late: order 1: resolved after 6h55m
  7h     ends   resolved
`},
		{"silence is expected, and a job is pending", lateRule, `
events: [{at: 0s, subject: orders.created, data: {id: "1", vip: true}}]
until: 2h
alerts: []
outcomes: []
`, `
2: 1 alert not expected (- expected, + actual)

  at  key  step  status  text
+ 1h  1    late  firing  order 1 is late

order-late, key 1:
  0s  event  orders.created starts the job; next check at 1h
               trigger.if: event.vip == true is true; event.vip = true
               step late after: event.vip == true is true; event.vip = true
  1h  check  step late is due; next check at 8h
  1h  alert  firing warning late: order 1 is late
2: 1 outcome not expected (- expected, + actual)

  at  key  outcome  reason
+     1    pending
`},
		{"no job", lateRule, `
events: [{at: 0s, subject: orders.created, data: {id: "1", total: 1}}]
alerts: [{at: 3h, key: "1", step: late}]
`, `
4: 1 alert missing (- expected, + actual)

  at  key  step  status
- 3h  1    late          line 4

order-late, key 1:
  0s  event  orders.created {"id":"1","total":1} has no effect
               trigger.if: event.vip == true is false; event.vip is missing
               trigger.if: event.total > 100 is false; event.total = 1
`},
		{"alerts in another order", pingRule, `
events: [{at: 0s, ping: mail}, {at: 1m, ping: videos}, {at: 30m, ping: photos}]
until: 1h1m
alerts: [{at: 1h1m, key: videos}, {at: 1h, key: mail}]
`, `
5: 1 alert missing, 1 alert not expected (- expected, + actual)

  at    key     step    status
- 1h1m  videos                  line 5
  1h    mail    silent  firing
+ 1h1m  videos  silent  firing
…
`},
		{"alerts of the same time in any order", lateRule, `
events:
  - {at: 0s, subject: orders.created, data: {id: "1", total: 200}}
  - {at: 0s, subject: orders.created, data: {id: "2", total: 200}}
until: 3h
alerts: [{at: 3h, key: "2"}, {at: 3h, key: "1"}]
`, "\n"},
		{"partial", lateRule, `
events:
  - {at: 0s, subject: orders.created, data: {id: "1", total: 200}}
  - {at: 0s, subject: orders.created, data: {id: "2", total: 200}}
until: 8h
partial: true
alerts: [{key: "2", step: late}, {key: "1", step: lost}]
outcomes: [{key: "3"}]
`, `
9: 1 outcome missing (- expected, + actual)

  at  key  outcome
-     3             line 9
      1    pending
      2    pending

order-late, key 3: no event starts a job
`},
		{"a ping that fails, and a key that never reports", pingRule, `
events: [{at: 10m, ping: mail, exit: 1, run: r1, body: disk full}]
until: 1h30m
alerts: [{at: 11m, key: mail}, {at: 1h, key: photos}]
outcomes: [{key: photos, outcome: pending}, {key: mail, outcome: pending}]
`, "\n"},
		{"a heartbeat after its last step", pingRule, `
until: 90m
alerts: []
`, `
2: 1 alert not expected (- expected, + actual)

  at  key     step    status  text
+ 1h  photos  silent  firing  backup photos: no heartbeat yet, expected every 1h

backup-silent, key photos:
  0s  starts  the key is expected from the start; next check at 1h
  1h  check   step silent is due; no further check until the next heartbeat
  1h  alert   firing warning silent: backup photos: no heartbeat yet, expected every 1h
`},
		{"a check", stateRule, `
events:
  - {at: 0s, subject: orders.opened, data: {id: "1", status: OPEN}}
  - {at: 1m, subject: orders.changed, data: {id: "1", held: true}}
alerts: [{at: 1h}]
`, `
6: 1 alert missing (- expected, + actual)

  at  key  step  status
- 1h                     line 6

order-open:
  0s  event  orders.opened starts the job; next check at 1h
  1m  event  orders.changed changes the job; next check at 1h
  1h  ends   cleared
               while: state.held ?? false is true; state.held = true
`},
		{"lookups", lookupRule, `
events:
  - {at: 0s, subject: orders.created, data: {id: "1"}}
  - {at: 0s, subject: orders.created, data: {id: "2"}}
  - {at: 30m, subject: orders.changed, data: {id: "2", status: SHIPPED}}
lookups:
  shop:
    answers: [{found: {status: UNSHIPPED}}, {key: "1", from: 90m, found: {status: SHIPPED}}]
    events: [{event: orders.changed, key: event.id}]
alerts: [{at: 1h, key: "1", step: late}, {at: 2h, key: "1", status: resolved}]
outcomes: [{at: 1h, key: "2", outcome: cleared}, {at: 2h, key: "1", outcome: cleared}]
`, "\n"},
		{"lookups without answers", lookupRule, `
events: [{at: 0s, subject: orders.created, data: {id: "1"}}]
alerts: []
`, "2: rule order-stuck queries source shop, whose answers the test does not have; write them, such as lookups: {shop: {answers: {absent: true}}}\n"},
		{"a dead letter", stateRule, `
events: [{at: 0s, subject: orders.opened, data: {}}]
alerts: []
`, `
2: 1 dead letter not expected (- expected, + actual)

  at  subject        reason
+ 0s  orders.opened  trigger: key event.id: expected text or a number, not a missing value

order-open:
  0s  refused  orders.opened {} would be a dead letter: trigger: key event.id: expected text or a number, not a missing value
`},
		{"an expected dead letter", stateRule, `
events: [{at: 0s, subject: orders.opened, data: {}}]
dead_letters: [{at: 0s, rule: order-open, subject: orders.opened, reason: event.id}]
`, "\n"},
		{"a subject that no rule reads", stateRule, `
events: [{at: 0s, subject: orders.opend}]
alerts: []
`, "3: no rule of the test subscribes to orders.opend; did you mean orders.opened?\n"},
		{"no end", pingRule, "alerts: []\n", "2: the test has no end: rule backup-silent expects a heartbeat forever; write until, such as until: 24h\n"},
		{"a ping without a heartbeat", stateRule, `
events: [{at: 0s, ping: a}]
alerts: []
`, "3: no rule of the test has a heartbeat, so that it takes no ping; write subject and data of an event\n"},
		{"a handler", "name: a\nentity: b\ntrigger: {event: c, key: event.id}\nhandler: d\n", "alerts: []\n", "2: the rule can't be replayed: rule a calls handler d, which may have effects; leave the rule out\n"},
	} {
		t.Run(c.name, func(t *testing.T) {
			text := "tests:\n- name: it works\n" + indented(strings.TrimPrefix(c.test, "\n"))
			got := failures(t, rules.NewCoverage(), text, c.rule)
			want := strings.TrimPrefix(c.want, "\n")
			if want == "" {
				want = "\n"
			}
			if begin, cut := strings.CutSuffix(want, "…\n"); got != want && !(cut && strings.HasPrefix(got, begin)) {
				t.Error(cmp.Diff(want, got))
			}
		})
	}
}

func indented(text string) string {
	var b strings.Builder
	for line := range strings.Lines(text) {
		b.WriteString("  " + line)
	}
	return b.String()
}

// A test with too many alerts ends with an error, in bounded time.
func TestRunIsBounded(t *testing.T) {
	const insistent = "name: a\nentity: b\ntrigger: {schedule: '@every 1s'}\nescalate: [{after: 1s, step: x}]\nslot: 1s\nagain: keep\n"
	got := failures(t, rules.NewCoverage(), "tests: [{name: a, until: 1h, alerts: []}]\n", insistent)
	if !strings.Contains(got, "more than 1000 alerts, outcomes or dead letters; end it earlier, with until") {
		t.Errorf("%.400s", got)
	}
	const unanswered = "name: a\nentity: b\ntrigger: {event: c, key: event.id}\nwhile: state.status == \"OPEN\"\nescalate: [{after: 1h, step: x}]\n"
	got = failures(t, rules.NewCoverage(), "tests: [{name: a, events: [{at: 0s, subject: c, data: {id: 7}}], alerts: []}]\n", unanswered)
	if !strings.Contains(got, "the test has no end: 1000 checks in a row were undetermined, the last of rule a and key 7 at 3d") || !strings.Contains(got, "status") {
		t.Errorf("%.400s", got)
	}
}

// BenchmarkRun runs a test of a rule with two steps.
func BenchmarkRun(b *testing.B) {
	s, err := ruletest.Load("../../examples/orders/order-unshipped.test.yaml", nil, os.ReadFile)
	if err != nil {
		b.Fatal(err)
	}
	for b.Loop() {
		if failed, err := s.Run(b.Context(), &s.Tests[0], rules.NewCoverage()); err != nil || len(failed) > 0 {
			b.Fatal(failed, err)
		}
	}
}

// A test repeats: the same failure has the same text, byte for byte.
func TestRunRepeats(t *testing.T) {
	const text = "tests:\n- name: a\n  events: [{at: 0s, subject: orders.created, data: {id: 1, total: 200}}, {at: 0s, subject: orders.created, data: {id: 2, vip: true}}]\n  alerts: []\n"
	first := failures(t, rules.NewCoverage(), text, lateRule, pingRule[:0])
	for range 5 {
		if again := failures(t, rules.NewCoverage(), text, lateRule); again != first {
			t.Fatal(cmp.Diff(first, again))
		}
	}
}

func TestCoverage(t *testing.T) {
	used := rules.NewCoverage()
	if got := failures(t, used, `
tests:
- name: a
  events:
  - {at: 0s, subject: orders.created, data: {id: "1", total: 200}}
  - {at: 4h, subject: orders.shipped, data: {id: "1"}}
  alerts: [{step: late}, {status: resolved}]
- name: b
  events:
  - {at: 0s, subject: orders.created, data: {id: "1", total: 50, vip: true}}
  - {at: 10m, subject: orders.changed, data: {id: "1", status: HELD}}
  until: 30m
  alerts: []
`, lateRule, stateRule); got != "\n" {
		t.Fatal(got)
	}
	covered := ruletest.Cover(used)
	got := make(map[string][]string)
	for _, r := range covered.Rules {
		got[r.Rule] = r.Missing()
		got[r.Rule] = append(got[r.Rule], fmt.Sprintf("%.0f", r.Percent))
	}
	// Of the branches of order-open none is evaluated; its update matches the event of another job.
	want := map[string][]string{
		"order-late": {
			`trigger.if: event.total > 100 is never false`, `resolve[1]: no event matches it`, `resolve[1].if: event.status == "CANCELLED" is never true`,
			"step lost never raises an alert", "69",
		},
		"order-open": {
			"trigger: no event matches it", "while: state.held ?? false is never evaluated", `while: state.status == "OPEN" is never evaluated`,
			"step open never raises an alert", "14",
		},
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Error(diff)
	}
	if names := slices.Sorted(maps.Keys(got)); len(names) != 2 || int(covered.Percent) != 50 {
		t.Errorf("%v: %v", names, covered.Percent)
	}
}
