package server_test

import (
	"fmt"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"

	"deadman/alerts"
	futurejobs "deadman/future_jobs"
	"deadman/internal/calendars"
	"deadman/internal/replay"
	"deadman/internal/store/storetest"
)

const replayedLookup = `
name: order-unshipped
entity: order
trigger: {event: orders.created, key: event.id}
resolve: {event: orders.shipped, key: event.id}
lookup: {sql: {source: shop, query: "select status from orders where id = $1"}}
while: state.status == "UNSHIPPED"
guards: {attempts: 2, interval: 10s}
escalate:
  - {after: 1h, step: late, severity: warning, text: "{{key}} is {{state.status}}"}
  - {after: 3h, step: lost, severity: critical}
slot: 5m
hold: 12h
`

// replayedAnswers are the answers of the source, an hour each. They begin with the first event.
var replayedAnswers = []struct{ stub, file string }{
	{`{"status": "UNSHIPPED"}`, `found: {status: UNSHIPPED}`},
	{`{"status": "UNSHIPPED"}`, `found: {status: UNSHIPPED}`},
	{noAnswer, `unavailable: connection refused`},
	{`{"status": "UNSHIPPED"}`, `found: {status: UNSHIPPED}`},
	{`{"status": 7}`, `found: {status: 7}`},
	{noEntity, `absent: true`},
	{`{"status": "SHIPPED"}`, `found: {status: SHIPPED}`},
}

// A replay with the answers that a source gave raises the alerts that a node raised: of lookups, of those that are
// undetermined, and of an outage. The times of an outage's alerts differ, as a node writes them a moment later.
func TestReplayedLookupsAgreeWithNode(t *testing.T) {
	for seed := uint64(1); seed <= 2; seed++ {
		t.Run(fmt.Sprint(seed), func(t *testing.T) {
			t.Parallel()
			var want, got []string
			var events []replay.Event
			var savedAt time.Time
			var answers strings.Builder
			alertText := func(a alerts.Alert) string {
				if futurejobs.IsOutage(a) {
					return strings.Join([]string{a.Rule, a.Key, string(a.Status), string(a.Severity), a.Text}, " ")
				}
				return replayedAlert(a)
			}
			synctest.Test(t, func(t *testing.T) {
				savedAt = time.Now()
				v := &virtual{t: t, dir: storetest.DataDir(t), known: calendars.Set{}}
				v.open()
				v.save(replayedLookup)
				v.run()
				defer v.close()
				events = replayedEvents(seed, time.Now().Add(time.Minute))
				tl := timelineOf(events)
				answers.WriteString("sources: {shop: {answers: [")
				for i := range 48 {
					answer, at := replayedAnswers[i%len(replayedAnswers)], savedAt.Add(time.Minute+time.Duration(i)*time.Hour+30*time.Second)
					tl = append(tl, line{at: at, kind: kindFound, text: answer.stub})
					fmt.Fprintf(&answers, "{from: %q, %s}, ", at.Format(time.RFC3339), answer.file)
				}
				answers.WriteString("]}}")
				slices.SortStableFunc(tl, func(a, b line) int { return a.at.Compare(b.at) })
				v.play(tl)
				for _, a := range v.alerts() {
					want = append(want, alertText(a.Alert))
				}
			})
			given, err := replay.ParseLookups([]byte(answers.String()), "")
			if err != nil {
				t.Fatal(err)
			}
			replayEvents(t, replayedLookup, given, savedAt, events, func(a alerts.Alert) { got = append(got, alertText(a)) })
			slices.Sort(want)
			slices.Sort(got)
			if diff := cmp.Diff(want, got); diff != "" || len(want) < 30 {
				t.Errorf("%d alerts (-node +replay):\n%s", len(want), diff)
			}
		})
	}
}
