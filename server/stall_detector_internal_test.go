package server

import (
	"context"
	"encoding/json"
	"fmt"
	"log/slog"
	"slices"
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"deadman/alerts"
	futurejobs "deadman/future_jobs"
	"deadman/internal/access"
	"deadman/internal/events"
	"deadman/internal/store"
	"deadman/internal/store/storetest"
	"deadman/rules"
)

// detectorFixture runs leases, sweeps and the stall detector on a real SQLite store, in virtual time. The test controls the
// reading of the stream S.
type detectorFixture struct {
	*testing.T
	dir, rule string
	line      string // by which the rule reads the stream S

	store         *store.Store
	catalog       *rules.Catalog
	owner         *futurejobs.Owner
	clock         *futurejobs.Clock
	sweeper       *futurejobs.Sweeper
	woken         atomic.Pointer[futurejobs.Sweeper] // the newest sweeper
	stallDetector *stallDetector
	overdue       *overdue
	alarms        *alarms
	gapDetector   *futurejobs.GapDetector
	caughtUp      func() time.Time
	seq           uint64
	stop          context.CancelFunc // of all components
	hang          context.CancelFunc // of the sweep
	done          []chan error
}

const everyMinute = `
name: order-unshipped
entity: order
trigger: {event: orders.created, key: event.id}
resolve: {event: orders.shipped, key: event.id}
escalate: [{after: 30m, step: primary}]
slot: 1m
hold: 1d
`

// runDetector runs the components in virtual time, from five minutes before an hour.
func runDetector(t *testing.T, rule string, play func(w *detectorFixture)) {
	t.Helper()
	runDetectorOn(t, "S", rule, play)
}

// runDetectorOn is runDetector with a rule on a line of the stream S.
func runDetectorOn(t *testing.T, line, rule string, play func(w *detectorFixture)) {
	t.Helper()
	synctest.Test(t, func(t *testing.T) {
		time.Sleep(time.Until(time.Now().Truncate(time.Hour).Add(55 * time.Minute)))
		w := &detectorFixture{T: t, dir: storetest.DataDir(t), rule: rule, line: line, caughtUp: time.Now}
		w.open()
		defer w.close()
		play(w)
	})
}

// emptyStore returns a store on an empty database in SQLite, until the test ends.
func emptyStore(t *testing.T) *store.Store {
	t.Helper()
	s, err := store.Open(t.Context(), store.Options{DataDir: storetest.DataDir(t), Shards: 4, Log: slog.New(slog.DiscardHandler)})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = s.Close() })
	return s
}

func (w *detectorFixture) open() {
	w.Helper()
	quiet := slog.New(slog.DiscardHandler)
	var err error
	if w.store, err = store.Open(w.Context(), store.Options{DataDir: w.dir, Shards: 4, Log: quiet}); err != nil {
		w.Fatal(err)
	}
	w.failOn(w.store.Reclaim(w.Context()))
	w.save()
	w.catalog = rules.NewCatalog(w.store, 4)
	w.failOn(w.catalog.Refresh(w.Context()))
	w.clock = futurejobs.NewClock(w.store.Now, time.Now)
	w.failOn(w.clock.Sync(w.Context()))
	w.owner = futurejobs.NewOwner(w.store, futurejobs.Node{ID: "n", Name: "n"}, 15*time.Second, time.Now, quiet)
	w.stallDetector = &stallDetector{
		store: w.store, catalog: w.catalog, now: w.clock.Now, after: overdueAfter + 5*time.Second, log: quiet,
		readers: func() []events.Status { return []events.Status{{Line: w.line, CaughtUp: w.caughtUp()}} },
		announce: func(ctx context.Context, r alerts.SystemAlert) error {
			_, _, err := w.store.WriteSystemAlert(ctx, r)
			return err
		},
	}
	w.owner.Changed, w.catalog.Changed = w.wakeSweeps, w.wakeSweeps
	w.overdue = &overdue{store: w.store, catalog: w.catalog, now: w.clock.Now, after: overdueAfter}
	w.alarms = &alarms{
		overdue: w.overdue, quotas: new(access.Quotas), store: w.store, after: w.stallDetector.after + 2*stallCheckInterval, log: quiet,
		record: func(_ alerts.Alert, _ bool, err error) error { return err },
	}
	ctx, stop := context.WithCancel(context.Background())
	w.stop, w.done = stop, nil
	w.startPart(func() error { return w.alarms.Run(ctx) })
	w.startPart(func() error { return w.owner.Run(ctx) })
	w.startPart(func() error { return w.stallDetector.Run(ctx) })
	w.gapDetector = futurejobs.NewGapDetector(w.store, "n", time.Now, quiet)
	w.startPart(func() error { return w.gapDetector.Run(ctx) })
	w.sweep()
}

