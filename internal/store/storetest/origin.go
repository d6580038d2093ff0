package storetest

import (
	"testing"
	"time"

	"deadman/alerts"
	futurejobs "deadman/future_jobs"
)

// originsAreKept checks that every read of a job has the event that created it; a manual job has none.
func originsAreKept(t *testing.T, w *fixture) {
	at := w.slot().Add(-time.Hour).Add(3 * time.Microsecond)
	event := futurejobs.Event{Stream: "ORDERS", Seq: 5000, At: at}
	plain, laden := w.starting(w.rule, "plain", w.slot()), w.job(w.rule, "laden", w.slot())
	laden.State = []byte(`{"s":1}`)
	with := begins(w.rule, laden)
	plain.Event, with.Event = &event, &event
	if got := must[futurejobs.ApplyResult](t)(w.Apply(w.ctx(), batch(w, 7, 9, plain, with, w.starting(w.rule, "hand", w.slot())))); got.Created != 3 {
		t.Fatalf("created %d jobs of 3", got.Created)
	}
	for key, want := range map[string]alerts.Origin{"plain": alerts.OriginOf(at, 5000), "laden": alerts.OriginOf(at, 5000), "hand": 0} {
		due := w.one(key)
		listed := must[futurejobs.ListedJob](t)(w.Job(w.ctx(), w.rule.Name, key))
		if due.Origin != want || listed.Origin != want {
			t.Errorf("%s: origin %d when due and %d when listed, want %d", key, due.Origin, listed.Origin, want)
		}
	}
	if got := alerts.OriginOf(at, 5000).At(); !got.Equal(at) {
		t.Errorf("the origin is of an event at %s, want %s", got, at)
	}
}

// tracesAreKept checks that a job keeps the trace of the event that created it, and that an alert keeps its own.
func tracesAreKept(t *testing.T, w *fixture) {
	const trace = "00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01"
	traced, plain := w.starting(w.rule, "traced", w.slot()), w.starting(w.rule, "plain", w.slot())
	traced.Event = &futurejobs.Event{Stream: "ORDERS", Seq: 5000, At: w.slot(), Trace: &futurejobs.EventTrace{Parent: trace}}
	w.applyManually(traced, plain)
	if got := traced.Event.Trace.Started; len(got) == 0 || got[0] != (futurejobs.StartedJob{Rule: w.rule.Name, Key: "traced"}) {
		t.Errorf("the event started %v", got)
	}
	jobs := []futurejobs.Job{w.one("traced"), w.one("plain")}
	known, err := w.TracesOf(w.ctx(), []futurejobs.Ref{jobs[0].Ref, jobs[1].Ref}, []int64{jobs[0].ID, jobs[1].ID})
	if err != nil || len(known) != 1 || known[jobs[0].ID] != trace {
		t.Errorf("the traces of two jobs are %v, %v", known, err)
	}
	d := w.reschedule(jobs[0], w.slot().Add(time.Hour))
	d.Alerts[0].Trace = trace
	w.settle(d)
	if waiting := w.unpublished(); len(waiting) != 1 || waiting[0].Trace != trace {
		t.Errorf("the alerts are %+v", waiting)
	}
	known, err = w.TracesOf(w.ctx(), []futurejobs.Ref{jobs[0].Ref}, []int64{jobs[0].ID})
	if err != nil || known[jobs[0].ID] != trace {
		t.Errorf("after a check the traces are %v, %v", known, err)
	}
}

// existingAlertsAreKept checks that an alert that exists already stays as it is and blocks neither its job nor the
// other jobs of a settlement or batch.
func existingAlertsAreKept(t *testing.T, w *fixture) {
	w.start(w.slot(), "a", "b", "c")
	first := w.reschedule(w.one("a"), w.slot().Add(time.Hour))
	w.settle(first)
	repeat := func(d futurejobs.Decision) futurejobs.Decision {
		d.Alerts = append(d.Alerts, first.Alerts[0])
		return d
	}
	again, other := w.one("a"), w.one("b")
	again.NextCheckAt = w.slot().Add(2 * time.Hour)
	settled := w.settle(repeat(futurejobs.Decision{Job: again}), w.exhausted(other))
	if !settled.Jobs[again.ID] || !settled.Jobs[other.ID] {
		t.Fatalf("settled: %+v", settled)
	}
	if a := w.one("a"); !a.NextCheckAt.Equal(again.NextCheckAt) {
		t.Errorf("the job is due at %s, want %s", a.NextCheckAt, again.NextCheckAt)
	}
	if waiting := w.unpublished(); len(waiting) != 2 {
		t.Errorf("%d alerts wait, want one of each key", len(waiting))
	}

	// The same for an event that ends a job: one event creates "d" repeatedly, and another closes it.
	event := &futurejobs.Event{Stream: "ORDERS", Seq: 8, At: w.slot()}
	ending := w.ending(w.rule, "d")
	ending.Event = event
	for range 2 {
		begin := w.starting(w.rule, "d", w.slot())
		begin.Event = event
		w.applyManually(begin)
		d := w.one("d")
		d.NextCheckAt, d.Alerts = w.slot().Add(time.Hour), []alerts.ID{first.Alerts[0].ID}
		w.settle(futurejobs.Decision{Job: d})
		if got := w.applyManually(ending); got.Ended != 1 {
			t.Fatalf("ended %d jobs", got.Ended)
		}
	}
	if waiting := w.unpublished(); len(waiting) != 3 {
		t.Errorf("%d alerts wait, want the two and the one that closes", len(waiting))
	}
}
