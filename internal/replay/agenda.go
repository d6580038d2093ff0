package replay

import (
	"cmp"
	"container/heap"
	"context"
	"errors"
	"fmt"
	"time"

	futurejobs "deadman/future_jobs"
)

// entry is the next check of a job or the next tick of a rule.
type entry struct {
	at    time.Time
	order int64 // of a job its id, of a tick the id of the rule
	index int   // in the agenda
	job   futurejobs.Job
	rule  futurejobs.TickingRule // nil: the entry is a check
}

// agenda has the next check of each job and the next tick of each rule, the earliest first. A check precedes a tick of the
// same time, as a tick may restart its job.
type agenda []*entry

// Len implements sort.Interface.
func (a agenda) Len() int { return len(a) }

// Less implements sort.Interface.
func (a agenda) Less(i, j int) bool {
	x, y := a[i], a[j]
	if c := x.at.Compare(y.at); c != 0 {
		return c < 0
	}
	if (x.rule == nil) != (y.rule == nil) {
		return x.rule == nil
	}
	return cmp.Less(x.order, y.order)
}

// Swap implements sort.Interface.
func (a agenda) Swap(i, j int) {
	a[i], a[j] = a[j], a[i]
	a[i].index, a[j].index = i, j
}

// Push implements heap.Interface.
func (a *agenda) Push(x any) {
	e := x.(*entry) //nolint:forcetypeassert // heap.Push is called with entries
	e.index = len(*a)
	*a = append(*a, e)
}

// Pop implements heap.Interface.
func (a *agenda) Pop() any {
	last := len(*a) - 1
	e := (*a)[last]
	(*a)[last] = nil
	*a = (*a)[:last]
	return e
}

// put stores a job as an event or a check left it.
func (r *Replay) put(j futurejobs.Job) {
	j.Trail = ""
	e := r.pending[j.Ref]
	if e == nil {
		e = &entry{at: j.NextCheckAt, order: j.ID, job: j}
		r.held += jobBytes(j)
		r.pending[j.Ref] = e
		heap.Push(&r.agenda, e)
		return
	}
	r.held += jobBytes(j) - jobBytes(e.job)
	e.job = j
	if !e.at.Equal(j.NextCheckAt) {
		e.at = j.NextCheckAt
		heap.Fix(&r.agenda, e.index)
	}
}

// advance makes the checks and ticks up to a time.
func (r *Replay) advance(ctx context.Context, through time.Time) error {
	for len(r.agenda) > 0 && !r.agenda[0].at.After(through) {
		if err := cmp.Or(ctx.Err(), r.fits()); err != nil {
			return err
		}
		next := r.agenda[0]
		r.now = next.at
		var err error
		if next.rule != nil {
			err = r.tick(next)
		} else {
			err = r.check(ctx, next.job)
		}
		if err != nil {
			return err
		}
	}
	return nil
}

// check makes the check of a due job.
func (r *Replay) check(ctx context.Context, j futurejobs.Job) error {
	rule, err := r.catalog.Rule(ctx, j.RuleID, j.Version)
	if err != nil {
		return err
	}
	r.lookups.begin(j, r.now)
	r.observe(Moment{Kind: Due, Rule: rule.Name, Key: j.Key, Since: j.Since, Next: r.now})
	d := rule.Check(ctx, j, r.now)
	if err := ctx.Err(); err != nil { // the check may have failed because of it
		return err
	}
	r.summary.checked(rule, j, d)
	if d.Outage != "" {
		if err := r.openOutage(rule, d); err != nil {
			return err
		}
	}
	if d.Ends() {
		err = r.end(d)
	} else {
		d.Job.Rev++
		r.observeCheck(d)
		r.put(d.Job)
		err = r.raise(d)
	}
	if err == nil && r.lookups.answered {
		err = r.closeOutage(rule)
	}
	return err
}

// putTick enters the first tick of a rule after a time in the agenda.
func (r *Replay) putTick(t futurejobs.TickingRule, after time.Time) {
	if at, ok := t.Next(after); ok {
		heap.Push(&r.agenda, &entry{at: at, order: int64(t.RuleID()), rule: t})
	}
}

// tickName stands for the subject of a tick.
const tickName = "tick"

// tick applies the tick of a rule, and plays the event that it publishes.
func (r *Replay) tick(e *entry) error {
	heap.Remove(&r.agenda, e.index)
	r.putTick(e.rule, e.at)
	due, ok, err := e.rule.Due(e.at.Add(-time.Microsecond), e.at)
	if err != nil {
		return fmt.Errorf("tick of rule %s at %s: %w", e.rule.Name(), e.at.Format(time.RFC3339), err)
	}
	if !ok {
		return errors.New("rule " + e.rule.Name() + " has no tick at " + e.at.Format(time.RFC3339))
	}
	for _, a := range due.Alerts {
		r.summary.refused(futurejobs.Event{Subject: tickName, At: e.at}, e.rule.Name(), a.Text)
		r.observe(Moment{Kind: Refused, Rule: e.rule.Name(), By: tickName, Reason: a.Text})
	}
	if err := r.apply(due.Effects, tickName); err != nil {
		return err
	}
	if due.Emit != nil {
		return r.match(Event{Subject: due.Emit.Subject, Time: e.at, Data: due.Emit.Data}, false)
	}
	return nil
}
