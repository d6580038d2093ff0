package simulation_test

import (
	"slices"
	"time"

	"deadman/checks"
	futurejobs "deadman/future_jobs"
)

// expectation is one job that the events require.
type expectation struct {
	rule    orderRule
	key     string
	began   time.Time
	from    time.Time // commit of the tick that began it; zero: an event did
	shipped time.Time // or created again, if the rule restarts its jobs; zero: never
	again   bool      // created again
	doubted bool      // the order of two events is uncertain

	acked    time.Time  // zero: never
	deletion *ruleState // of its rule; nil: none
}

// judgeRule judges the jobs of a rule.
func (j *judge) judgeRule(name string) {
	byKey := make(map[string][]sentEvent)
	for _, e := range j.sent {
		byKey[e.key] = append(byKey[e.key], e)
	}
	known := make(map[string]bool) // jobs by key and begin, and keys that are not judged
	for key, events := range byKey {
		slices.SortStableFunc(events, func(a, b sentEvent) int { return a.At.Compare(b.At) })
		j.judgeLosses(name, key, events)
		isUnread := slices.ContainsFunc(events, func(e sentEvent) bool { return j.unread[event{e.Stream, e.At}] })
		known[key] = isUnread
		for _, e := range j.expect(name, key, events) {
			known[e.key+e.began.String()] = true
			if e.doubted || isUnread {
				j.count("job not judged: an event was deleted, or two are too close")
				continue
			}
			j.judgeJob(e)
		}
	}
	for _, a := range j.raised {
		if a.Rule == name && !known[a.Key] && !known[a.Key+a.Since.String()] {
			j.breach("alert %s %s of a job that no event began at %s", name, a.Key, j.at(a.Since))
		}
	}
	for _, e := range j.ended {
		if e.Rule == name && !known[e.Key] && !known[e.Key+e.Since.String()] {
			j.breach("job %s %s that no event began at %s is in the history", name, e.Key, j.at(e.Since))
		}
	}
}

// expect returns the jobs that events of a key require. Where the order of the last check of a job and of an event is
// uncertain, the history shows if the event began a job.
func (j *judge) expect(name, key string, events []sentEvent) (all []expectation) {
	shipped := j.ledger.rules[name][0].shippedSubject()
	events = slices.DeleteFunc(slices.Clone(events), func(e sentEvent) bool { return e.Subject != created && e.Subject != shipped })
	for i, e := range events {
		isClose := i > 0 && events[i-1].Stream != e.Stream && e.At.Sub(events[i-1].At) < tooClose
		var last *expectation
		if len(all) > 0 {
			last = &all[len(all)-1]
			last.doubted = last.doubted || isClose
		}
		states := j.ledger.rules[name].during(e.At, j.latest(e.At))
		switch e.Subject {
		case created:
			state, ok := j.starting(states, key, e)
			if isOpen := last != nil && last.shipped.IsZero() && !j.isOver(*last, e); ok && isOpen && state.restarts {
				j.count("job restarted")
				last.shipped, last.again = e.At, true
			} else if isOpen {
				ok = false
			}
			if ok {
				next := expectation{rule: state.orderRule, key: key, began: e.At, doubted: isClose}
				if isClose && isSkew(events[:i], e) {
					j.count("job shipped before it began")
					next.shipped, next.doubted = events[0].At, false
				}
				if gone, ok := j.ledger.rules[name].deletion(); ok {
					next.deletion = &gone
				}
				next.acked = j.ackOf(next)
				all = append(all, next)
			}
		case shipped:
			if last != nil && last.shipped.IsZero() && !j.isOver(*last, e) && j.mayResolve(states, *last) {
				last.shipped = e.At
			}
		}
	}
	return all
}

// isSkew reports whether all earlier events of an order belong to a trigger, as clocks of streams may differ.
func isSkew(earlier []sentEvent, trigger sentEvent) bool {
	return !slices.ContainsFunc(earlier, func(e sentEvent) bool {
		return e.Stream == trigger.Stream || trigger.At.Sub(e.At) > skewMost
	})
}

