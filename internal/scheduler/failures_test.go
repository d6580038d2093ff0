package scheduler_test

import (
	"context"
	"math"
	"slices"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"deadman/alerts"
	"deadman/internal/calendars"
	"deadman/internal/scheduler"
	"deadman/internal/store"
	"deadman/internal/store/storetest"
	"deadman/rules"
)

// Ticks of a rule that cannot be applied are alerted once, by several nodes, and again when they are applied.
func TestFailedTicksAreAlerted(t *testing.T) {
	t.Parallel()
	w := newFixture(t, store.Options{DataDir: storetest.DataDir(t), Shards: 4})
	w.rule = w.save(`
name: office-import
entity: import
trigger: {schedule: "@every 30s", keys: [customers]}
escalate: [{after: 1h, within: office}]
again: keep
`)
	known, err := calendars.Parse([]byte("calendars:\n  office: {zone: UTC, hours: \"09:00-17:00\"}\n"), "")
	if err != nil {
		t.Fatal(err)
	}
	run := func(known calendars.Set) (ticker *scheduler.Scheduler, stop func()) {
		catalog := rules.NewCatalog(w.store, w.store.Shards())
		catalog.Calendars = known
		if err := catalog.Refresh(t.Context()); err != nil {
			t.Fatal(err)
		}
		return w.lateTicker(catalog)
	}
	for range 2 {
		ticker, stop := run(calendars.Set{})
		w.eventually("its ticks fail", func() bool { return slices.Equal(ticker.Failing(), []string{"office-import"}) && len(w.raised()) > 0 })
		stop()
	}
	if all := w.raised(); len(all) != 1 || all[0].Status != alerts.Firing || all[0].Key != "rule/office-import" || !strings.Contains(all[0].Text, `unknown calendar "office"`) {
		t.Errorf("raised: %+v", all)
	}
	ticker, _ := run(known)
	w.eventually("the alert is closed", func() bool { return len(w.raised()) == 2 })
	all := w.raised()
	if again := all[1]; again.Status != alerts.Resolved || !slices.Equal(again.Closes, []alerts.ID{all[0].ID}) || len(ticker.Failing()) > 0 || len(w.jobs()) != 1 {
		t.Errorf("raised: %+v; failing %v; %d jobs", again, ticker.Failing(), len(w.jobs()))
	}
}

// stuckAlerts is a database that at first closes no alert.
type stuckAlerts struct {
	*store.Store
	refused atomic.Int32
	left    atomic.Int32
}

func (s *stuckAlerts) ResolveSystemAlert(ctx context.Context, r alerts.SystemAlert) (a alerts.Alert, raised bool, err error) {
	if s.left.Add(-1) >= 0 {
		s.refused.Add(1)
		return a, false, errLost
	}
	return s.Store.ResolveSystemAlert(ctx, r)
}

// The alert about ticks is closed although the database did not answer once its ticks were applied: by the same node, and by the
// next one if the node died, long before the next tick.
func TestAlertAboutTicksIsClosedLater(t *testing.T) {
	t.Parallel()
	for name, open := range databases(4) {
		for who, dies := range map[string]bool{"same node": false, "next node": true} {
			t.Run(name+"/"+who, func(t *testing.T) {
				t.Parallel()
				closesAlertLater(newFixture(t, open(t)), dies)
			})
		}
	}
}

func closesAlertLater(w *fixture, dies bool) {
	w.Helper()
	tick := time.Now().Add(time.Minute).UTC().Truncate(time.Second) // after the save; the scheduler is further ahead
	w.rule = w.save("name: import\nentity: import\ntrigger: {schedule: \"@at " + tick.Format(time.RFC3339) + "\", emit: {subject: imports.due}}\n")
	database, away := &stuckAlerts{Store: w.store}, &failingPublisher{Emitter: w.bus.TickPublisher}
	database.left.Store(1)
	if dies {
		database.left.Store(math.MaxInt32)
	}
	away.left.Store(math.MaxInt64)
	run := func(cursors scheduler.CursorStore) (stop func()) {
		_, stop = w.start(scheduler.Options{
			Catalog: w.catalog(), Cursors: cursors, Emitter: away, Observer: &tickCounter{}, Now: func() time.Time { return time.Now().Add(3 * time.Minute) },
		})
		return stop
	}
	stop := run(database)
	w.eventually("the alert is raised", func() bool { return len(w.raised()) == 1 })
	away.left.Store(0)
	w.eventually("the tick is applied, and the alert is open", func() bool {
		return w.cursor().LastSeq == uint64(tick.Unix()) && database.refused.Load() > 0
	})
	if dies {
		stop()
		run(w.store)
	}
	w.eventually("the alert is closed", func() bool { return len(w.raised()) == 2 })
	if all := w.raised(); all[1].Status != alerts.Resolved || !slices.Equal(all[1].Closes, []alerts.ID{all[0].ID}) {
		w.Errorf("raised: %+v", all)
	}
	if open, err := w.store.UnresolvedAlerts(w.Context(), "ticks"); err != nil || len(open) > 0 {
		w.Errorf("open: %+v, %v", open, err)
	}
}
