package simulation_test

import (
	"fmt"
	"slices"
	"time"

	"deadman/alerts"
	"deadman/checks"
	futurejobs "deadman/future_jobs"
	"deadman/rules"
)

// clockMost is how far the time of a node may be behind, if its machine has not slept.
const clockMost = 100 * time.Millisecond

// judgePings judges the answers, alerts and jobs of a rule with pings.
func (j *judge) judgePings(r orderRule) {
	for _, s := range j.deployment.pinged {
		j.judgeAnswer(s)
	}
	for _, key := range r.beats.keys {
		for _, q := range j.quietTimes(r, key) {
			j.judgeQuiet(q)
		}
	}
	for _, e := range j.ended {
		if e.Rule == r.name && e.Outcome != checks.Resolved && e.Outcome != checks.RuleDeleted {
			j.breach("job %s %s of %s ended as %s", r.name, e.Key, j.at(e.Since), e.Outcome)
		}
	}
	for _, a := range j.raised {
		if a.Rule == r.name && len(j.ledger.signals[a.Key]) == 0 {
			j.breach("alert %s %s, and it never sent a ping", r.name, a.Key)
		}
	}
}

// judgeAnswer checks that an acknowledged ping is in the database, and has its time.
func (j *judge) judgeAnswer(s *sentPing) {
	late := clockMost
	for _, f := range j.plan.faults {
		if f.kind == sleep && f.from.Before(s.sent.Add(pingTimeout)) {
			late += f.to.Sub(f.from)
		}
	}
	switch {
	case !s.answered.IsZero() && s.commit.IsZero():
		j.breach("the ping %s of %s of %s is acknowledged, and the database does not have it", s.kind, s.key, j.at(s.sent))
	case !s.answered.IsZero() && s.commit.After(s.answered):
		j.breach("the ping %s of %s of %s is acknowledged at %s, and the database has it at %s", s.kind, s.key, j.at(s.sent), j.at(s.answered), j.at(s.commit))
	case !s.commit.IsZero() && (s.sent.Sub(s.stamp) > late || s.stamp.Sub(s.commit) > earlyMost):
		j.breach("the ping %s of %s of %s has the time %s", s.kind, s.key, j.at(s.sent), j.at(s.stamp))
	case s.answered.IsZero() && !s.commit.IsZero():
		j.count("ping that counts, without an answer")
	}
}

// quiet is the time from a success to the next one of its key.
type quiet struct {
	rule   orderRule
	key    string
	phases []pingPhase
	until  time.Time // commit of the next success; zero: there is none
}

// pingPhase is a part of a quiet time with one deadline.
type pingPhase struct {
	from, until time.Time // commits of its pings; zero: the quiet time ends it
	since       time.Time // the last success
	deadline    time.Time
	hasFailed   bool
}

func (q quiet) String() string {
	return fmt.Sprintf("%s %s, since %s", q.rule.name, q.key, q.phases[0].from.Format("15:04:05.000"))
}

// quietTimes returns the quiet times of a key, from its first ping on. A failure is a deadline that has come, unless it had come
// before. A run in progress is overdue when it takes too long.
func (j *judge) quietTimes(r orderRule, key string) (all []quiet) {
	var last, since, overdue, begun time.Time
	for i, s := range j.ledger.signals[key] {
		at := later(last, s.stamp.UTC().Truncate(time.Microsecond))
		last = at
		if i == 0 || s.kind == rules.Success {
			if i > 0 {
				all[len(all)-1].until = s.commit
			}
			all = append(all, quiet{rule: r, key: key})
			since, overdue, begun = at, time.Time{}, time.Time{}
		}
		q := &all[len(all)-1]
		isKnown, deadline := !overdue.IsZero(), at.Add(1)
		if n := len(q.phases); n > 0 {
			deadline = q.phases[n-1].deadline
			isKnown = isKnown || len(j.firedIn(*q, s.commit)) > 0
		}
		switch s.kind {
		case rules.Begun:
			if isKnown {
				overdue = deadline
			}
			if begun.IsZero() {
				begun = at
			}
		case rules.Failure:
			begun = time.Time{}
			if overdue = at; isKnown || deadline.Before(at) {
				overdue = deadline
			}
		}
		next := pingPhase{from: s.commit, since: since, deadline: since.Add(r.beats.every + r.beats.grace), hasFailed: !overdue.IsZero()}
		switch {
		case next.hasFailed:
			next.deadline = overdue
		case r.beats.max > 0 && !begun.IsZero():
			next.deadline = begun.Add(r.beats.max)
		}
		if n := len(q.phases); n > 0 {
			q.phases[n-1].until = s.commit
		}
		q.phases = append(q.phases, next)
	}
	return all
}

