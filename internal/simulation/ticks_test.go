package simulation_test

import (
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
	"time"

	"deadman/checks"
	futurejobs "deadman/future_jobs"
)

// schedule is the trigger of a rule with ticks.
type schedule struct {
	every time.Duration // from the first save of the rule on; zero: the rule has no ticks
	keys  []string      // of the jobs of each tick
	emits bool          // each tick publishes an event, and begins no job
}

// reports is the subject of the events of ticks.
const reports = "reports.due"

// tickDocument returns the document of a rule with ticks.
func (r orderRule) tickDocument() string {
	begin := fmt.Sprintf("name: %s\nentity: order\n", r.name)
	if r.ticks.emits {
		return begin + fmt.Sprintf("trigger: {schedule: \"@every %s\", emit: {subject: %s}}\n", r.ticks.every, reports)
	}
	return begin + fmt.Sprintf("trigger: {schedule: \"@every %s\", keys: [%s]}\n%sslot: %s\n", r.ticks.every, strings.Join(r.ticks.keys, ", "), r.escalate(), r.slot)
}

// drawTicks draws rules with ticks. Each is paused and resumed, often about at a tick, and is deleted at last.
func (p *plan) drawTicks(r *rand.Rand) {
	for i := range max(0, r.IntN(5)-2) {
		rule := orderRule{
			name: fmt.Sprintf("ticks-%d", i), slot: []time.Duration{time.Second, 5 * time.Second}[r.IntN(2)],
			ticks: schedule{every: []time.Duration{10 * time.Second, 15 * time.Second, 25 * time.Second, 40 * time.Second}[r.IntN(4)], emits: r.IntN(2) == 0},
		}
		if !rule.ticks.emits {
			rule.ticks.keys = []string{"tick-a", "tick-b"}[:1+r.IntN(2)]
			rule.steps = []time.Duration{ms(r, time.Second, rule.ticks.every-rule.slot-time.Millisecond).Truncate(time.Second)}
			if r.IntN(2) == 0 {
				rule.steps = append(rule.steps, rule.steps[0]+ms(r, time.Second, rule.ticks.every).Truncate(time.Second))
			}
		}
		p.ticking = append(p.ticking, rule)
		for range r.IntN(4) {
			kind := []changeKind{pauses, resumes}[r.IntN(2)]
			at := p.begin.Add(ms(r, rule.ticks.every, faultyFor).Truncate(rule.ticks.every))
			p.changes = append(p.changes, change{at: amidTick(r, at), kind: kind, rule: rule})
		}
	}
	slices.SortStableFunc(p.changes, func(a, b change) int { return a.at.Compare(b.at) })
	for _, rule := range p.ticking {
		at := p.begin.Add(faultyFor + ms(r, 0, 30*time.Second))
		for _, c := range p.changes {
			at = later(at, c.at)
		}
		next := at.Sub(p.begin).Truncate(rule.ticks.every) + rule.ticks.every
		p.changes = append(p.changes, change{at: amidTick(r, p.begin.Add(next)), kind: deletes, rule: rule})
	}
}

// amidTick draws a time at which a tick is on its way: at once in health, and for long during a fault.
func amidTick(r *rand.Rand, tick time.Time) time.Time {
	if r.IntN(3) == 0 {
		return tick.Add(ms(r, 0, 5*time.Second))
	}
	return tick.Add(ms(r, 0, 12*time.Millisecond))
}

// tick is an applied tick.
type tick struct {
	futurejobs.AppliedTick
	rule     orderRule
	first    time.Time // the first tick that it stands for
	at       time.Time // of the commit
	resulted bool      // it began jobs, or emitted an event
}

