package scheduler_test

import (
	"log/slog"
	"strconv"
	"testing"
	"testing/synctest"
	"time"

	"deadman/checks"
	futurejobs "deadman/future_jobs"
	"deadman/internal/scheduler"
	"deadman/internal/store"
	"deadman/internal/store/storetest"
)

// A tick waits for the check of a due job for an hour and no longer, however often rules change meanwhile. Here nothing checks
// the job.
func TestTickWaitsAnHourForDueJob(t *testing.T) {
	for name, every := range map[string]time.Duration{"no change": 0, "a change each 10 minutes": 10 * time.Minute} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				s, err := store.Open(t.Context(), store.Options{DataDir: storetest.DataDir(t), Shards: 4, Log: slog.New(slog.DiscardHandler)})
				if err != nil {
					t.Fatal(err)
				}
				w := &fixture{T: t, store: s}
				w.save(`
name: import
entity: import
trigger: {schedule: "@every 90m", keys: [customers]}
escalate: [{after: 10m}]
`)
				catalog := w.catalog()
				ticks, stop := w.start(scheduler.Options{Catalog: catalog, Cursors: s, Observer: &tickCounter{}, Loads: &futurejobs.LoadCounter{}, Now: time.Now})
				began, ended := time.Now(), time.Duration(0)
				for range 260 { // the job is due from 1:40 on, and its next tick at 3:00
					time.Sleep(time.Minute)
					if spent := time.Since(began); every > 0 && spent%every == 0 {
						w.save(`
name: other
entity: import
trigger: {schedule: "0 3 * * *", keys: [k]}
escalate: [{after: ` + strconv.Itoa(int(spent/time.Minute)) + `m}]
`)
						if err := catalog.Refresh(t.Context()); err != nil {
							t.Fatal(err)
						}
						ticks.Wake()
					}
					page, err := s.History(t.Context(), futurejobs.Filter{Rule: "import"})
					if err != nil {
						t.Fatal(err)
					}
					if len(page.Items) > 0 && page.Items[0].Outcome == checks.Expired {
						ended = time.Since(began)
						break
					}
				}
				if ended < 239*time.Minute || ended > 242*time.Minute {
					t.Errorf("the unchecked job ended after %s, want 4h", ended)
				}
				stop()
				if err := s.Close(); err != nil {
					t.Error(err)
				}
			})
		})
	}
}
