package scheduler_test

import (
	"math"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"deadman/alerts"
	futurejobs "deadman/future_jobs"
	"deadman/internal/scheduler"
	"deadman/internal/store"
	"deadman/internal/store/storetest"
	"deadman/rules"
)

// limitedCatalog is a catalog of rules whose tenants may have used up their allowances.
type limitedCatalog struct {
	*rules.Catalog
	isShort atomic.Bool
}

func (b *limitedCatalog) Scheduled() (int64, []futurejobs.TickingRule) {
	revision, all := b.Catalog.Scheduled()
	for i := range all {
		all[i] = shortSchedule{all[i], b}
	}
	return revision, all
}

type shortSchedule struct {
	futurejobs.TickingRule
	catalog *limitedCatalog
}

func (r shortSchedule) Due(after, now time.Time) (d futurejobs.DueTicks, ok bool, err error) {
	if r.catalog.isShort.Load() {
		return d, false, futurejobs.ErrPutOff
	}
	return r.TickingRule.Due(after, now)
}

// Ticks that are put off because the allowance of a tenant is used up are alerted after a minute and applied later. The
// node itself is healthy meanwhile.
func TestPostponedTicksAreAlerted(t *testing.T) {
	t.Parallel()
	w := newFixture(t, store.Options{DataDir: storetest.DataDir(t), Shards: 4})
	w.rule = w.save(`
name: import
entity: import
trigger: {schedule: "@every 30s", keys: [customers]}
escalate: [{after: 1h}]
again: keep
`)
	catalog := &limitedCatalog{Catalog: rules.NewCatalog(w.store, w.store.Shards())}
	catalog.isShort.Store(true)
	if err := catalog.Refresh(t.Context()); err != nil {
		t.Fatal(err)
	}
	ticker, _ := w.lateTicker(catalog)
	w.eventually("the alert is raised", func() bool { return len(w.raised()) == 1 })
	if all := w.raised(); all[0].Key != "rule/import" || !strings.Contains(all[0].Text, futurejobs.ErrPutOff.Error()) {
		t.Errorf("raised: %+v", all)
	}
	if failing := ticker.Failing(); len(failing) > 0 || ticker.Err() != nil || len(w.jobs()) != 0 {
		t.Errorf("failing %v, %v; %d jobs", failing, ticker.Err(), len(w.jobs()))
	}
	catalog.isShort.Store(false)
	w.eventually("the last tick is applied", func() bool { return len(w.jobs()) == 1 && len(w.raised()) == 2 })
	if all := w.raised(); all[1].Status != alerts.Resolved {
		t.Errorf("raised: %+v", all[1])
	}
}

// An event of a schedule that exceeds a quota waits for as long as the quota says, and is emitted then without a change of
// the rules.
func TestEmissionsWaitForTheirQuota(t *testing.T) {
	t.Parallel()
	const wait = 3 * time.Second
	w := newFixture(t, store.Options{DataDir: storetest.DataDir(t), Shards: 4})
	w.rule = w.save("name: import\nentity: import\ntrigger: {schedule: \"@every 1s\", emit: {subject: imports.due}}\n")
	var counted tickCounter
	var mu sync.Mutex
	var requestedAt []time.Time
	w.ticker(scheduler.Options{
		Catalog: w.catalog(), Cursors: w.store, Emitter: w.bus.TickPublisher, Observer: &counted,
		Allow: func(rule string, bytes int, now time.Time) time.Duration {
			mu.Lock()
			defer mu.Unlock()
			if requestedAt = append(requestedAt, now); rule != "import" || bytes <= 0 {
				t.Errorf("%d bytes of the rule %s are counted", bytes, rule)
			}
			if len(requestedAt) == 1 {
				return wait
			}
			return 0
		},
	})
	w.eventually("the event is emitted", func() bool { return counted.emitted.Load() > 0 })
	mu.Lock()
	defer mu.Unlock()
	if len(requestedAt) < 2 {
		t.Fatal("the event was emitted although the quota refused it")
	}
	if waited := requestedAt[1].Sub(requestedAt[0]); waited < wait {
		t.Errorf("the event waited for %s, want %s", waited, wait)
	}
}

// A wait for a quota leaves the alert about ticks that cannot be applied open: it applies nothing. The alert is closed once they
// are applied.
func TestQuotaWaitsKeepTheAlertAboutTicks(t *testing.T) {
	t.Parallel()
	w := newFixture(t, store.Options{DataDir: storetest.DataDir(t), Shards: 4})
	w.rule = w.save("name: import\nentity: import\ntrigger: {schedule: \"@every 30s\", emit: {subject: imports.due}}\n")
	var counted tickCounter
	var isFull atomic.Bool
	var waits atomic.Int32
	away := &failingPublisher{Emitter: w.bus.TickPublisher}
	away.left.Store(math.MaxInt64)
	ticker, _ := w.start(scheduler.Options{
		Catalog: w.catalog(), Cursors: w.store, Emitter: away, Observer: &counted,
		Now: func() time.Time { return time.Now().Add(3 * time.Minute) },
		Allow: func(string, int, time.Time) time.Duration {
			if !isFull.Load() {
				return 0
			}
			waits.Add(1)
			return 100 * time.Millisecond
		},
	})
	w.eventually("the alert is raised", func() bool { return len(w.raised()) == 1 })
	isFull.Store(true)
	w.eventually("the event waits for the quota", func() bool { return waits.Load() > 2 })
	if all := w.raised(); len(all) != 1 || all[0].Status != alerts.Firing || !slices.Equal(ticker.Failing(), []string{"import"}) || ticker.Err() != nil {
		t.Errorf("raised: %+v; failing %v, %v", all, ticker.Failing(), ticker.Err())
	}
	away.left.Store(0)
	isFull.Store(false)
	w.eventually("the event is emitted and the alert is closed", func() bool { return counted.emitted.Load() > 0 && len(w.raised()) == 2 })
	if all := w.raised(); all[1].Status != alerts.Resolved || len(ticker.Failing()) > 0 {
		t.Errorf("raised: %+v; failing %v", all[1], ticker.Failing())
	}
}
