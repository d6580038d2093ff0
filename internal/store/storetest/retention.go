package storetest

import (
	"slices"
	"testing"
	"time"

	futurejobs "deadman/future_jobs"
	"deadman/internal/store"
)

// prune deletes rows older than d; a negative d reaches into the future.
func prune(w *fixture, d time.Duration) store.Pruned {
	w.t.Helper()
	return must[store.Pruned](w.t)(w.Prune(w.ctx(), store.Retention{History: d, Alerts: d, DeadLetters: d}))
}

func retentionPrunes(t *testing.T, w *fixture) {
	w.start(w.slot(), "a", "b", "c")
	w.settle(w.exhausted(w.one("a")), w.exhausted(w.one("b")))
	w.must(w.MarkPublished(w.ctx(), w.unpublished()))
	letters := batch(w, 7, 8)
	letters.DeadLetters = []futurejobs.DeadLetter{{Reason: "bad"}}
	must[futurejobs.ApplyResult](t)(w.Apply(w.ctx(), letters))

	if got := prune(w, time.Hour); got != (store.Pruned{}) {
		t.Errorf("pruned what is young: %+v", got)
	}
	if got := must[store.Pruned](t)(w.Prune(w.ctx(), store.Retention{})); got != (store.Pruned{}) {
		t.Errorf("pruned although the retention is unlimited: %+v", got)
	}
	if got, want := prune(w, -3*futurejobs.Day), (store.Pruned{History: 2, Alerts: 2, DeadLetters: 1}); got != want {
		t.Errorf("pruned %+v, want %+v", got, want)
	}
	if len(w.ended()) != 0 || len(pages(t, futurejobs.Filter{}, w.Alerts)) != 0 || len(pages(t, futurejobs.Filter{}, w.DeadLetters)) != 0 {
		t.Error("something is left")
	}
	checkBalance(w, 3)
	w.start(w.slot(), "d") // the table of today still exists, or the default
	w.settle(w.exhausted(w.one("d")))
	if len(w.ended()) != 1 {
		t.Error("nothing can be archived any more")
	}
	checkBalance(w, 4)
}

func retentionKeepsWhatIsUnpublished(t *testing.T, w *fixture) {
	w.start(w.slot(), "a", "b")
	w.settle(w.exhausted(w.one("a")), w.exhausted(w.one("b")))
	waiting := w.unpublished()
	w.must(w.MarkPublished(w.ctx(), waiting[1:]))
	if got := prune(w, -3*futurejobs.Day); got.Alerts != 1 {
		t.Errorf("pruned %d alerts, want the one that is published", got.Alerts)
	}
	if left := w.unpublished(); len(left) != 1 || left[0].ID != waiting[0].ID {
		t.Errorf("left to publish: %v", left)
	}
}

func gaugesCount(t *testing.T, w *fixture) {
	gauges := func() store.Gauges { return must[store.Gauges](t)(w.Gauges(w.ctx())) }
	if got := gauges(); got != (store.Gauges{}) {
		t.Errorf("of nothing: %+v", got)
	}
	w.start(w.slot(), "a", "b", "c", "d")
	w.settle(w.exhausted(w.one("a")), w.exhausted(w.one("b")))
	w.must(w.MarkPublished(w.ctx(), w.unpublished()[:1]))
	past := must[time.Time](t)(w.Now(w.ctx())).Add(-time.Hour)
	w.settle(w.reschedule(w.one("c"), past))
	letters := batch(w, 7, 8)
	letters.DeadLetters = []futurejobs.DeadLetter{{Reason: "bad"}}
	must[futurejobs.ApplyResult](t)(w.Apply(w.ctx(), letters))
	got := gauges()
	if got.Pending != 2 || got.Due != 1 || got.Unpublished != 2 || got.DeadLetters != 1 || !got.OldestDue.Equal(past) {
		t.Errorf("gauges: %+v", got)
	}
	if !got.OldestHistory.Equal(w.ended()[1].EndedAt) {
		t.Errorf("oldest history: %s, want %s", got.OldestHistory, w.ended()[1].EndedAt)
	}
	if at := pages(t, futurejobs.Filter{}, w.DeadLetters)[0].At; !got.OldestDeadLetter.Equal(at) {
		t.Errorf("oldest dead letter: %s, want %s", got.OldestDeadLetter, at)
	}
	// Alerts are sorted by their slot, and these share one.
	if !slices.ContainsFunc(pages(t, futurejobs.Filter{}, w.Alerts), func(a futurejobs.ListedAlert) bool {
		return a.DecidedAt.Equal(got.OldestAlert)
	}) {
		t.Errorf("oldest alert: %s", got.OldestAlert)
	}
}
