package rules_test

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/nats-io/nats.go/jetstream"

	"deadman/internal/bus/bustest"
	"deadman/rules"
)

// With RaisePast the alerts of the checks that are due at once are counted; a check with an unknown result is counted as such.
func TestBackfillCountsAlertsAtOnce(t *testing.T) {
	const parcels = `
name: parcels
entity: parcel
trigger: {event: parcels.sent, key: event.id, since: event.at}
resolve: {event: parcels.arrived, key: event.id}
pause: {event: parcels.held, key: event.id, if: event.held}
`
	type counts struct{ jobs, alerts, unknown int }
	for name, c := range map[string]struct {
		rule string
		keep bool // the steps of the past are skipped
		want counts
	}{
		"steps":     {rule: "escalate: [{after: 1h, step: late}, {after: 3h, step: lost}]", want: counts{4, 2, 0}},
		"skipped":   {rule: "escalate: [{after: 1h, step: late}, {after: 3h, step: lost}]", keep: true, want: counts{4, 0, 0}},
		"condition": {rule: "while: state.id != 3\nescalate: [{after: 1h, step: late}]", want: counts{4, 1, 0}},
		"undecided": {rule: "while: state.weight > 1\nescalate: [{after: 1h, step: late}]", want: counts{4, 0, 0}},
		"lookup":    {rule: "while: state != nil\nlookup: {sql: {source: shop, query: select 1}}\nescalate: [{after: 1h, step: late}]", want: counts{4, 0, 2}},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			b := newBackfillFixture(t)
			now := time.Now().UTC().Truncate(time.Second)
			for id, age := range []time.Duration{30 * time.Minute, 2 * time.Hour, 2 * time.Hour, 4 * time.Hour, 4 * time.Hour} {
				b.publish("parcels.sent", fmt.Sprintf(`{"id":%d,"at":%q}`, id+1, now.Add(-age).Format(time.RFC3339)))
			}
			b.publish("parcels.held", `{"id":2,"held":true}`) // held from now on; its step was due before
			b.publish("parcels.arrived", `{"id":4}`)
			o := rules.SaveOptions{Version: rules.AnyVersion, Since: now.Add(-time.Hour), RaisePast: !c.keep, DryRun: true}
			for _, o.DryRun = range []bool{true, false} {
				got, err := b.Save(t.Context(), []byte(parcels+c.rule+"\n"), "", o)
				if is := (counts{got.Backfilled, got.AlertsAtOnce, got.UnknownAtOnce}); err != nil || is != c.want {
					t.Errorf("dry run %t: %+v, want %+v: %v", o.DryRun, is, c.want, err)
				}
			}
			o.DryRun = true
			got, err := b.Save(t.Context(), []byte(parcels+c.rule+"\n"), "", o)
			if is := (counts{got.Backfilled, got.AlertsAtOnce, got.UnknownAtOnce}); err != nil || is != (counts{}) {
				t.Errorf("once the jobs are pending: %+v, want none: %v", is, err)
			}
		})
	}
}

// Events of the range that a stream has deleted are a warning with the subjects of the rule; no other is.
func TestBackfillWarnsOfDeletedEvents(t *testing.T) {
	server, bus := newBroker(t)
	r := newRegistry(bus, openStore(t))
	js := bustest.JetStream(t, server.ClientURL())
	stream, err := js.CreateStream(t.Context(), jetstream.StreamConfig{Name: "PARCELS", Subjects: []string{"parcels.*"}})
	if err != nil {
		t.Fatal(err)
	}
	check := func(after string, since time.Time, want string) {
		t.Helper()
		for _, dry := range []bool{true, false} {
			c, err := r.Save(t.Context(), []byte(parcelRule), "", rules.SaveOptions{Version: rules.AnyVersion, Since: since, DryRun: dry})
			got := strings.Join(c.MissingEvents, "\n")
			if err != nil || want == "" && got != "" || !strings.Contains(got, want) || strings.Contains(got, "PARCELS") {
				t.Errorf("%s, dry run %t: %q, want %q: %v", after, dry, got, want, err)
			}
		}
	}
	past := time.Now().Add(-7 * 24 * time.Hour)
	check("no event", past, "The stream of parcels.arrived, parcels.held, parcels.sent is empty.")
	for id := range 4 {
		if _, err := js.Publish(t.Context(), "parcels.sent", fmt.Appendf(nil, `{"id":%d}`, id)); err != nil {
			t.Fatal(err)
		}
	}
	check("no deletion", past, "")
	if err := stream.Purge(t.Context(), jetstream.WithPurgeKeep(1)); err != nil {
		t.Fatal(err)
	}
	info, err := stream.Info(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	check("a purge", past, "has deleted its events before "+info.State.FirstTime.UTC().Format(time.RFC3339)+"; jobs of earlier events are missing.")
	check("a purge before the range", time.Now(), "")
	if err := stream.Purge(t.Context()); err != nil {
		t.Fatal(err)
	}
	check("a purge of all", past, "is empty: it has deleted its events")
}

// The first check of a job is not late, since it is the slot after the save. The alerts of missing heartbeats are unknown if their
// stream was not read before: the interval restarts.
func TestBackfillCountsLaterChecks(t *testing.T) {
	b := newBackfillFixture(t)
	b.publish("parcels.sent", `{"id":1}`)
	time.Sleep(3100 * time.Millisecond)
	for rule, want := range map[string]struct{ alerts, unknown int }{
		"trigger: {event: parcels.sent, key: event.id}\ncatch_up: {after: 1s, do: skip}\nescalate: [{after: 1s, step: late}]\n": {alerts: 1},
		"trigger: {heartbeat: {event: parcels.sent, key: event.id, every: 1s}}\nescalate: [{after: 0s, step: silent}]\n":        {unknown: 1},
	} {
		text := "name: parcels\nentity: parcel\nslot: 1s\n" + rule
		c, err := b.Save(t.Context(), []byte(text), "", rules.SaveOptions{Version: rules.AnyVersion, Since: time.Now().Add(-time.Hour), RaisePast: true, DryRun: true})
		if err != nil || c.Backfilled != 1 || c.AlertsAtOnce != want.alerts || c.UnknownAtOnce != want.unknown {
			t.Errorf("%s%d jobs, %d alerts, %d unknown: %v", rule, c.Backfilled, c.AlertsAtOnce, c.UnknownAtOnce, err)
		}
	}
}
