package rules

import (
	"slices"
	"testing"

	futurejobs "deadman/future_jobs"
)

// Both lines of a stream read the events of rules with and without bounds. An event of a line concerns the rules of that
// line; one without a line, as that of a preview, concerns all.
func TestLineMatchesItsOwnRules(t *testing.T) {
	ts := newTenantCatalog(t)
	ts.add(updatingRule, "operator", "")
	ts.add(updatingRule, "acme", "acme")
	for i := range ts.saved {
		ts.saved[i].Reads = onLineOf(ts.saved[i].Bounds, ts.saved[i].Reads)
	}
	ts.current.Store(newSnapshot(1, ts.saved, nil, ts.environment()))
	for line, want := range map[string][]string{"": {"acme-0", "operator-0"}, "S": {"operator-0"}, futurejobs.TenantsLine("S"): {"acme-0"}} {
		for _, subject := range []string{"orders.created", "orders.changed", "orders.done"} {
			e := ts.event(subject, []byte(`{"id":"1"}`))
			e.Line = line
			effects, refusals := ts.Match(e)
			var concerned []string
			for _, effect := range effects {
				concerned = append(concerned, effect.Rule.Name)
			}
			slices.Sort(concerned)
			if !slices.Equal(concerned, want) || len(refusals) > 0 {
				t.Errorf("%s on the line %q concerns %v, want %v; refused: %v", subject, line, concerned, want, refusals)
			}
		}
	}
}
