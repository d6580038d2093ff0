package store

import (
	"maps"
	"slices"

	futurejobs "deadman/future_jobs"
)

const earlyColumns = `e.shard, e.rule_id, e.key, e.at, e.until_at, coalesce(e.outcome, ''), e.members, e.ends, e.changes`

func earlyFields(e *futurejobs.Early) []any {
	return []any{
		&e.Shard, &e.RuleID, (*verbatim)(&e.Key), at(&e.At), at(&e.Until), (*string)(&e.Outcome), (*[]byte)(&e.Members), asJSON[[]futurejobs.Ending]{&e.Ends}, asJSON[futurejobs.Changes]{&e.Changes},
	}
}

func readEarly(row scanner, e *futurejobs.Early) error { return row.Scan(earlyFields(e)...) }

// remembers reports whether what happened early matters to an effect, or is made by it.
func remembers(e futurejobs.Effect) bool {
	orders := e.Event != nil && e.Rule.Early > 0
	switch ask := e.Ask.(type) {
	case futurejobs.Start:
		return ask.Early
	case futurejobs.Lapse:
		return ask.Start.Early
	case futurejobs.End:
		return orders || e.Event != nil && ask.Early > 0
	case futurejobs.Gather:
		return orders || e.Event != nil && ask.End.Early > 0
	case futurejobs.Update, futurejobs.Pause, futurejobs.Resume:
		return orders && e.Apart
	}
	return false
}

// earlyRefs are the refs of effects to which it matters what happened early, each once.
func earlyRefs(effects []futurejobs.Effect) []futurejobs.Ref {
	var all []futurejobs.Ref
	for _, e := range effects {
		if remembers(e) {
			all = append(all, e.Ref)
		}
	}
	return inLockOrder(all)
}

// rulesIn are the rules of refs, each once, in order.
func rulesIn(refs []futurejobs.Ref) []int32 {
	rules := make(map[int32]bool)
	for _, r := range refs {
		rules[r.RuleID] = true
	}
	return slices.Sorted(maps.Keys(rules))
}

// earlyByRef finds what happened early by the job it is about.
func earlyByRef(all []futurejobs.Early) map[futurejobs.Ref]futurejobs.Early {
	m := make(map[futurejobs.Ref]futurejobs.Early, len(all))
	for _, e := range all {
		m[e.Ref] = e
	}
	return m
}
