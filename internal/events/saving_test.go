package events_test

import (
	"fmt"
	"sync"
	"testing"

	futurejobs "deadman/future_jobs"
	"deadman/internal/bus"
	"deadman/rules"
)

// While rules of a stream are saved without a pause, each event creates exactly the jobs of the versions saved before
// it: none is missing, none has another version, and reading continues.
func TestEventsMeetVersionsOfTheirTimeWhileRulesAreSaved(t *testing.T) {
	t.Parallel()
	const savers, published = 4, 300
	onBothDatabases(t, func(t *testing.T, w *fixture) {
		name := func(saver int) string { return fmt.Sprintf("order-%d", saver) }
		save := func(r *rules.Registry, saver, round int) error {
			text := fmt.Sprintf("name: %s\nentity: order\ntrigger: {event: order.created, key: event.id}\nescalate: [{after: %dm, step: primary}]\n", name(saver), 60+round)
			_, err := r.Save(t.Context(), []byte(text), "", rules.SaveOptions{Version: rules.AnyVersion})
			return err
		}
		for saver := range savers {
			if err := save(w.registry(), saver, 0); err != nil {
				t.Fatal(err)
			}
		}
		w.start()
		over := make(chan struct{})
		var saving sync.WaitGroup
		for saver := range savers {
			saving.Go(func() {
				r := w.registry()
				for round := 1; ; round++ {
					select {
					case <-over:
						return
					default:
					}
					if err := save(r, saver, round); err != nil {
						t.Error(err)
						return
					}
				}
			})
		}
		seqs := make(map[string]uint64)
		var last uint64
		for i := range published {
			key := fmt.Sprintf("k%d", i)
			last = w.publish("order.created", fmt.Sprintf(`{"id":%q}`, key))
			seqs[key] = last
		}
		w.waitUntilCaughtUp(bus.EventsStream, last) // while saving continues
		close(over)
		saving.Wait()
		for saver := range savers {
			w.checkVersions(name(saver), seqs)
		}
	})
}

// checkVersions fails the test unless a rule has one job for each key, with the newest version saved before the
// key's event.
func (w *fixture) checkVersions(rule string, seqs map[string]uint64) {
	w.t.Helper()
	versions, err := w.store.Named(w.t.Context(), rule)
	if err != nil {
		w.t.Fatal(err)
	}
	w.t.Logf("rule %s was saved %d times", rule, len(versions))
	found := make(map[string]int32)
	f := futurejobs.Filter{Rule: rule, Limit: futurejobs.MaxLimit}
	for more := true; more; more = f.Cursor != "" {
		page, err := w.store.Jobs(w.t.Context(), f)
		if err != nil {
			w.t.Fatal(err)
		}
		for _, j := range page.Items {
			found[j.Key] = j.Version
		}
		f.Cursor = page.Next
	}
	for key, seq := range seqs {
		want := int32(0)
		for _, v := range versions { // newest first
			if v.Reads[0].From < seq {
				want = v.Version
				break
			}
		}
		if found[key] != want {
			w.t.Errorf("rule %s: event %d has a job of version %d, want %d", rule, seq, found[key], want)
		}
	}
	if len(found) != len(seqs) {
		w.t.Errorf("rule %s has %d jobs, want %d", rule, len(found), len(seqs))
	}
}
