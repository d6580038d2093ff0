package storetest

import (
	"errors"
	"fmt"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"golang.org/x/sync/errgroup"

	"deadman/alerts"
	futurejobs "deadman/future_jobs"
	"deadman/internal/access"
	"deadman/internal/store"
)

// publishedAlerts settles a decision with an alert about each key, publishes nothing, and returns the database's time before the
// decisions.
func publishedAlerts(w *fixture, keys ...string) (since time.Time) {
	w.t.Helper()
	since = must[time.Time](w.t)(w.Now(w.ctx()))
	for later := since; !later.After(since); { // no earlier decision has the same instant
		later = must[time.Time](w.t)(w.Now(w.ctx()))
	}
	w.start(w.slot(), keys...)
	wanted := make(map[string]bool)
	for _, key := range keys {
		wanted[key] = true
	}
	var decisions []futurejobs.Decision
	for _, j := range w.all() {
		if wanted[j.Key] {
			decisions = append(decisions, w.exhausted(j))
		}
	}
	w.settle(decisions...)
	return since.Add(time.Microsecond)
}

func alertsAreRepublished(t *testing.T, w *fixture) {
	shop := w.rule
	publishedAlerts(w, "a")
	w.must(w.MarkPublished(w.ctx(), w.unpublished()))
	since := publishedAlerts(w, "b", "c")
	w.rule = w.save("other", "order")
	publishedAlerts(w, "d")
	w.must(w.MarkPublished(w.ctx(), w.unpublished()))
	publishedAlerts(w, "waits")

	all := futurejobs.Filter{After: since}
	of := futurejobs.Filter{After: since, Rule: shop.Name}
	for _, f := range []futurejobs.Filter{all, of} {
		want := int64(3)
		if f.Rule != "" {
			want = 2
		}
		if n := must[int64](t)(w.Republishable(w.ctx(), f)); n != want {
			t.Errorf("of rule %q: %d would be published again, want %d", f.Rule, n, want)
		}
	}
	if n := len(w.unpublished()); n != 1 {
		t.Errorf("counting made %d wait", n)
	}
	republish := func(f futurejobs.Filter, want int64) {
		t.Helper()
		if n, err := w.Republish(access.As(w.ctx(), ada), f); n != want || err != nil {
			t.Errorf("%d are published again, want %d: %v", n, want, err)
		}
	}
	republish(of, 2)
	w.unpublished() // it puts them back
	republish(of, 0)
	republish(all, 1)
	republish(futurejobs.Filter{After: since.AddDate(1, 0, 0)}, 0)
	keys := make(map[string]bool)
	for _, a := range w.unpublished() {
		keys[a.Key] = true
	}
	if diff := cmp.Diff(map[string]bool{"b": true, "c": true, "d": true, "waits": true}, keys); diff != "" {
		t.Error(diff)
	}
	at := since.Format(time.RFC3339)
	want := []string{"ada alert.republish rule/" + shop.Name + " alerts decided since " + at + ": 2", "ada alert.republish alerts alerts decided since " + at + ": 1"}
	if diff := cmp.Diff(want, audited(w, access.AuditFilter{Action: "alert.republish"})); diff != "" {
		t.Error(diff)
	}
	for _, send := range []func(futurejobs.Filter) error{
		func(f futurejobs.Filter) error { _, err := w.Republish(w.ctx(), f); return err },
		func(f futurejobs.Filter) error { _, err := w.Republishable(w.ctx(), f); return err },
	} {
		if err := send(futurejobs.Filter{After: since, Rule: "missing"}); !errors.Is(err, futurejobs.ErrNotFound) {
			t.Errorf("of a rule that never was: %v", err)
		}
	}
}

// alertsAreRepublishedInParts checks that more alerts than one transaction takes are put back in several, each alert
// once.
func alertsAreRepublishedInParts(t *testing.T, w *fixture) {
	const some = 10_200
	keys, _ := neighbours(w, some)
	since := publishedAlerts(w, keys...)
	w.must(w.MarkPublished(w.ctx(), w.unpublished()))
	republish(w, since, some)
	seen := make(map[alerts.ID]bool)
	for _, a := range w.unpublished() {
		seen[a.ID] = true
	}
	if n := must[store.Gauges](t)(w.Gauges(w.ctx())).Unpublished; len(seen) != some || n != some {
		t.Errorf("%d alerts wait, %d different ones, want %d", n, len(seen), some)
	}
}