// starting returns the state of a rule that decides about an event that may start a job; ok is false if the event starts none.
// While a change is made, the history shows it.
func (j *judge) starting(states []ruleState, key string, e sentEvent) (state ruleState, ok bool) {
	able := slices.DeleteFunc(slices.Clone(states), func(s ruleState) bool { return !s.starts() })
	if len(able) == 0 {
		j.count("event not applied: the rule is paused or deleted")
		return state, false
	}
	i := slices.IndexFunc(j.ended, func(done futurejobs.EndedJob) bool {
		return done.Rule == able[0].name && done.Key == key && done.Since.Equal(e.At)
	})
	if i < 0 {
		return able[0], len(able) == len(states)
	}
	if len(states) > 1 {
		j.count("event while the rule is changed")
	}
	for _, s := range able {
		if s.version == j.ended[i].Version {
			return s, true
		}
	}
	j.breach("%s %s of %s has version %d, which was not in force", able[0].name, key, j.at(e.At), j.ended[i].Version)
	return able[0], true
}

// mayResolve reports whether an event resolves a job. While the rule is deleted, the history shows it.
func (j *judge) mayResolve(states []ruleState, e expectation) bool {
	if !slices.ContainsFunc(states, func(s ruleState) bool { return s.isGone }) {
		return true
	}
	if !slices.ContainsFunc(states, func(s ruleState) bool { return !s.isGone }) {
		return false
	}
	return slices.Contains(j.outcomes(e), checks.Resolved)
}

// judgeLosses checks that an alert reports the loss of a first event of a key that began no job.
func (j *judge) judgeLosses(name, key string, events []sentEvent) {
	first := events[0]
	states := j.ledger.rules[name].during(first.At, j.latest(first.At))
	if slices.ContainsFunc(states, func(s ruleState) bool { return !s.starts() }) {
		return
	}
	r := states[0].orderRule
	if !j.unread[event{first.Stream, first.At}] || first.Subject != created || len(j.outcomes(expectation{rule: r, key: key, began: first.At})) > 0 {
		return
	}
	if !j.ledger.unseen[first.Stream].Before(first.At) { // no node had seen the stream that had it
		return
	}
	j.count("event lost")
	if !slices.ContainsFunc(j.raised, func(a futurejobs.ListedAlert) bool { return a.Key == "stream/"+first.Stream }) {
		j.breach("%s %s began no job, its event of %s was deleted, and no alert says so", r.name, key, j.at(first.At))
	}
}

// isOver reports whether a job that was not shipped ended before an event. While its last check is due, the history shows it: an
// event that began a job found no other, and an event that resolved the job found it. The last check does not wait for triggers,
// so one that is read after it begins a job.
func (j *judge) isOver(e expectation, event sentEvent) bool {
	last := slotUp(e.began.Add(e.rule.steps[len(e.rule.steps)-1]), e.rule.slot)
	switch latest := j.latest(e.holdEnd(j.latest(last))); {
	case event.At.Before(e.firstEnd()) && (event.Subject != created || e.rule.restarts || j.latest(event.At).Before(e.firstEnd())):
		return false
	case event.At.After(latest):
		return true
	}
	j.count("event while the last check is due")
	if event.Subject != created || e.rule.restarts {
		return slices.Equal(j.outcomes(e), []checks.Outcome{checks.Exhausted})
	}
	return len(j.outcomes(expectation{rule: e.rule, key: e.key, began: event.At})) > 0
}

// outcomes returns the outcomes of the jobs in the history that are the expected one.
func (j *judge) outcomes(e expectation) (all []checks.Outcome) {
	for _, done := range j.ended {
		if done.Rule == e.rule.name && done.Key == e.key && done.Since.Equal(e.began) {
			all = append(all, done.Outcome)
		}
	}
	return all
}

// firstEnd returns when a job ends at the earliest, if it is not shipped. The hold of a step that an acknowledgement held back
// counts from its time, and not from its slot.
func (e expectation) firstEnd() time.Time {
	last := e.began.Add(e.rule.steps[len(e.rule.steps)-1])
	if !e.acked.IsZero() {
		return slotUp(last.Add(e.rule.hold), e.rule.slot)
	}
	return e.holdEnd(last)
}

// step returns when a step is due. A job that began late is not due before.
func (e expectation) step(i int) time.Time {
	due := slotUp(e.began.Add(e.rule.steps[i]), e.rule.slot)
	if due.After(e.from) {
		return due
	}
	return slotUp(e.from.Add(1), e.rule.slot)
}

// holdEnd returns when a job ends after its last step.
func (e expectation) holdEnd(step time.Time) time.Time {
	return slotUp(slotUp(step, e.rule.slot).Add(e.rule.hold), e.rule.slot)
}
