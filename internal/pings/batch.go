package pings

import (
	"fmt"

	futurejobs "deadman/future_jobs"
	"deadman/rules"
)

// batch is what pings ask for, by the rules at one revision.
type batch struct {
	effects []futurejobs.Effect
	taken   []*pendingPing
	refused []refusal
}

// refusal is a ping that its rule does not take.
type refusal struct {
	*pendingPing
	err error
}

// batch asks the rules what pings mean. Of several successes of a key that follow each other, the
// last says what all of them say: a flood of pings is one look at its job.
func (t *Receiver) batch(all []*pendingPing) batch {
	var b batch
	plain := make(map[Target]int) // where the effect of a key's last ping is, if that was a success and no more
	for _, one := range all {
		effect, err := t.effect(one)
		if err != nil {
			b.refused = append(b.refused, refusal{one, err})
			continue
		}
		b.taken = append(b.taken, one)
		before, follows := plain[one.Target]
		switch {
		case follows && one.plain():
			b.effects[before] = effect
			continue
		case one.plain():
			plain[one.Target] = len(b.effects)
		default:
			delete(plain, one.Target)
		}
		b.effects = append(b.effects, effect)
	}
	return b
}

// plain reports whether a ping says that all is well, and nothing of a run.
func (p Ping) plain() bool { return p.Kind == rules.Success && p.Run == "" }

// effect is what a ping asks of its job.
func (t *Receiver) effect(one *pendingPing) (futurejobs.Effect, error) {
	rule, err := t.Book.Newest(one.Rule)
	if err != nil {
		return futurejobs.Effect{}, err
	}
	if rule.Engine().ID != one.RuleID { // another rule has the name by now
		return futurejobs.Effect{}, fmt.Errorf("rule %s: %w", one.Rule, futurejobs.ErrNotFound)
	}
	return rule.Beat(rules.Beat{
		Key: one.Key, At: one.at, Kind: one.Kind, Run: one.Run, Exit: one.Exit, Body: one.Body,
		Paused: t.Book.Paused(one.Rule),
	}, t.Shards)
}

// refuse answers the pings that their rules do not take, and returns the others.
func (b batch) refuse() []*pendingPing {
	for _, r := range b.refused {
		r.done <- r.err
	}
	return b.taken
}
