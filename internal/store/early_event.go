package store

import (
	"maps"
	"slices"

	futurejobs "deadman/future_jobs"
)

const earlyColumns = `e.shard, e.rule_id, e.key, e.at, e.until_at, coalesce(e.outcome, ''), e.members, e.ends, e.changes, e.turned_away`

// turnedAway ends a statement that records jobs refused by quotas. The other state of their keys stays.
const turnedAway = `
ON CONFLICT (shard, rule_id, key) DO UPDATE SET turned_away = TRUE,
	until_at = CASE WHEN early.until_at < excluded.until_at THEN excluded.until_at ELSE early.until_at END`

// turnedAwayOf returns the refused jobs to record, each once, in lock order.
func turnedAwayOf(all []futurejobs.Unbegun) (gone []futurejobs.Unbegun) {
	for _, u := range all {
		if !u.Until.IsZero() {
			gone = append(gone, u)
		}
	}
	slices.SortFunc(gone, func(a, b futurejobs.Unbegun) int { return compareRefs(a.Ref, b.Ref) })
	return slices.CompactFunc(gone, func(a, b futurejobs.Unbegun) bool { return a.Ref == b.Ref })
}

func earlyFields(e *futurejobs.EarlyEvent) []any {
	return []any{
		&e.Shard, &e.RuleID, (*escapedText)(&e.Key), at(&e.At), at(&e.Until), (*string)(&e.Outcome), (*[]byte)(&e.Members), asJSON[[]futurejobs.Ending]{&e.Ends}, asJSON[futurejobs.Changes]{&e.Changes}, &e.TurnedAway,
	}
}

func readEarly(row scanner, e *futurejobs.EarlyEvent) error { return row.Scan(earlyFields(e)...) }

// remembers reports whether an effect depends on early events or creates one.
func remembers(e futurejobs.Effect) bool {
	orders := e.Event != nil && e.Rule.Early > 0
	switch action := e.Action.(type) {
	case futurejobs.Start:
		return action.Early
	case futurejobs.StartExpired:
		return action.Start.Early
	case futurejobs.End:
		return orders || e.Event != nil && action.Early > 0
	case futurejobs.AddMember:
		return orders || e.Event != nil && action.End.Early > 0
	case futurejobs.Update, futurejobs.Pause, futurejobs.Resume:
		return orders && e.Apart
	}
	return false
}

// ends reports whether an effect may end a job.
func ends(action futurejobs.Action) bool {
	switch action.(type) {
	case futurejobs.End, futurejobs.AddMember:
		return true
	}
	return false
}

// rulesIn returns the rules of refs, each once, in order.
func rulesIn(refs []futurejobs.Ref) []int32 {
	rules := make(map[int32]bool)
	for _, r := range refs {
		rules[r.RuleID] = true
	}
	return slices.Sorted(maps.Keys(rules))
}

// earlyByRef indexes early events by their job's ref.
func earlyByRef(all []futurejobs.EarlyEvent) map[futurejobs.Ref]futurejobs.EarlyEvent {
	m := make(map[futurejobs.Ref]futurejobs.EarlyEvent, len(all))
	for _, e := range all {
		m[e.Ref] = e
	}
	return m
}