func (w *detectorFixture) failOn(err error) {
	w.Helper()
	if err != nil {
		w.Fatal(err)
	}
}

// save saves the rule if it does not exist yet.
func (w *detectorFixture) save() {
	w.Helper()
	if _, all, err := w.store.Load(w.Context()); err != nil || len(all) > 0 {
		w.failOn(err)
		return
	}
	w.saveRule(w.rule)
}

// saveRule saves a rule.
func (w *detectorFixture) saveRule(rule string) rules.RuleVersion {
	w.Helper()
	documents, err := rules.Parse([]byte(rule), "rule.yaml")
	w.failOn(err)
	text, err := json.Marshal(documents[0])
	w.failOn(err)
	saved := rules.RuleVersion{Name: documents[0].Name, Entity: documents[0].Entity, Document: text}
	for _, subject := range documents[0].Subjects() {
		saved.Reads = append(saved.Reads, rules.StreamBinding{Subject: subject, Stream: w.line})
	}
	saved, err = w.store.Save(w.Context(), saved, rules.AnyVersion)
	w.failOn(err)
	return saved
}

func (w *detectorFixture) startPart(part func() error) {
	done := make(chan error, 1)
	w.done = append(w.done, done)
	go func() { done <- part() }()
}

// sweep sweeps until hang is called.
func (w *detectorFixture) sweep() {
	sweeper := futurejobs.NewSweeper(w.store, w.catalog, w.owner, w.clock, 4, w.stallDetector.log)
	sweeper.BeforeResume, sweeper.BeforeSweep = w.stallDetector.Resuming, w.gapDetector.Flush
	w.woken.Store(sweeper)
	ctx, hang := context.WithCancel(context.Background())
	w.hang, w.sweeper = hang, sweeper
	w.startPart(func() error { return sweeper.Run(ctx, context.Background()) })
}

// wakeSweeps wakes the newest sweeper, if there is one.
func (w *detectorFixture) wakeSweeps() {
	if sweeper := w.woken.Load(); sweeper != nil {
		sweeper.Wake()
	}
}

// close stops all components, like a shutdown.
func (w *detectorFixture) close() {
	w.Helper()
	w.hang()
	w.stop()
	for _, done := range w.done {
		w.failOn(<-done)
	}
	w.failOn(w.store.Close())
}

// advance advances the time. Each second, the stream is marked as read to its current position.
func (w *detectorFixture) advance(d time.Duration) {
	w.Helper()
	for end := time.Now().Add(d); time.Now().Before(end); time.Sleep(time.Second) {
		w.failOn(w.store.MarkRead(w.Context(), w.line, w.seq, w.caughtUp()))
	}
	synctest.Wait()
}

// createJobs creates jobs.
func (w *detectorFixture) createJobs(n int) {
	w.Helper()
	for range n {
		e := futurejobs.Event{Stream: "S", Subject: "orders.created", Seq: w.seq + 1, At: time.Now(), Data: fmt.Appendf(nil, `{"id":"o%d"}`, w.seq)}
		effects, refusals := w.catalog.Match(e)
		if len(effects) != 1 || len(refusals) != 0 {
			w.Fatalf("an order comes to %+v, %+v", effects, refusals)
		}
		_, err := w.store.Apply(w.Context(), futurejobs.EffectBatch{
			Stream: w.line, After: w.seq, Last: e.Seq, LastAt: e.At, RuleSet: w.catalog.Revision(), Effects: effects,
		})
		w.failOn(err)
		w.seq = e.Seq
	}
}

// listAlerts returns the alerts about stalls, oldest first.
func (w *detectorFixture) listAlerts() []futurejobs.ListedAlert {
	w.Helper()
	page, err := w.store.Alerts(w.Context(), futurejobs.Filter{Rule: alerts.SystemRule, Limit: futurejobs.MaxLimit})
	w.failOn(err)
	slices.Reverse(page.Items)
	slices.SortStableFunc(page.Items, func(a, b futurejobs.ListedAlert) int { return a.DecidedAt.Compare(b.DecidedAt) })
	return page.Items
}

// checkNoAlerts fails the test if any such alert was raised.
func (w *detectorFixture) checkNoAlerts(when string) {
	w.Helper()
	for _, a := range w.listAlerts() {
		w.Errorf("%s: alert %s %s: %s", when, a.Key, a.Status, a.Text)
	}
}

