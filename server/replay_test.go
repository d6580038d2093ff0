package server_test

import (
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"

	"deadman/alerts"
	"deadman/internal/calendars"
	"deadman/internal/replay"
	"deadman/internal/store/storetest"
	"deadman/rules"
)

// replayedRules use what a job can meet: several steps, repetitions, restarts, pauses, sets, updates, conditions and ticks.
const replayedRules = `
name: order-unshipped
entity: order
trigger: {event: orders.created, key: event.id, if: event.amount > 10}
resolve:
  - {event: orders.shipped, key: event.id}
  - {event: orders.cancelled, key: event.id, as: cancelled}
update: {event: orders.changed, key: event.id}
pause: {event: orders.held, key: event.id, until: orders.released}
escalate:
  - {after: 1h, step: late, severity: warning, text: "order {{key}} of {{event.amount}} is late"}
  - {after: 3h, step: lost, severity: critical}
  - {every: 30m, times: 3, step: reminder, severity: critical}
slot: 5m
hold: 12h
---
name: order-quiet
entity: order
trigger: {event: orders.changed, key: event.id}
again: restart
resolve: {event: orders.shipped, key: event.id}
escalate: [{after: 50m, step: quiet}]
hold: 2h
---
name: import-missing
entity: import
trigger: {schedule: "0 */4 * * *", keys: [stock, prices]}
resolve: {event: imports.done, key: event.id}
escalate: [{after: 45m, step: missing, severity: error}]
`

// replayedEvents returns random events of two days, in order of time.
func replayedEvents(seed uint64, from time.Time) (events []replay.Event) {
	random := rand.New(rand.NewPCG(seed, seed))
	subjects := []string{"orders.created", "orders.created", "orders.shipped", "orders.cancelled", "orders.changed", "orders.held", "orders.released", "imports.done"}
	at := from
	for range 400 {
		at = at.Add(time.Duration(random.IntN(720)) * time.Second)
		subject, id := subjects[random.IntN(len(subjects))], fmt.Sprint(random.IntN(12))
		if subject == "imports.done" {
			id = []string{"stock", "prices"}[random.IntN(2)]
		}
		events = append(events, replay.Event{Subject: subject, Time: at, Data: fmt.Appendf(nil, `{"id": %q, "amount": %d}`, id, random.IntN(40))})
	}
	return events
}

// replayEvents replays events with rules that were saved at a time, and returns the summary. raised receives the alerts.
func replayEvents(t *testing.T, text string, answers *replay.Lookups, savedAt time.Time, events []replay.Event, raised func(alerts.Alert)) *replay.Summary {
	t.Helper()
	documents, err := rules.Parse([]byte(text), "")
	if err != nil {
		t.Fatal(err)
	}
	r, err := replay.New(t.Context(), documents, calendars.Set{}, answers, savedAt)
	if err != nil {
		t.Fatal(err)
	}
	r.Raise = func(a alerts.Alert) error {
		raised(a)
		return nil
	}
	for _, e := range events {
		if err := r.Event(t.Context(), e); err != nil {
			t.Fatal(err)
		}
	}
	summary, err := r.Finish(t.Context(), endOf(events))
	if err != nil {
		t.Fatal(err)
	}
	return summary
}

// A replay raises the alerts that a node raised for the same events: with the same ids, slots and texts. Jobs end with the
// same outcomes.
func TestReplayAgreesWithNode(t *testing.T) {
	for seed := uint64(1); seed <= 3; seed++ {
		t.Run(fmt.Sprint(seed), func(t *testing.T) {
			t.Parallel()
			var want, got []string
			var outcomes map[string]int64
			var events []replay.Event
			var savedAt time.Time
			synctest.Test(t, func(t *testing.T) {
				savedAt = time.Now()
				v := &virtual{t: t, dir: storetest.DataDir(t), known: calendars.Set{}}
				v.open()
				v.save(replayedRules)
				v.run()
				defer v.close()
				events = replayedEvents(seed, time.Now().Add(time.Minute))
				v.play(timelineOf(events))
				for _, a := range v.alerts() {
					want = append(want, replayedAlert(a.Alert))
				}
				outcomes = make(map[string]int64)
				for _, e := range v.ended() {
					outcomes[e.Rule+" "+string(e.Outcome)]++
				}
			})
			summary := replayEvents(t, replayedRules, nil, savedAt, events, func(a alerts.Alert) { got = append(got, replayedAlert(a)) })
			slices.Sort(want)
			slices.Sort(got)
			if diff := cmp.Diff(want, got); diff != "" || len(want) < 50 {
				t.Errorf("%d alerts (-node +replay):\n%s", len(want), diff)
			}
			replayed := make(map[string]int64)
			for _, rule := range summary.Rules {
				for outcome, n := range rule.Outcomes {
					replayed[rule.Name+" "+outcome] += n
				}
			}
			if diff := cmp.Diff(outcomes, replayed); diff != "" || len(outcomes) < 5 {
				t.Errorf("outcomes (-node +replay):\n%s", diff)
			}
		})
	}
}

// replayedAlert is what a replay has to repeat of an alert.
func replayedAlert(a alerts.Alert) string {
	return strings.Join([]string{a.Slot.UTC().Format(time.RFC3339Nano), a.Rule, a.Key, a.Step, string(a.Status), a.Text, a.ID.String()}, " ")
}

// timelineOf returns the events as the inputs of a timeline.
func timelineOf(events []replay.Event) (tl timeline) {
	for _, e := range events {
		tl = append(tl, line{at: e.Time, kind: kindEvent, text: e.Subject + " " + string(e.Data)})
	}
	return append(tl, line{at: endOf(events), kind: kindUntil})
}

// endOf returns a time shortly after the last event.
func endOf(events []replay.Event) time.Time { return events[len(events)-1].Time.Add(time.Second) }