// firedIn returns the firing alerts of a quiet time by a time, or by its end.
func (j *judge) firedIn(q quiet, by time.Time) (all []futurejobs.ListedAlert) {
	for _, a := range j.raised {
		if a.Rule == q.rule.name && a.Key == q.key && a.Status == alerts.Firing && !a.DecidedAt.Before(q.phases[0].from) && !a.DecidedAt.After(by) {
			all = append(all, a)
		}
	}
	return all
}

// judgeQuiet judges the alerts of a quiet time: each step once, when the key is overdue for it, and one that resolves them.
func (j *judge) judgeQuiet(q quiet) {
	j.count("time from a ping to the next success")
	fired, end := make(map[string]bool), q.until
	if end.IsZero() {
		end = time.Now()
	}
	for _, a := range j.firedIn(q, end) {
		if fired[a.Step] {
			j.breach("%s alerts twice at %s", q, a.Step)
		}
		fired[a.Step] = true
		isDue := slices.ContainsFunc(q.phases, func(p pingPhase) bool {
			i := int(a.Step[len(a.Step)-1] - '0')
			isNow := !a.DecidedAt.Before(p.from) && (p.until.IsZero() || !a.DecidedAt.After(p.until))
			return isNow && !a.DecidedAt.Before(q.due(p, i)) && !a.DecidedAt.After(j.latestPing(q, p, i))
		})
		if !isDue {
			j.breach("%s alerts at %s at %s, and its pings allow it at %s", q, a.Step, j.at(a.DecidedAt), j.dues(q))
		}
		j.count("alert of a missing or failed ping")
	}
	resolved := 0
	for _, a := range j.raised {
		if a.Rule == q.rule.name && a.Key == q.key && a.Status == alerts.Resolved && a.DecidedAt.Equal(q.until) {
			resolved++
		}
	}
	if isOver := !q.until.IsZero() && len(fired) > 0; (resolved == 1) != isOver || resolved > 1 {
		j.breach("%s has %d alerts until %s, and %d resolve them then", q, len(fired), j.at(q.until), resolved)
	}
	for i := range q.rule.steps {
		if !fired[fmt.Sprintf("step-%d", i)] {
			j.judgeUntaken(q, i)
		}
	}
}

// due returns the slot of a step.
func (q quiet) due(p pingPhase, i int) time.Time {
	return slotUp(p.deadline.Add(q.rule.steps[i]), q.rule.slot)
}

// dues returns the slots of the steps as text.
func (j *judge) dues(q quiet) (text string) {
	for _, p := range q.phases {
		for i := range q.rule.steps {
			text += fmt.Sprintf("%s (to %s, from %s to %s) ", j.at(q.due(p, i)), j.at(j.latestPing(q, p, i)), j.at(p.from), j.at(p.until))
		}
	}
	return text
}

// judgeUntaken judges a step of a quiet time that has no alert.
func (j *judge) judgeUntaken(q quiet, i int) {
	for _, p := range q.phases {
		latest, until := j.latestPing(q, p, i), p.until
		if until.IsZero() {
			until = q.until
		}
		switch {
		case !until.IsZero() && until.Before(q.due(p, i)):
			j.count("ping in time")
		case !until.IsZero() && !until.After(latest):
			j.count("late ping that came before its alert")
		case i+1 < len(q.rule.steps) && !q.due(p, i+1).After(latest):
			j.count("step of a missing ping skipped, the next one was due")
		case j.ledger.rules[q.rule.name][1].began.Before(latest):
			j.count("missing ping of a deleted rule")
		default:
			j.breach("%s does not alert at step %d, which is due at %s, until %s", q, i, j.at(q.due(p, i)), j.at(until))
		}
	}
}

// latestPing returns when a step is alerted at the latest. A ping that may have been missed starts the interval again, unless the
// last one was a failure.
func (j *judge) latestPing(q quiet, p pingPhase, i int) time.Time {
	latest := j.latest(later(q.due(p, i), slotUp(p.from, q.rule.slot)))
	isDisturbed := slices.ContainsFunc(j.disturbed, func(d span) bool {
		return d.from.Before(latest) && d.to.Add(recoverMost).After(p.since)
	})
	if p.hasFailed || !isDisturbed {
		return latest
	}
	for range restartsMost {
		latest = j.latest(slotUp(latest.Add(q.rule.beats.every+q.rule.beats.grace+q.rule.steps[i]), q.rule.slot))
	}
	return latest
}