// gapAlerts returns the alerts of a topic, which must be one firing alert and its resolution.
func (w *detectorFixture) gapAlerts(topic string) (firing, resolved futurejobs.ListedAlert) {
	w.Helper()
	listed := slices.DeleteFunc(w.listAlerts(), func(a futurejobs.ListedAlert) bool { return a.Key != topic })
	if len(listed) != 2 || listed[0].Status != alerts.Firing || listed[1].Status != alerts.Resolved || !slices.Equal(listed[1].Closes, []alerts.ID{listed[0].ID}) {
		w.Fatalf("alerts about %s: %+v", topic, listed)
	}
	return listed[0], listed[1]
}

func TestIdleNodeHasNoMonitoringGap(t *testing.T) {
	runDetector(t, everyMinute, func(w *detectorFixture) {
		w.advance(10 * time.Minute)
		w.checkNoAlerts("the first ten minutes")
		w.close()
		time.Sleep(20 * time.Second)
		w.open()
		w.advance(5 * time.Minute)
		w.checkNoAlerts("after a restart of seconds")
	})
}

func TestNoSlotIsMissedBetweenSlots(t *testing.T) {
	runDetector(t, strings.Replace(everyMinute, "slot: 1m", "slot: 15m", 1), func(w *detectorFixture) {
		w.advance(6 * time.Minute) // past the hour
		w.close()
		time.Sleep(10 * time.Minute)
		w.open()
		w.advance(2 * time.Minute)
		if listed := w.listAlerts(); len(listed) != 2 || listed[0].Key != "ingest/S" {
			t.Errorf("between two slots: %+v, want the stream alone", listed)
		}
	})
}

func TestTimeWithoutProcessIsMonitoringGap(t *testing.T) {
	runDetector(t, everyMinute, func(w *detectorFixture) {
		w.createJobs(5)
		w.advance(10 * time.Minute)
		down := time.Now()
		w.close()
		time.Sleep(2 * time.Hour)
		w.open()
		up := time.Now()
		w.advance(2 * time.Minute)
		for _, topic := range []string{"sweep", "ingest/S"} {
			firing, resolved := w.gapAlerts(topic)
			if firing.Count != 5 || resolved.Count != 5 || firing.Severity != alerts.Error {
				t.Errorf("%s: %d and %d late jobs, want 5: %s", topic, firing.Count, resolved.Count, firing.Severity)
			}
			if early := down.Sub(firing.Since); early < 0 || early > 2*time.Minute {
				t.Errorf("%s was blind since %s; the process ended at %s", topic, firing.Since, down)
			}
			if late := resolved.DecidedAt.Sub(up); late > 30*time.Second {
				t.Errorf("%s: the end is reported %s after the start", topic, late)
			}
			for _, part := range []string{firing.Since.Format(time.RFC3339), up.UTC().Format("2006-01-02T15:0"), "for 2h", "5 jobs were late"} {
				if !strings.Contains(resolved.Text, part) {
					t.Errorf("%q does not contain %q", resolved.Text, part)
				}
			}
		}
	})
}

func TestHungSweepIsAlertedWhileItLasts(t *testing.T) {
	runDetector(t, everyMinute, func(w *detectorFixture) {
		w.createJobs(3)
		w.advance(29 * time.Minute)
		w.hang()
		w.advance(90 * time.Second)
		w.checkNoAlerts("a minute after a slot at the most")
		w.advance(4 * time.Minute)
		listed := w.listAlerts()
		if len(listed) != 1 || listed[0].Status != alerts.Firing || listed[0].Key != sweepTopic {
			t.Fatalf("while it hangs: %+v", listed)
		}
		w.sweep()
		w.advance(time.Minute)
		if _, resolved := w.gapAlerts(sweepTopic); resolved.Count != 3 {
			t.Errorf("%d jobs were late, want 3: %s", resolved.Count, resolved.Text)
		}
	})
}

func TestUnreadStreamIsReported(t *testing.T) {
	runDetector(t, everyMinute, func(w *detectorFixture) {
		w.createJobs(4)
		w.advance(28 * time.Minute)
		stuck := time.Now()
		w.caughtUp = func() time.Time { return stuck }
		w.advance(time.Minute)
		w.checkNoAlerts("for a minute")
		w.advance(6 * time.Minute)
		if listed := w.listAlerts(); len(listed) != 1 || listed[0].Status != alerts.Firing || listed[0].Key != "ingest/S" || listed[0].Source != "S" {
			t.Fatalf("while it is not read: %+v", listed)
		}
		catchingUp := time.Now().Add(-2 * time.Minute)
		w.caughtUp = func() time.Time { return catchingUp }
		w.advance(20 * time.Second)
		if listed := w.listAlerts(); len(listed) != 1 {
			t.Errorf("while it is read, and far behind: %+v", listed)
		}
		w.advance(time.Until(time.Now().Truncate(stallCheckInterval).Add(stallCheckInterval + time.Second))) // between two rounds
		atTheLimit := time.Now().Add(-w.stallDetector.after + stallCheckInterval)
		w.caughtUp = func() time.Time { return atTheLimit }
		w.advance(20 * time.Second)
		if listed := w.listAlerts(); len(listed) != 1 {
			t.Errorf("while it is read, and as far behind as it may be: %+v", listed)
		}
		w.caughtUp = time.Now
		w.advance(time.Minute)
		if _, resolved := w.gapAlerts("ingest/S"); resolved.Count != 4 {
			t.Errorf("%d jobs were late, want 4: %s", resolved.Count, resolved.Text)
		}
	})
}

