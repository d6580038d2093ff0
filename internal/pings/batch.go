package pings

import (
	"fmt"
	"slices"

	futurejobs "deadman/future_jobs"
	"deadman/rules"
)

// batch is the result of matching pings to rules at one revision.
type batch struct {
	effects []futurejobs.Effect
	taken   []*pendingPing
	places  []int // index of the effect of each taken ping
	refused []refusal
}

// refusal is a ping refused by its rule.
type refusal struct {
	*pendingPing
	err error
}

// batch matches pings to rules. Consecutive successes of a key are reduced to the last one, so a flood of pings causes
// one read of the job, unless the rule judges each of them.
func (t *Receiver) batch(all []*pendingPing) batch {
	var b batch
	plain := make(map[Target]int) // index of the effect of a key's last ping, if it was a plain success
	for _, one := range all {
		effect, isJudged, err := t.effect(one)
		if err != nil {
			b.refused = append(b.refused, refusal{one, err})
			continue
		}
		b.taken = append(b.taken, one)
		before, follows := plain[one.Target]
		isPlain := one.plain() && !isJudged
		switch {
		case follows && isPlain:
			b.effects[before] = effect
			b.places = append(b.places, before)
			continue
		case isPlain:
			plain[one.Target] = len(b.effects)
		default:
			delete(plain, one.Target)
		}
		b.places = append(b.places, len(b.effects))
		b.effects = append(b.effects, effect)
	}
	return b
}

// plain reports whether a ping is a success without a run id.
func (p Ping) plain() bool { return p.Kind == rules.Success && p.Run == "" }

// effect returns the effect of a ping on its job, and whether the rule judges each of its pings.
func (t *Receiver) effect(one *pendingPing) (_ futurejobs.Effect, isJudged bool, _ error) {
	rule, err := t.Catalog.Newest(one.Rule)
	if err != nil {
		return futurejobs.Effect{}, false, err
	}
	if rule.Engine().ID != one.RuleID { // the name now belongs to another rule
		return futurejobs.Effect{}, false, fmt.Errorf("rule %s: %w", one.Rule, futurejobs.ErrNotFound)
	}
	effect, err := rule.HeartbeatEffect(rules.ReceivedHeartbeat{
		Key: one.Key, At: one.at, Kind: one.Kind, Run: one.Run, Exit: one.Exit, Body: one.Body,
		Paused: t.Catalog.Paused(one.Rule),
	}, t.Shards)
	return effect, rule.JudgesStarts(), err
}

// refuse answers the refused pings with their errors and returns the others.
func (b batch) refuse() []*pendingPing {
	for _, r := range b.refused {
		r.done <- r.err
	}
	return b.taken
}

// split answers the pings whose effects are beyond a quota, and returns the others.
func (b batch) split(over []int) (left []*pendingPing) {
	for i, one := range b.taken {
		if slices.Contains(over, b.places[i]) {
			one.done <- ErrQuota
			continue
		}
		left = append(left, one)
	}
	return left
}