// republish requests alerts to be published again.
func republish(w *fixture, since time.Time, want int64) {
	w.t.Helper()
	if n, err := w.Republish(w.ctx(), futurejobs.Filter{After: since}); n != want || err != nil {
		w.t.Fatalf("%d are published again, want %d: %v", n, want, err)
	}
}

// decideAt settles a decision about a key with an alert of a slot, and returns the alert's id.
func decideAt(w *fixture, slot time.Time, key string) alerts.ID {
	w.t.Helper()
	j := w.one(key)
	j.NextCheckAt, j.CheckCount = j.NextCheckAt.Add(time.Minute), j.CheckCount+1
	d := w.withAlert(futurejobs.Decision{Job: j}, slot)
	w.settle(d)
	return d.Alerts[0].ID
}

// nextUnpublished publishes the alerts of a shard, up to limit at a time, and returns their ids in order.
func nextUnpublished(w *fixture, shard int16, limit int) (ids []alerts.ID) {
	w.t.Helper()
	for {
		next := must[[]alerts.Alert](w.t)(batchOf(w.Unpublished(w.ctx(), []int16{shard}, limit, nil)))
		if len(next) == 0 {
			return ids
		}
		w.must(w.MarkPublished(w.ctx(), next))
		ids = append(ids, idsOf(next)...)
	}
}

// alertsAreRepublishedInOrder checks that republished alerts come in decision order, with ids in any order, and before
// unpublished and new ones.
func alertsAreRepublishedInOrder(t *testing.T, w *fixture) {
	since := must[time.Time](t)(w.Now(w.ctx()))
	keys, shard := neighbours(w, 1)
	slot := w.slot()
	w.start(slot, keys...)
	var want []alerts.ID
	decide := func(slot time.Time) { want = append(want, decideAt(w, slot, keys[0])) }
	decide(slot)
	decide(slot.Add(-2 * time.Hour)) // its id is less than that of the decision before
	decide(slot.Add(-time.Hour))
	if diff := cmp.Diff(want, nextUnpublished(w, shard, 10)); diff != "" {
		t.Fatalf("at first (-want +got):\n%s", diff)
	}
	decide(slot.Add(time.Hour)) // unpublished
	for _, limit := range []int{1, 2, 10} {
		for range 2 {
			republish(w, since, int64(len(want)-1))
		}
		decide(slot.Add(-3 * time.Hour))
		if diff := cmp.Diff(want, nextUnpublished(w, shard, limit)); diff != "" {
			t.Errorf("%d at a time (-want +got):\n%s", limit, diff)
		}
		decide(slot.Add(2 * time.Hour))
	}
}

// concurrentRepublishRunsOnce checks that nodes that hold a shard, or do not know yet that they lost it, put an alert
// back once.
func concurrentRepublishRunsOnce(_ *testing.T, w *fixture) {
	const some, nodes = 1000, 4
	keys, shard := neighbours(w, some)
	since := publishedAlerts(w, keys...)
	w.must(w.MarkPublished(w.ctx(), w.unpublished()))
	for range 3 {
		republish(w, since, some)
		var group errgroup.Group
		for range nodes {
			group.Go(func() error {
				waiting, _, err := w.Unpublished(w.ctx(), []int16{shard}, 2*some, nil)
				if err == nil && len(waiting) != some {
					err = fmt.Errorf("%d wait, want %d", len(waiting), some)
				}
				return err
			})
		}
		w.must(group.Wait())
		w.must(w.MarkPublished(w.ctx(), w.unpublished()))
	}
}

// republishKeepsUnpublishedAlerts checks that alerts of one instant are put back beside those that are still
// unpublished since the last time.
func republishKeepsUnpublishedAlerts(t *testing.T, w *fixture) {
	keys, shard := neighbours(w, 3)
	w.start(w.slot(), keys...)
	decisions := []futurejobs.Decision{w.exhausted(w.one(keys[0])), w.exhausted(w.one(keys[1])), w.exhausted(w.one(keys[2]))}
	since := decisions[0].Alerts[0].DecidedAt
	for i := range decisions {
		decisions[i].Alerts[0].DecidedAt = since
	}
	w.settle(decisions...)
	all := nextUnpublished(w, shard, 10)
	republish(w, since, 3)
	w.must(w.MarkPublished(w.ctx(), w.unpublished()[:1])) // its row keeps the key that it was written with
	republish(w, since, 1)
	if diff := cmp.Diff(all, nextUnpublished(w, shard, 1)); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
}
