package storetest

import (
	"errors"
	"fmt"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"deadman/access"
	"deadman/alerts"
	futurejobs "deadman/future_jobs"
)

// told settles a decision with an alert about each key, publishes nothing, and returns the
// database's time after which they were decided.
func (w *world) told(keys ...string) (since time.Time) {
	w.t.Helper()
	since = must[time.Time](w.t)(w.Now(w.ctx()))
	for later := since; !later.After(since); { // so that nothing before was decided at the same instant
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
			decisions = append(decisions, w.over(j))
		}
	}
	w.settle(decisions...)
	return since.Add(time.Microsecond)
}

func alertsAreRepublished(t *testing.T, w *world) {
	shop := w.rule
	w.told("a")
	w.must(w.MarkPublished(w.ctx(), w.unpublished()))
	since := w.told("b", "c")
	w.rule = w.save("other", "order")
	w.told("d")
	w.must(w.MarkPublished(w.ctx(), w.unpublished()))
	w.told("waits")

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
		n, next, err := w.Republish(access.As(w.ctx(), ada), f)
		if n != want || next != "" || err != nil {
			t.Errorf("%d put back, going on at %q, want %d: %v", n, next, want, err)
		}
	}
	republish(of, 2)
	republish(of, 0) // they wait
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
	if diff := cmp.Diff(want, w.audited(access.Filter{Action: "alert.republish"})); diff != "" {
		t.Error(diff)
	}
	for _, ask := range []func(futurejobs.Filter) error{
		func(f futurejobs.Filter) error { _, _, err := w.Republish(w.ctx(), f); return err },
		func(f futurejobs.Filter) error { _, err := w.Republishable(w.ctx(), f); return err },
	} {
		if err := ask(futurejobs.Filter{After: since, Rule: "nobody"}); !errors.Is(err, futurejobs.ErrNotFound) {
			t.Errorf("of a rule that never was: %v", err)
		}
	}
	if _, _, err := w.Republish(w.ctx(), futurejobs.Filter{Cursor: "x"}); !errors.Is(err, futurejobs.ErrBadCursor) {
		t.Errorf("%v", err)
	}
}

// More than one transaction takes goes in several, each alert once.
func alertsAreRepublishedInParts(t *testing.T, w *world) {
	const some = 5500
	keys := make([]string, some)
	for i := range keys {
		keys[i] = fmt.Sprint(i)
	}
	f := futurejobs.Filter{After: w.told(keys...)}
	w.must(w.MarkPublished(w.ctx(), w.unpublished()))
	seen := make(map[alerts.ID]bool)
	for _, want := range []int64{5000, 500} {
		n, next, err := w.Republish(w.ctx(), f)
		if n != want || err != nil || (next == "") != (want == 500) {
			t.Fatalf("%d put back, going on at %q, want %d: %v", n, next, want, err)
		}
		f.Cursor = next
		waiting := w.unpublished() // the relay takes them before the next part
		w.must(w.MarkPublished(w.ctx(), waiting))
		for _, a := range waiting {
			if seen[a.ID] {
				t.Fatalf("alert %s is put back twice", a.ID)
			}
			seen[a.ID] = true
		}
	}
	if len(seen) != some {
		t.Errorf("%d of %d were put back", len(seen), some)
	}
}
