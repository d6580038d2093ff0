package document

import (
	"maps"
	"slices"
	"time"

	"github.com/invopop/jsonschema"
)

// Retention is how long a rule keeps its ended jobs and its alerts. 0 is the setting of the node.
type Retention struct {
	History  Duration            `json:"history,omitempty"`
	Alerts   Duration            `json:"alerts,omitempty"`
	Outcomes map[string]Duration `json:"outcomes,omitempty"` // history of the jobs with an outcome
}

// Bounds of a period of retention.
const (
	MinRetention = Duration(24 * time.Hour)
	MaxRetention = MaxDuration
)

// OfOutcome returns the period of the ended jobs with an outcome; 0: the setting of the node.
func (r Retention) OfOutcome(outcome string) Duration {
	if d, own := r.Outcomes[outcome]; own {
		return d
	}
	return r.History
}

// OutcomeNames returns the outcomes with a period of their own, sorted.
func (r Retention) OutcomeNames() []string { return slices.Sorted(maps.Keys(r.Outcomes)) }

func (r *Retention) fields() mapping {
	return mapping{
		name: "keep",
		entries: []entry{
			{"history", "How long ended jobs are kept, in place of the setting keep_history: 1d to 3650d.", duration{&r.History}},
			{"alerts", "How long alerts are kept, in place of the setting keep_alerts: 1d to 3650d.", duration{&r.Alerts}},
			{"outcomes", "How long the ended jobs with an outcome are kept, by the name of the outcome.", durationMap{&r.Outcomes}},
		},
	}
}

// durationMap is a mapping of names to spans.
type durationMap struct{ to *map[string]Duration }

func (v durationMap) read(r *reader, n node, pointer string) {
	if n.kind != aMapping || len(n.fields) == 0 {
		r.problem(pointer, "expected a mapping of outcomes to durations, not %s; write: outcomes: {resolved: 7d}", n.kind)
		return
	}
	*v.to = make(map[string]Duration)
	r.each(n, pointer, func(f field, p string) {
		var d Duration
		r.places[p] = f.value.place
		duration{&d}.read(r, f.value, p)
		(*v.to)[f.name] = d
	})
}

func (v durationMap) schema(d jsonschema.Definitions) *jsonschema.Schema {
	return &jsonschema.Schema{
		Type: "object", MinProperties: new(uint64(1)),
		PropertyNames: &jsonschema.Schema{Pattern: NamePattern.String()}, AdditionalProperties: duration{}.schema(d),
	}
}
