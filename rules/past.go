package rules

import (
	"context"
	"errors"
	"iter"
	"time"

	futurejobs "deadman/future_jobs"
)

// past plays to a rule what its streams still have of the events before its save, in the
// order of their times, and returns how many waits that begins. Unless take is set, it only
// counts. Waits that began before are kept, so that it can be done again after an error.
func (r *Registry) past(ctx context.Context, s Saved, since time.Time, take bool) (int, error) {
	v := newVersion(s, r.Calendars)
	rule, err := v.compiled()
	if err != nil {
		return 0, err
	}
	begun := 0
	var effects []futurejobs.Effect
	for e, err := range inOrder(r.streamsOf(ctx, s, since)) {
		if err != nil {
			return begun, wrap("past events", err)
		}
		m := matching{event: e, body: newBody(e.Data), shards: r.Book.shards}
		h := hearing{matching: &m, Rule: rule, made: func(futurejobs.Job) *Rule { return rule }}
		h.play() // what can't be taken in is left: it was nobody's then
		for _, effect := range m.effects {
			if _, starts := effect.Ask.(futurejobs.Start); starts && !take {
				begun++
			}
		}
		if effects = append(effects, m.effects...); !take {
			effects = nil
		}
		if len(effects) >= pageMost {
			n, err := r.begin(ctx, effects)
			if begun += n; err != nil {
				return begun, err
			}
			effects = nil
		}
	}
	n, err := r.begin(ctx, effects)
	return begun + n, err
}

// begin applies effects and returns how many waits they began.
func (r *Registry) begin(ctx context.Context, effects []futurejobs.Effect) (int, error) {
	if len(effects) == 0 {
		return 0, nil
	}
	for {
		applied, err := r.Jobs.Apply(ctx, futurejobs.Batch{RuleSet: r.Book.Revision(), Effects: effects})
		if !errors.Is(err, futurejobs.ErrRulesChanged) {
			return applied.Created, err
		}
		if err := r.Book.Refresh(ctx); err != nil {
			return 0, err
		}
	}
}

// streamsOf are the past events of a version's streams, one sequence a stream.
func (r *Registry) streamsOf(ctx context.Context, s Saved, since time.Time) []iter.Seq2[futurejobs.Event, error] {
	subjects := make(map[string][]string)
	through := make(map[string]uint64)
	var order []string
	for _, read := range s.Reads {
		if subjects[read.Stream] == nil {
			order = append(order, read.Stream)
		}
		subjects[read.Stream] = append(subjects[read.Stream], read.Subject)
		through[read.Stream] = max(through[read.Stream], read.From)
	}
	var all []iter.Seq2[futurejobs.Event, error]
	for _, stream := range order {
		all = append(all, r.Binder.Past(ctx, stream, subjects[stream], since, through[stream]))
	}
	return all
}

// inOrder merges sequences of events by their times. It ends with the first error.
func inOrder(streams []iter.Seq2[futurejobs.Event, error]) iter.Seq2[futurejobs.Event, error] {
	return func(yield func(futurejobs.Event, error) bool) {
		type head struct {
			event futurejobs.Event
			err   error
			next  func() (futurejobs.Event, error, bool)
		}
		var heads []*head
		for _, s := range streams {
			next, stop := iter.Pull2(s)
			defer stop()
			h := &head{next: next}
			var ok bool
			if h.event, h.err, ok = next(); ok {
				heads = append(heads, h)
			}
		}
		for len(heads) > 0 {
			first := 0
			for i, h := range heads {
				if h.err != nil || heads[first].err == nil && h.event.At.Before(heads[first].event.At) {
					first = i
				}
			}
			h := heads[first]
			if !yield(h.event, h.err) || h.err != nil {
				return
			}
			var ok bool
			if h.event, h.err, ok = h.next(); !ok {
				heads = append(heads[:first], heads[first+1:]...)
			}
		}
	}
}
