package simulation_test

import (
	"fmt"
	"math/rand/v2"
	"slices"
	"time"

	"deadman/checks"
	futurejobs "deadman/future_jobs"
)

// The subjects of the rule with a condition. Both are of one stream, so their order is certain.
const (
	stockLow     = "stock.low"     // begins a job
	stockCounted = "stock.counted" // changes its state
)

// conditionDocument returns the document of a rule whose jobs go on while a condition holds.
func (r orderRule) conditionDocument() string {
	return fmt.Sprintf("name: %s\nentity: order\ntrigger: {event: %s, key: event.id}\nupdate: {event: %s, key: event.id}\nwhile: state.low\n%sslot: %s\n",
		r.name, stockLow, stockCounted, r.escalate(), r.slot)
}

// drawConditions draws a rule with a condition. Its articles are counted now and then, often about when a step is due.
func (p *plan) drawConditions(r *rand.Rand) {
	if r.IntN(3) > 0 {
		return
	}
	rule := drawRule(r, 0)
	rule.name, rule.shipping, rule.hasCondition = "stock", "", true
	for i := range 2 + r.IntN(5) {
		key, at := fmt.Sprintf("article-%d", i), p.begin.Add(ms(r, time.Second, faultyFor))
		p.publish(r, at, stockLow, key)
		for range r.IntN(4) {
			counted := at.Add(ms(r, 10*time.Millisecond, 90*time.Second))
			if r.IntN(2) == 0 {
				counted = later(at, slotUp(at.Add(rule.steps[r.IntN(len(rule.steps))]), rule.slot).Add(ms(r, -500*time.Millisecond, 500*time.Millisecond))).Add(time.Millisecond)
			}
			p.publish(r, counted, stockCounted, key)
			last := &p.events[len(p.events)-1]
			last.isEnough, last.refusals = r.IntN(3) > 0, 0
		}
	}
	slices.SortStableFunc(p.events, func(a, b publication) int { return a.at.Compare(b.at) })
	p.withConditions = append(p.withConditions, rule)
}

// judgeConditions judges the jobs of a rule with a condition.
func (j *judge) judgeConditions(r orderRule) {
	known := make(map[string]bool)
	for i, e := range j.sent {
		if e.Subject != stockLow {
			continue
		}
		a := article{expectation: expectation{rule: r, key: e.key, began: e.At}}
		if known[e.key] { // a copy, or the article is low again
			continue
		}
		known[e.key] = true
		for _, c := range j.sent[i:] {
			if c.Subject == stockCounted && c.key == e.key {
				a.counts = append(a.counts, count{c.At, !c.isEnough})
			}
		}
		j.judgeArticle(a)
	}
	for _, a := range j.raised {
		if a.Rule == r.name && !known[a.Key] {
			j.breach("alert %s %s of a job that no event began", r.name, a.Key)
		}
	}
}

// article is a job of a rule with a condition.
type article struct {
	expectation
	counts []count // in their order
}

// count is an event that changes the state of a job.
type count struct {
	at    time.Time
	isLow bool
}

// mayBe reports whether the condition of a check that is due at a time and made at another may have a value: the check knows each
// event until its slot, and perhaps some after it.
func (a article) mayBe(isLow bool, due, made time.Time) bool {
	state := true
	for _, c := range a.counts {
		if c.at.After(due) && state == isLow {
			return true
		}
		if c.at.After(made) {
			return false
		}
		state = c.isLow
	}
	return state == isLow
}

// judgeArticle judges the alerts and the end of a job with a condition.
func (j *judge) judgeArticle(a article) {
	j.count("job with a condition")
	fired, resolved := j.alertsOf(a.expectation)
	var end futurejobs.EndedJob
	ends := 0
	for _, e := range j.ended {
		if e.Rule == a.rule.name && e.Key == a.key && e.Since.Equal(a.began) {
			end, ends = e, ends+1
		}
	}
	if ends != 1 || end.Outcome != checks.Cleared && end.Outcome != checks.Exhausted {
		j.breach("%s ended %d times, at last as %s", a, ends, end.Outcome)
		return
	}
	j.count("job with a condition: " + string(end.Outcome))
	last, mayClear := len(a.rule.steps)-1, false
	for i := range a.rule.steps {
		due := a.step(i)
		latest := j.latest(due)
		alert, ok := fired[fmt.Sprintf("step-%d", i)]
		switch {
		case ok && (alert.DecidedAt.Before(due) || alert.DecidedAt.After(latest)):
			j.breach("%s alerts at step %d at %s, which is due at %s", a, i, j.at(alert.DecidedAt), j.at(due))
		case ok && !a.mayBe(true, due, alert.DecidedAt):
			j.breach("%s alerts at step %d at %s, and its condition is false", a, i, j.at(alert.DecidedAt))
		case ok && alert.DecidedAt.After(end.EndedAt.Add(earlyMost)):
			j.breach("%s alerts at step %d at %s, after its end at %s", a, i, j.at(alert.DecidedAt), j.at(end.EndedAt))
		case !ok && end.EndedAt.After(latest) && (i == last || a.step(i+1).After(latest)):
			j.breach("%s does not alert at step %d, which is due at %s", a, i, j.at(due))
		}
		isNow := !end.EndedAt.Before(due) && !end.EndedAt.After(latest)
		mayClear = mayClear || isNow && a.mayBe(false, due, end.EndedAt)
	}
	_, reached := fired[fmt.Sprintf("step-%d", last)]
	switch {
	case end.Outcome == checks.Cleared && !mayClear:
		j.breach("%s is cleared at %s, and its condition is true", a, j.at(end.EndedAt))
	case (end.Outcome == checks.Exhausted) != reached:
		j.breach("%s ended as %s, at its last step: %t", a, end.Outcome, reached)
	case (resolved != nil) != (end.Outcome == checks.Cleared && len(fired) > 0):
		j.breach("%s ended as %s with %d alerts, and they are resolved: %t", a, end.Outcome, len(fired), resolved != nil)
	case resolved != nil && resolved.DecidedAt.After(end.EndedAt.Add(earlyMost)):
		j.breach("%s is resolved at %s and ended at %s", a, j.at(resolved.DecidedAt), j.at(end.EndedAt))
	}
}
