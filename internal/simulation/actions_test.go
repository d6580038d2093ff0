package simulation_test

import (
	"context"
	"math/rand/v2"
	"slices"
	"time"

	"deadman/checks"
	futurejobs "deadman/future_jobs"
)

// ack is the acknowledgement of the newest alert of a job by a person. It holds until the job ends.
type ack struct {
	at        time.Time
	rule, key string
}

// acknowledged is an acknowledgement that the database accepted.
type acknowledged struct {
	ack
	since time.Time // of the job
}

// drawAcks draws acknowledgements. Most of them are made while a later step is due, or its decision is on its way.
func (p *plan) drawAcks(r *rand.Rand) {
	for range r.IntN(9) {
		i := r.IntN(len(p.events))
		e, rule := p.events[i], p.rules[r.IntN(len(p.rules))]
		due := slotUp(e.at.Add(rule.steps[r.IntN(len(rule.steps))]), rule.slot)
		p.acks = append(p.acks, ack{amid(r, due, leaseFor), rule.name, e.key})
	}
	slices.SortStableFunc(p.acks, func(a, b ack) int { return a.at.Compare(b.at) })
}

// amid draws a time at which a decision that is due at a slot is on its way: at once in health, and for long during a fault.
func amid(r *rand.Rand, slot time.Time, most time.Duration) time.Time {
	if r.IntN(3) == 0 {
		return slot.Add(ms(r, 0, most))
	}
	return slot.Add(ms(r, 55*time.Millisecond, 85*time.Millisecond))
}

// act acknowledges the alerts of the plan.
func (w *deployment) act() {
	for _, a := range w.plan.acks {
		time.Sleep(time.Until(a.at))
		for w.acknowledge(a) != nil {
			w.count("acknowledgement failed")
			time.Sleep(100 * time.Millisecond)
		}
	}
}

// acknowledge acknowledges the newest alert of a job. A job without an alert is left alone.
func (w *deployment) acknowledge(a ack) (err error) {
	ctx, end := context.Background(), w.ledger.begin()
	var accepted func(*ledger)
	defer func() { end(err, accepted) }()
	if err := w.catalog.Refresh(ctx); err != nil {
		return err
	}
	saved, err := w.store.Named(ctx, a.rule)
	if err != nil {
		return err
	}
	jobs, err := w.store.JobsOf(ctx, saved[0].RuleID, futurejobs.Ref{}, futurejobs.MaxLimit)
	if err != nil {
		return err
	}
	i := slices.IndexFunc(jobs, func(j futurejobs.Job) bool { return j.Key == a.key && len(j.Alerts) > 0 })
	if i < 0 {
		return nil
	}
	j := jobs[i]
	rule, err := w.catalog.Rule(ctx, j.RuleID, j.Version)
	if err != nil {
		return err
	}
	newest := futurejobs.Ack{Alert: j.Alerts[len(j.Alerts)-1], By: "ada", Until: checks.Forever}
	got, err := w.store.Apply(ctx, futurejobs.EffectBatch{
		RuleSet: w.catalog.Revision(), Effects: []futurejobs.Effect{{Rule: rule, Ref: j.Ref, Action: futurejobs.Acknowledge{Ack: newest}}},
	})
	if err != nil || got.Changed == 0 {
		return err
	}
	accepted = func(l *ledger) {
		if _, ok := l.acked[j.ID]; !ok {
			l.count("alert acknowledged")
			l.record("person", "acknowledges %s %s", a.rule, a.key)
			l.acked[j.ID] = acknowledged{ack{l.now, a.rule, a.key}, j.Since}
		}
	}
	return nil
}

// ackOf returns the time of the acknowledgement of a job; zero: none.
func (j *judge) ackOf(e expectation) time.Time {
	for _, a := range j.ledger.acked {
		if a.rule == e.rule.name && a.key == e.key && a.since.Equal(e.began) {
			return a.at
		}
	}
	return time.Time{}
}
