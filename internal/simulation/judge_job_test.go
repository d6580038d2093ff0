package simulation_test

import (
	"fmt"
	"slices"
	"time"

	"deadman/alerts"
	"deadman/checks"
	futurejobs "deadman/future_jobs"
)

// judgeJob judges the alerts and the end of one job.
func (j *judge) judgeJob(e expectation) {
	j.count("job")
	fired, resolved := j.alertsOf(e)
	for i := range e.rule.steps {
		j.judgeStep(e, i, e.step(i), fired)
	}
	j.judgeEnd(e, fired, resolved)
}

// alertsOf returns the firing alerts of a job by step, and the one that resolves them.
func (j *judge) alertsOf(e expectation) (fired map[string]futurejobs.ListedAlert, resolved *futurejobs.ListedAlert) {
	fired = make(map[string]futurejobs.ListedAlert)
	for i, a := range j.raised {
		if a.Rule != e.rule.name || a.Key != e.key || !a.Since.Equal(e.began) {
			continue
		}
		switch {
		case a.Status == alerts.Resolved && resolved == nil:
			resolved = &j.raised[i]
		case a.Status == alerts.Resolved:
			j.breach("%s resolves twice", e)
		default:
			if _, ok := fired[a.Step]; ok {
				j.breach("%s alerts twice at step %s", e, a.Step)
			}
			fired[a.Step] = a
		}
	}
	return fired, resolved
}

// judgeStep judges the alert of a step that is due at a time.
func (j *judge) judgeStep(e expectation, i int, due time.Time, fired map[string]futurejobs.ListedAlert) {
	a, ok := fired[fmt.Sprintf("step-%d", i)]
	latest := j.latest(due)
	if ok {
		j.count("alert")
		j.noteLateness(a.DecidedAt.Sub(due), latest.Sub(due) == lateMost)
		switch {
		case a.DecidedAt.Before(due):
			j.breach("%s alerts at step %d %s before its slot", e, i, due.Sub(a.DecidedAt))
		case a.DecidedAt.After(latest):
			j.breach("%s alerts at step %d %s after its slot, at most %s are allowed", e, i, a.DecidedAt.Sub(due), latest.Sub(due))
		case e.deletion != nil && a.DecidedAt.After(e.deletion.ackedBefore):
			j.breach("%s alerts at step %d at %s, the rule was deleted at %s", e, i, j.at(a.DecidedAt), j.at(e.deletion.ackedBefore))
		case !e.shipped.IsZero() && e.shipped.Before(due):
			j.breach("%s alerts at step %d, which is due at %s, although the order was shipped at %s", e, i, j.at(due), j.at(e.shipped))
		}
		return
	}
	switch {
	case i+1 < len(e.rule.steps) && !e.step(i+1).After(latest) && !e.shipped.Before(e.step(i+1)):
		j.count("step skipped, the next one was due")
	case !e.from.IsZero() && !e.shipped.IsZero() && !due.After(e.shipped):
		j.breach("%s does not alert at step %d, which is due at %s, before the tick at %s", e, i, j.at(due), j.at(e.shipped))
	case !e.shipped.IsZero() && e.shipped.Before(latest):
		j.count("step not taken, the order was shipped")
	case e.deletion != nil && e.deletion.began.Before(latest):
		j.count("step not taken, the rule was deleted")
	case !e.acked.IsZero() && e.acked.Before(latest):
		j.count("step not taken, the alert was acknowledged")
	case i+1 < len(e.rule.steps) && !slotUp(e.began.Add(e.rule.steps[i+1]), e.rule.slot).After(latest):
		j.count("step skipped, the next one was due")
	default:
		j.breach("%s does not alert at step %d, which is due at %s", e, i, j.at(due))
	}
}

// latenesses are the upper ends of the classes in which the lateness of alerts is counted.
var latenesses = []time.Duration{500 * time.Millisecond, lateMost, 5 * time.Second, 10 * time.Second, 30 * time.Second, time.Minute}

// noteLateness counts an alert by its lateness.
func (j *judge) noteLateness(late time.Duration, well bool) {
	when := "after a fault"
	if well {
		when = "in health"
	}
	for _, most := range latenesses {
		if late <= most {
			j.count(fmt.Sprintf("alert %s, late by at most %4.1f s", when, most.Seconds()))
			return
		}
	}
}

// judgeEnd judges the outcome of a job and the alert that resolves the others.
func (j *judge) judgeEnd(e expectation, fired map[string]futurejobs.ListedAlert, resolved *futurejobs.ListedAlert) {
	ends := j.outcomes(e)
	switch {
	case resolved == nil && !e.shipped.IsZero() && len(fired) > 0 && !slices.Contains(ends, checks.RuleDeleted):
		j.breach("%s does not resolve its %d alerts", e, len(fired))
	case resolved != nil && e.shipped.IsZero():
		j.breach("%s resolves its alerts, and was not shipped", e)
	case resolved != nil && resolved.DecidedAt.Before(e.shipped):
		j.breach("%s resolves its alerts before it was shipped", e)
	case resolved != nil && resolved.DecidedAt.After(j.latest(e.shipped)):
		j.breach("%s resolves its alerts %s late", e, resolved.DecidedAt.Sub(e.shipped))
	}
	if want := j.possibleEnds(e); len(ends) != 1 || !slices.Contains(want, ends[0]) {
		j.breach("%s has the outcomes %v, want one of %v once", e, ends, want)
	}
}

// possibleEnds returns the outcomes that a job may have: two while its rule is deleted.
func (j *judge) possibleEnds(e expectation) []checks.Outcome {
	last := e.step(len(e.rule.steps) - 1)
	want, at, latest := checks.Exhausted, e.firstEnd(), j.latest(e.holdEnd(j.latest(last)))
	if !e.shipped.IsZero() {
		want, at, latest = checks.Resolved, e.shipped, j.latest(e.shipped)
	}
	if e.again {
		want = checks.Restarted
	}
	switch gone := e.deletion; {
	case gone == nil || latest.Before(gone.began):
		return []checks.Outcome{want}
	case at.After(gone.ackedBefore):
		j.count("job of a deleted rule")
		return []checks.Outcome{checks.RuleDeleted}
	}
	return []checks.Outcome{want, checks.RuleDeleted}
}

func (e expectation) String() string {
	return fmt.Sprintf("%s %s of %s", e.rule.name, e.key, e.began.Format("15:04:05.000"))
}