// ticked checks a tick that the database accepted: it is the last of all ticks since the one before it, and its result is that
// of the rule's state.
func (l *ledger) ticked(node string, b futurejobs.EffectBatch) {
	if b.Tick == nil {
		return
	}
	h := l.byID(b.Tick.RuleID)
	state, r, t := h[len(h)-1], h[0].orderRule, tick{AppliedTick: *b.Tick, rule: h[0].orderRule, at: l.now.Truncate(time.Microsecond)}
	last := l.plan.begin
	if past := l.ticks[r.name]; len(past) > 0 {
		last = past[len(past)-1].At
	}
	t.first = last.Add(r.ticks.every)
	missed := int(t.At.Sub(last)/r.ticks.every) - 1
	if state.isPaused {
		missed = 0
	}
	starts := make(map[string]int)
	for _, e := range b.Effects {
		if start, ok := e.Action.(futurejobs.Start); ok && start.Job.Since.Equal(t.At) {
			starts[e.Ref.Key]++
		}
	}
	t.resulted = state.starts()
	switch early := t.At.Sub(l.now); {
	case early > earlyMost:
		l.breach("%s applies the tick of %s %s early", node, r.name, early)
	case t.At.Before(t.first), t.At.Sub(l.plan.begin)%r.ticks.every != 0:
		l.breach("%s applies a tick of %s at %s, the last one was at %s", node, r.name, t.At.Sub(l.plan.begin), last.Sub(l.plan.begin))
	case t.Missed != missed:
		l.breach("%s applies a tick of %s for %d missed ones, not %d", node, r.name, t.Missed, missed)
	case state.isGone:
		l.breach("%s applies a tick of %s, which was deleted", node, r.name)
	case t.resulted != (t.Outcome == futurejobs.TickStarted || t.Outcome == futurejobs.TickEmitted):
		l.breach("%s applies a tick of %s, paused: %t, as %s", node, r.name, state.isPaused, t.Outcome)
	case t.resulted && r.ticks.emits && !slices.ContainsFunc(l.emitted, func(e emission) bool { return e.ID == t.EventID && e.At.Equal(t.At) }):
		l.breach("%s records an event of %s that is not stored", node, r.name)
	case t.resulted && !r.ticks.emits && (len(starts) != len(r.ticks.keys) || len(b.Effects) != len(r.ticks.keys)):
		l.breach("%s applies a tick of %s with the jobs %v", node, r.name, starts)
	}
	l.count("tick: " + string(t.Outcome))
	if t.Missed > 0 {
		l.count("tick that stands for missed ones")
	}
	l.ticks[r.name] = append(slices.Clip(l.ticks[r.name]), t)
}

// byID returns the history of the rule with an id. Rules have their ids in the order of their first saves.
func (l *ledger) byID(id int32) history {
	return l.rules[l.plan.saved()[id-1].name]
}

// judgeTicks judges the ticks of a rule, and their jobs.
func (j *judge) judgeTicks(r orderRule) {
	applied, gone := j.ledger.ticks[r.name], j.ledger.rules[r.name]
	deleted := gone[len(gone)-1]
	due := j.plan.begin.Add(r.ticks.every)
	for _, t := range applied {
		if latest := j.latest(j.latest(t.first)); t.at.After(latest) {
			j.breach("%s: the tick at %s is applied %s late", r.name, j.at(t.first), t.at.Sub(t.first))
		}
		due = t.At.Add(r.ticks.every)
	}
	if j.latest(j.latest(due)).Before(deleted.began) {
		j.breach("%s: the tick at %s is not applied", r.name, j.at(due))
	}
	known := make(map[string]bool)
	for i, t := range applied {
		for _, key := range r.ticks.keys {
			if !t.resulted {
				continue
			}
			e := expectation{rule: r, key: key, began: t.At, from: t.at, deletion: &deleted}
			next := slices.IndexFunc(applied[i+1:], func(n tick) bool { return n.resulted })
			if next >= 0 && applied[i+1+next].at.Before(e.step(len(r.steps)-1)) {
				e.shipped, e.again = applied[i+1+next].at, true
			}
			known[key+t.At.String()] = true
			j.judgeJob(e)
		}
	}
	for _, e := range j.ended {
		if e.Rule == r.name && !known[e.Key+e.Since.String()] {
			j.breach("job %s %s that no tick began at %s is in the history: %s", r.name, e.Key, j.at(e.Since), e.Outcome)
		}
		if e.Rule == r.name && e.Outcome == checks.Expired {
			j.breach("job %s %s of %s expired", r.name, e.Key, j.at(e.Since))
		}
	}
	j.judgeEmissions(r, applied)
}