// The clock was set back a moment ago: for up to a second the intake reports a position by the old time.
func TestFutureTimeIsNoMonitoringGap(t *testing.T) {
	runDetector(t, everyMinute, func(w *detectorFixture) {
		w.advance(2 * time.Minute)
		w.stallDetector.readers = func() []events.Status {
			return []events.Status{{Line: "S", CaughtUp: time.Now().Add(5 * time.Minute)}}
		}
		w.advance(stallCheckInterval + time.Second)
		w.stallDetector.readers = func() []events.Status { return []events.Status{{Line: "S", CaughtUp: time.Now()}} }
		w.advance(10 * time.Second)
		w.checkNoAlerts("after a clock was set back")
		stuck := time.Now()
		w.stallDetector.readers = func() []events.Status { return []events.Status{{Line: "S", CaughtUp: stuck}} }
		w.advance(2 * time.Minute)
		if listed := w.listAlerts(); len(listed) != 1 || listed[0].Key != "ingest/S" {
			t.Errorf("while the stream is not read: %+v", listed)
		}
	})
}

func TestUnusedStreamIsForgotten(t *testing.T) {
	runDetector(t, everyMinute, func(w *detectorFixture) {
		w.advance(time.Minute)
		_, err := w.store.Delete(w.Context(), "order-unshipped", rules.AnyVersion)
		w.failOn(err)
		w.failOn(w.catalog.Refresh(w.Context()))
		w.stallDetector.readers = func() []events.Status { return nil }
		w.advance(time.Hour)
		w.checkNoAlerts("after the rule was deleted")
		kept, err := w.store.Progress(w.Context())
		w.failOn(err)
		if len(kept) != 1 || kept[0].Topic != sweepTopic {
			t.Errorf("kept: %+v", kept)
		}
	})
}

const everyTenMinutes = `
name: device-silent
entity: device
trigger: {heartbeat: {every: 10m, grace: 2m}}
slot: 1m
`

// sendHeartbeats sends heartbeats of devices.
func (w *detectorFixture) sendHeartbeats(devices ...string) {
	w.Helper()
	rule, err := w.catalog.Newest("device-silent")
	w.failOn(err)
	batch := futurejobs.EffectBatch{RuleSet: w.catalog.Revision()}
	for _, device := range devices {
		beat, err := rule.HeartbeatEffect(rules.ReceivedHeartbeat{Key: device, At: time.Now(), Kind: rules.Success}, 4)
		w.failOn(err)
		batch.Effects = append(batch.Effects, beat)
	}
	_, err = w.store.Apply(w.Context(), batch)
	w.failOn(err)
}

// After an outage one alert reports the gap, and no device is reported as silent until one is.
func TestOutageRaisesNoSilentDeviceAlerts(t *testing.T) {
	runDetector(t, everyTenMinutes, func(w *detectorFixture) {
		w.caughtUp = func() time.Time { return time.Time{} } // no node reads a stream
		w.sendHeartbeats("a", "b", "c", "d")
		time.Sleep(5 * time.Minute)
		w.close()
		time.Sleep(2 * time.Hour)
		w.open()
		up := time.Now()
		time.Sleep(9 * time.Minute)
		w.sendHeartbeats("a", "b", "c")
		time.Sleep(9 * time.Minute)
		if _, resolved := w.gapAlerts("sweep"); resolved.Count != 4 {
			t.Errorf("%d jobs were late, want 4", resolved.Count)
		}
		page, err := w.store.Alerts(w.Context(), futurejobs.Filter{Rule: "device-silent", Limit: futurejobs.MaxLimit})
		w.failOn(err)
		if len(page.Items) != 1 || page.Items[0].Key != "d" {
			t.Fatalf("alerts about devices: %+v, want one about d", page.Items)
		}
		if after := page.Items[0].DecidedAt.Sub(up); after < 12*time.Minute || after > 13*time.Minute+time.Second {
			t.Errorf("the alert about d is raised %s after the outage, want 12 to 13 m", after)
		}
	})
}
