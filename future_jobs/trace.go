package futurejobs

import (
	"context"
	"time"
)

// EventTrace is the place of an event in a trace.
type EventTrace struct {
	Parent  string       // context of the event's receipt, as a traceparent; its jobs store it
	Started []StartedJob // jobs that the event started, as the fold counts them; an attempt that is repeated lists them again
}

// StartedJob names a job that an event started.
type StartedJob struct{ Rule, Key string }

// parent returns the context that jobs of the event store; empty: the event is not traced.
func (e *Event) parent() string {
	if e == nil || e.Trace == nil {
		return ""
	}
	return e.Trace.Parent
}

// CheckTracer records checks of traced jobs. Its methods are safe for concurrent use.
type CheckTracer interface {
	// TracesOf returns the traces of jobs, as their Order has them, by id; jobs without one are left out.
	TracesOf(ctx context.Context, jobs []Ref, ids []int64) (map[int64]string, error)
	// Checked begins the trace of a check, and sets the Trace of its alerts to their contexts. The function returned
	// ends it: isSettled reports whether the decision was written.
	Checked(c TracedCheck) (settled func(isSettled bool))
}

// TracedCheck is a check of a traced job.
type TracedCheck struct {
	*Decision
	Rule      *Rule
	Slot      time.Time
	LookupEnd time.Time // the end of its lookup, which began with the check; zero: it has none
	Result    string    // as in Observer.Checked
}

// trace begins the traces of decisions, and returns the function that ends them once they are settled, or not. Traces are
// lost if the database does not answer; the decisions are not.
func (s *settler) trace(ctx context.Context, part []*task) (settled func(Settled, error)) {
	if s.tracer == nil {
		return func(Settled, error) {}
	}
	refs, ids := make([]Ref, len(part)), make([]int64, len(part))
	for i, v := range part {
		refs[i], ids[i] = v.Job.Ref, v.Job.ID
	}
	known, err := s.tracer.TracesOf(ctx, refs, ids)
	if err != nil {
		s.log.Debug("the traces of jobs cannot be read", "jobs", len(part), "err", err)
	}
	ends := make(map[int64]func(bool), len(known))
	for _, v := range part {
		if trace := known[v.Job.ID]; trace != "" {
			v.Job.Order = &Order{Trace: trace}
			ends[v.Job.ID] = s.tracer.Checked(TracedCheck{&v.Decision, v.rule, v.slot, v.lookupEnd, v.result()})
		}
	}
	return func(got Settled, err error) {
		for id, end := range ends {
			end(err == nil && got.Jobs[id])
		}
	}
}
