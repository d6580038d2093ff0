package simulation_test

import (
	"fmt"
	"math/rand/v2"
	"slices"
	"time"

	"deadman/alerts"
	"deadman/checks"
	futurejobs "deadman/future_jobs"
)

// beat is the trigger of a rule with heartbeats.
type beat struct {
	every, grace time.Duration // every is zero: the rule has none
	keys         []string
	max          time.Duration // of a run; zero: none
	arePings     bool          // instead of events
}

// beats is the subject of the heartbeats.
const beats = "beats.sent"

// restartsMost is how often a heartbeat that may have been missed starts its interval again.
const restartsMost = 3

// beatDocument returns the document of a rule with heartbeats.
func (r orderRule) beatDocument() string {
	if r.beats.arePings {
		text := fmt.Sprintf("name: %s\nentity: order\ntrigger: {heartbeat: {every: %s, grace: %s", r.name, r.beats.every, r.beats.grace)
		if r.beats.max > 0 {
			text += fmt.Sprintf(", max: %s", r.beats.max)
		}
		return text + fmt.Sprintf("}}\n%sslot: %s\n", r.escalate(), r.slot)
	}
	return fmt.Sprintf("name: %s\nentity: order\ntrigger: {heartbeat: {event: %s, key: event.id, every: %s, grace: %s}}\n%sslot: %s\n",
		r.name, beats, r.beats.every, r.beats.grace, r.escalate(), r.slot)
}

// drawBeats draws a rule with heartbeats. Its keys are silent for some intervals now and then, and from some time on. It is
// deleted at last.
func (p *plan) drawBeats(r *rand.Rand) {
	if r.IntN(3) > 0 {
		return
	}
	rule := p.drawHeartbeatRule(r)
	for _, key := range rule.beats.keys {
		for at := p.begin.Add(ms(r, time.Second, 20*time.Second)); at.Before(p.begin.Add(faultyFor)); {
			p.publish(r, at, beats, key)
			at = at.Add(rule.drawInterval(r, at))
		}
	}
	slices.SortStableFunc(p.events, func(a, b publication) int { return a.at.Compare(b.at) })
	gone := p.begin.Add(faultyFor)
	for _, c := range p.changes {
		gone = later(gone, c.at)
	}
	p.withHeartbeats = append(p.withHeartbeats, rule)
	p.changes = append(p.changes, change{at: gone.Add(ms(r, 0, time.Minute)), kind: deletes, rule: rule})
}

// drawHeartbeatRule draws a rule with heartbeats of up to three keys.
func (*plan) drawHeartbeatRule(r *rand.Rand) orderRule {
	rule := orderRule{
		name: "beats", slot: []time.Duration{time.Second, 5 * time.Second}[r.IntN(2)],
		beats: beat{
			every: []time.Duration{5 * time.Second, 10 * time.Second, 20 * time.Second}[r.IntN(3)], grace: ms(r, 0, 5*time.Second).Truncate(time.Second),
			keys: []string{"beat-a", "beat-b", "beat-c"}[:1+r.IntN(3)],
		},
	}
	rule.steps = []time.Duration{ms(r, 0, 5*time.Second).Truncate(time.Second)}
	if r.IntN(2) == 0 {
		rule.steps = append(rule.steps, rule.steps[0]+ms(r, time.Second, 20*time.Second).Truncate(time.Second))
	}
	return rule
}

// drawInterval draws the time from a heartbeat to the next one: sometimes it is silent for some intervals, or comes about when it is
// overdue.
func (r orderRule) drawInterval(luck *rand.Rand, at time.Time) time.Duration {
	switch between := ms(luck, r.beats.every/2, r.beats.every+r.beats.grace); luck.IntN(8) {
	case 0:
		return between + ms(luck, 0, 4*r.beats.every)
	case 1: // about when it is overdue
		return r.overdue(at, luck.IntN(len(r.steps))).Add(ms(luck, -100*time.Millisecond, 100*time.Millisecond)).Sub(at)
	default:
		return between
	}
}

// overdue returns the slot of a step that a key reaches after a heartbeat without another one.
func (r orderRule) overdue(since time.Time, step int) time.Time {
	return slotUp(since.Add(r.beats.every+r.beats.grace+r.steps[step]), r.slot)
}

