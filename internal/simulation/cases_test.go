package simulation_test

import (
	"fmt"
	"math/rand/v2"
	"slices"
	"time"
)

// drawCases draws courses of events and faults that luck alone brings together too rarely.
func (p *plan) drawCases(r *rand.Rand) {
	for i := range r.IntN(4) {
		key, rule := fmt.Sprintf("case-%d", i), p.rules[r.IntN(len(p.rules))]
		at := p.begin.Add(ms(r, time.Second, faultyFor))
		switch r.IntN(6) {
		case 0:
			p.drawLateTrigger(r, at, rule, key)
		case 1:
			p.drawSkew(r, at, rule, key)
		case 2:
			p.drawOutage(r, at, rule, key)
		case 3:
			p.drawAgain(r, at, rule, key)
		case 4:
			p.drawUnreadCut(r)
		default:
			p.drawLateReset(r, at, key)
		}
	}
	slices.SortStableFunc(p.events, func(a, b publication) int { return a.at.Compare(b.at) })
}

// add adds an event that is stored at its time.
func (p *plan) add(at time.Time, subject, key string, lag time.Duration) {
	p.events = append(p.events, publication{at: at, subject: subject, key: key, copies: 1, lag: lag})
}

// drawLateTrigger draws an order that is shipped before readers receive that it was created.
func (p *plan) drawLateTrigger(r *rand.Rand, at time.Time, rule orderRule, key string) {
	p.add(at, created, key, ms(r, time.Second, 4*time.Second))
	p.add(at.Add(ms(r, tooClose+time.Millisecond, 900*time.Millisecond)), rule.shippedSubject(), key, 0)
}

// drawSkew draws an order that is shipped just before it is created, by the times of two streams.
func (p *plan) drawSkew(r *rand.Rand, at time.Time, rule orderRule, key string) {
	p.add(at, created, key, 0)
	p.add(at.Add(-ms(r, time.Millisecond, skewMost)), rule.shippedSubject(), key, []time.Duration{0, time.Second}[r.IntN(2)])
}

// drawOutage draws an order that is shipped between two steps, while the database stalls: readers receive it after the outage.
func (p *plan) drawOutage(r *rand.Rand, at time.Time, rule orderRule, key string) {
	if len(rule.steps) == 1 {
		return
	}
	p.add(at, created, key, 0)
	i := r.IntN(len(rule.steps) - 1)
	one, two := slotUp(at.Add(rule.steps[i]), rule.slot), slotUp(at.Add(rule.steps[i+1]), rule.slot)
	if two.Sub(one) < time.Second {
		return
	}
	shipped := one.Add(ms(r, 100*time.Millisecond, two.Sub(one)-time.Millisecond))
	end := two.Add(ms(r, 100*time.Millisecond, 2*time.Second))
	p.add(shipped, rule.shippedSubject(), key, end.Sub(shipped)+ms(r, time.Second, 3*time.Second))
	p.faults = append(p.faults, fault{kind: stalls[database], from: one.Add(ms(r, 0, 80*time.Millisecond)), to: end})
}

// drawAgain draws an order that is created again about when a step is due.
func (p *plan) drawAgain(r *rand.Rand, at time.Time, rule orderRule, key string) {
	p.add(at, created, key, 0)
	for range 1 + r.IntN(3) {
		at = slotUp(at.Add(rule.steps[r.IntN(len(rule.steps))]), rule.slot).Add(ms(r, -500*time.Millisecond, time.Second))
		p.add(at, created, key, 0)
	}
}

// drawUnreadCut draws a stream that is recreated just before its first event.
func (p *plan) drawUnreadCut(r *rand.Rand) {
	slices.SortStableFunc(p.events, func(a, b publication) int { return a.at.Compare(b.at) })
	name := []string{"ORDERS", "SHIPMENTS"}[r.IntN(2)]
	first := slices.IndexFunc(p.events, func(e publication) bool { return streamOf(e.subject) == name })
	if first < 0 || len(p.cuts) > 0 {
		return
	}
	p.cuts = append(p.cuts, cut{later(p.begin, p.events[first].at.Add(-ms(r, 0, 20*time.Millisecond))), name, true})
}

// drawLateReset draws a stream that is recreated while the writes of a node hang for longer than its lease.
func (p *plan) drawLateReset(r *rand.Rand, at time.Time, key string) {
	if len(p.cuts) > 0 || len(p.nodes) == 1 {
		return
	}
	end := at.Add(leaseFor + ms(r, 5*time.Second, 15*time.Second))
	p.faults = append(p.faults, fault{kind: hang, node: p.nodes[r.IntN(len(p.nodes))], from: at, to: end})
	p.cuts = append(p.cuts, cut{at.Add(ms(r, time.Millisecond, 100*time.Millisecond)), "ORDERS", true}) // noticed before the next mark hangs
	p.add(at.Add(ms(r, 3*time.Second, end.Sub(at))), created, key, 0)
}
