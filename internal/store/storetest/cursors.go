package storetest

import (
	"errors"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"deadman/alerts"
	futurejobs "deadman/future_jobs"
)

func cursor(w *fixture, stream string) futurejobs.Cursor {
	w.t.Helper()
	c, ok, err := w.Cursor(w.ctx(), stream)
	if err != nil || !ok {
		w.t.Fatalf("cursor of %q: %v, %v", stream, ok, err)
	}
	return c
}

func cursorsOpenOnce(t *testing.T, w *fixture) {
	created := w.slot()
	if c := cursor(w, "ORDERS"); c.LastSeq != 7 || !c.StreamCreatedAt.IsZero() {
		t.Errorf("opened by a save: %+v", c)
	}
	w.must(w.OpenCursor(w.ctx(), futurejobs.Cursor{Stream: "ORDERS", LastSeq: 1, StreamCreatedAt: created}))
	w.must(w.OpenCursor(w.ctx(), futurejobs.Cursor{Stream: "ORDERS", LastSeq: 2, StreamCreatedAt: created.Add(time.Hour)}))
	if c := cursor(w, "ORDERS"); c.LastSeq != 7 || !c.StreamCreatedAt.Equal(created) {
		t.Errorf("opened again: %+v", c)
	}
	opened := futurejobs.Cursor{Stream: "NEW", LastSeq: 1 << 40, LastAt: created, StreamCreatedAt: created}
	w.must(w.OpenCursor(w.ctx(), opened))
	if diff := cmp.Diff(opened, cursor(w, "NEW")); diff != "" {
		t.Errorf("opened (-want +got):\n%s", diff)
	}
	if _, ok, err := w.Cursor(w.ctx(), "UNKNOWN"); ok || err != nil {
		t.Errorf("unknown: %v, %v", ok, err)
	}
}

func cursorsAreMarkedForward(t *testing.T, w *fixture) {
	through := w.slot().Add(-2 * futurejobs.Day)
	read := func() time.Time {
		all, err := w.ReadThrough(w.ctx())
		w.must(err)
		if len(all) != 2 {
			t.Errorf("streams, and what has none: %v", all)
		}
		return all["ORDERS"].Through
	}
	if !read().IsZero() {
		t.Error("read through before it was read")
	}
	w.must(w.MarkRead(w.ctx(), "ORDERS", 7, through))
	w.must(w.MarkRead(w.ctx(), "ORDERS", 7, through.Add(-time.Hour)))
	if !read().Equal(through) {
		t.Errorf("read through %s, want %s", read(), through)
	}
	if err := w.MarkRead(w.ctx(), "ORDERS", 6, through.Add(time.Hour)); !errors.Is(err, futurejobs.ErrCursorMoved) {
		t.Errorf("at another place: %v, want ErrMoved", err)
	}
	w.must(w.MarkRead(w.ctx(), "ORDERS", 7, through.Add(time.Microsecond)))
	if !read().Equal(through.Add(time.Microsecond)) {
		t.Errorf("read through %s", read())
	}
}

func cursorsAreReset(t *testing.T, w *fixture) {
	created := w.slot()
	w.must(w.MarkRead(w.ctx(), "ORDERS", 7, created))
	must[futurejobs.ApplyResult](t)(w.Apply(w.ctx(), batch(w, 7, 7, w.starting(w.rule, "a", created))))
	old := cursor(w, "ORDERS")
	to := futurejobs.Cursor{Stream: "ORDERS", LastSeq: 3, LastAt: created, StreamCreatedAt: created.Add(time.Second)}
	w.must(w.ResetCursor(w.ctx(), old, to))
	to.ReadThrough, to.Created = created, 1
	if diff := cmp.Diff(to, cursor(w, "ORDERS")); diff != "" {
		t.Errorf("reset (-want +got):\n%s", diff)
	}
	if err := w.ResetCursor(w.ctx(), old, to); !errors.Is(err, futurejobs.ErrCursorMoved) {
		t.Errorf("from the old place: %v, want ErrMoved", err)
	}
	old = to
	old.StreamCreatedAt = created
	if err := w.ResetCursor(w.ctx(), old, to); !errors.Is(err, futurejobs.ErrCursorMoved) {
		t.Errorf("from another stream: %v, want ErrMoved", err)
	}
	old = to
	old.LastSeq++
	if err := w.ResetCursor(w.ctx(), old, to); !errors.Is(err, futurejobs.ErrCursorMoved) {
		t.Errorf("from another place of the stream: %v, want ErrMoved", err)
	}
}

// lossesAreReportedOnce checks that lost events are counted with the cursor that passes them, and leave the count with
// their alert.
func lossesAreReportedOnce(t *testing.T, w *fixture) {
	created := w.slot()
	w.must(w.OpenCursor(w.ctx(), futurejobs.Cursor{Stream: "ORDERS", StreamCreatedAt: created}))
	lose := func(after, last uint64, lost int64) {
		t.Helper()
		b := batch(w, after, last)
		b.Lost, b.LastAt = lost, created.Add(time.Duration(last)*time.Second)
		must[futurejobs.ApplyResult](t)(w.Apply(w.ctx(), b))
	}
	counts := func(n int64, since time.Time) {
		t.Helper()
		if c := cursor(w, "ORDERS"); c.Lost != n || !c.LostSince.Equal(since) {
			t.Errorf("%d are lost since %s, want %d since %s", c.Lost, c.LostSince, n, since)
		}
	}
	report := func(n int64, since time.Time, want bool) alerts.Alert {
		t.Helper()
		a, written, err := w.ReportLost(w.ctx(), "ORDERS", n, alerts.StreamLoss("ORDERS", since, since, "lost events"))
		if err != nil || written != want {
			t.Errorf("reported %v, want %v: %v", written, want, err)
		}
		return a
	}
	lose(7, 10, 2)
	counts(2, created) // no event was applied before
	lose(10, 20, 0)
	lose(20, 30, 3)
	counts(5, created)
	report(6, created, false)
	first := report(5, created, true)
	counts(0, time.Time{})
	report(5, created, false)
	lose(30, 40, 4)
	counts(4, created.Add(30*time.Second))
	if second := report(3, created, true); second.ID == first.ID { // at the same time
		t.Errorf("both alerts are %v", first.ID)
	}
	counts(1, created.Add(30*time.Second))
	if all := w.unpublished(); len(all) != 2 {
		t.Errorf("%d alerts", len(all))
	}
}

// applyRefusesStaleCursor checks that a batch that depends on the cursors of streams is refused once they have advanced.
func applyRefusesStaleCursor(t *testing.T, w *fixture) {
	b := futurejobs.EffectBatch{RuleSet: w.set, Effects: []futurejobs.Effect{w.starting(w.rule, "a", w.slot())}}
	for _, known := range []map[string]uint64{{"ORDERS": 6}, {"ORDERS": 7, "NEVER": 0}} {
		b.ReadTo = known
		if _, err := w.Apply(w.ctx(), b); !errors.Is(err, futurejobs.ErrCursorMoved) || len(w.all()) != 0 {
			t.Errorf("%v: %v, want ErrMoved, and %d jobs", known, err, len(w.all()))
		}
	}
	b.ReadTo = map[string]uint64{"ORDERS": 7}
	if got, err := w.Apply(w.ctx(), b); err != nil || got.Created != 1 || cursor(w, "ORDERS").LastSeq != 7 {
		t.Errorf("applied %+v, %v; the cursor is %+v", got, err, cursor(w, "ORDERS"))
	}
}