// judgeBeats judges the alerts and jobs of a rule with heartbeats.
func (j *judge) judgeBeats(r orderRule) {
	known := make(map[alerts.ID]bool)
	for _, key := range r.beats.keys {
		var signals []sentEvent
		for _, e := range j.sent {
			if e.Subject == beats && e.key == key {
				signals = append(signals, e)
			}
		}
		for i, e := range signals {
			s := silence{rule: r, key: key, since: e.At}
			if i+1 < len(signals) {
				s.until = signals[i+1].At
			}
			if s.dues(s.until) == s.dues(e.At) {
				continue // the next heartbeat leaves all steps in their slots
			}
			for _, a := range j.judgeSilence(s) {
				known[a.ID] = true
			}
		}
	}
	jobs := make(map[string]int)
	for _, a := range j.raised {
		if a.Rule == r.name && !known[a.ID] {
			j.breach("alert %s %s %s at %s, and its heartbeats allow none", r.name, a.Key, a.Status, j.at(a.DecidedAt))
		}
	}
	for _, e := range j.ended {
		if e.Rule != r.name {
			continue
		}
		if jobs[e.Key+e.Since.String()]++; jobs[e.Key+e.Since.String()] > 1 || e.Outcome != checks.Resolved && e.Outcome != checks.RuleDeleted {
			j.breach("job %s %s of %s ended as %s, for the %d. time", r.name, e.Key, j.at(e.Since), e.Outcome, jobs[e.Key+e.Since.String()])
		}
	}
}

// silence is the time from a heartbeat to the next one of its key.
type silence struct {
	rule  orderRule
	key   string
	since time.Time
	until time.Time // zero: there is no other heartbeat
}

func (s silence) String() string {
	return fmt.Sprintf("%s %s, silent since %s", s.rule.name, s.key, s.since.Format("15:04:05.000"))
}

// judgeSilence judges a silence and returns its alerts: each step once if the key is silent through its slot, and one that resolves
// them if a heartbeat comes then.
func (j *judge) judgeSilence(s silence) (all []futurejobs.ListedAlert) {
	j.count("heartbeat")
	fired, resolved := make(map[string]futurejobs.ListedAlert), 0
	for _, a := range j.raised {
		if a.Rule != s.rule.name || a.Key != s.key || s.dues(a.Since) != s.dues(s.since) {
			continue
		}
		all = append(all, a)
		if a.Status == alerts.Resolved {
			resolved++
			if s.until.IsZero() || a.DecidedAt.Before(s.until) || a.DecidedAt.After(j.latest(s.until)) {
				j.breach("%s: its alerts are resolved at %s, the next heartbeat is at %s", s, j.at(a.DecidedAt), j.at(s.until))
			}
			continue
		}
		if _, ok := fired[a.Step]; ok {
			j.breach("%s alerts twice at step %s", s, a.Step)
		}
		fired[a.Step] = a
	}
	for i := range s.rule.steps {
		j.judgeOverdue(s, i, fired)
	}
	if isResolved := len(fired) > 0 && !s.until.IsZero(); isResolved != (resolved == 1) {
		j.breach("%s has %d alerts and is resolved %d times", s, len(fired), resolved)
	}
	return all
}

// dues returns the slots of the steps after a heartbeat, as text. Heartbeats with the same slots are one.
func (s silence) dues(since time.Time) (text string) {
	for i := range s.rule.steps {
		text += s.rule.overdue(since, i).String()
	}
	return text
}

// judgeOverdue judges a step of a silence.
func (j *judge) judgeOverdue(s silence, i int, fired map[string]futurejobs.ListedAlert) {
	due := s.rule.overdue(s.since, i)
	latest := j.latestOverdue(s, i)
	a, ok := fired[fmt.Sprintf("step-%d", i)]
	switch {
	case ok && a.DecidedAt.Before(due):
		j.breach("%s alerts at step %d %s before its slot", s, i, due.Sub(a.DecidedAt))
	case ok && a.DecidedAt.After(latest):
		j.breach("%s alerts at step %d %s after its slot, at most %s are allowed", s, i, a.DecidedAt.Sub(due), latest.Sub(due))
	case ok && !s.until.IsZero() && s.until.Before(due):
		j.breach("%s alerts at step %d, and a heartbeat came at %s", s, i, j.at(s.until))
	case ok:
		j.count("alert of a missing heartbeat")
	case !s.until.IsZero() && s.until.Before(due):
		j.count("heartbeat in time")
	case !s.until.IsZero() && s.until.Before(latest):
		j.count("late heartbeat that came before its alert")
	case i+1 < len(s.rule.steps) && !s.rule.overdue(s.since, i+1).After(latest):
		j.count("step of a missing heartbeat skipped, the next one was due")
	case j.ledger.rules[s.rule.name][1].began.Before(latest):
		j.count("missing heartbeat of a deleted rule")
	default:
		j.breach("%s does not alert at step %d, which is due at %s", s, i, j.at(due))
	}
}

// latestOverdue returns when a step of a silence is alerted at the latest. A heartbeat that may have been missed starts the
// interval again.
func (j *judge) latestOverdue(s silence, i int) time.Time {
	due := s.rule.overdue(s.since, i)
	latest := j.latest(due)
	isDisturbed := slices.ContainsFunc(j.disturbed, func(d span) bool {
		return d.from.Before(latest) && d.to.Add(recoverMost).After(s.since)
	})
	if !isDisturbed {
		return latest
	}
	for range restartsMost {
		latest = j.latest(s.rule.overdue(latest, i))
	}
	return latest
}
