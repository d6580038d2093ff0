package rules

import (
	"fmt"
	"slices"
	"time"

	futurejobs "deadman/future_jobs"
)

// The cost limits, in rounds, of the rules of one tenant together. They are rules with bounds.
const (
	// tenantShare is how many budgets of a rule they have on one event.
	tenantShare = 8
	// leastFree is the free part of each event, plus one for each bytesForFree bytes of it, regardless of earlier
	// costs. A hundred ordinary rules cost less: see TestOrdinaryRulesAreFree.
	leastFree    = 10_000
	bytesForFree = 4
	// roundsToWrite is the cost of an effect or a refusal: the database takes about 40 µs for it, and a round about
	// 0.16 µs.
	roundsToWrite = 250
)

var (
	errTenantSpent = fmt.Errorf("the rules of this rule's tenant take too long together on one event: beside the others, %w", errSpent)
	errUsedUp      = fmt.Errorf("the rules of this rule's tenant used up what they may cost on this node: "+
		"beyond %d rounds, and one for each %d bytes, an event is paid from an allowance that grows by %d rounds a second at the most, and each effect costs %d; "+
		"make the expressions simpler or the rules fewer, then retry the dead letter: %w",
		leastFree, bytesForFree, tenantGrowth, roundsToWrite, errSpent)
)

// tenant is the owner of a rule with bounds: a prefix of names, or a token without a prefix.
type tenant struct{ prefix, token string }

// tenancy holds the cost limits of the rules of tenants on one event.
type tenancy struct {
	of         func(rule string) string // returns the prefix of a rule; nil: none is known
	allowances *allowances              // nil: costs are not drawn, and no rule is refused
	now        func() time.Time
	budgets    map[tenant]*tenantBudget
	refusals   []tenantRefusal // in the order of the first rule
}

// tenantBudget is the remaining cost limit of one tenant's rules on the event.
type tenantBudget struct {
	tenant
	left  int // of their budgets
	free  int // of the free part
	stock int // of the tenant's allowance
	drawn bool
}

// owner returns the tenant of a rule with bounds.
func (t *tenancy) owner(of RuleVersion) tenant { return tenantOf(t.of, of.Name, of.Bounds.Token) }

// tenantOf returns the tenant of a rule: its prefix, or the token of its bounds.
func tenantOf(prefixOf func(rule string) string, rule, token string) tenant {
	if prefixOf != nil {
		if prefix := prefixOf(rule); prefix != "" {
			return tenant{prefix: prefix}
		}
	}
	return tenant{token: token}
}

// budgetOf returns the remaining limit of a rule's tenant on an event with the given bytes, if the rule has a budget.
func (t *tenancy) budgetOf(of RuleVersion, budget, bytes int) *tenantBudget {
	whose := t.owner(of)
	known := t.budgets[whose]
	if known != nil {
		return known
	}
	known = &tenantBudget{tenant: whose, left: tenantShare * budget}
	if t.allowances != nil {
		var isOverdrawn bool
		known.stock, isOverdrawn = t.allowances.left(whose, t.now())
		if known.drawn = true; !isOverdrawn {
			known.free = leastFree + bytes/bytesForFree
		}
	}
	if t.budgets == nil {
		t.budgets = make(map[tenant]*tenantBudget)
	}
	t.budgets[whose] = known
	return known
}

// lower lowers the budget of a rule to the remaining limit of its tenant, and returns it.
func (t *tenantBudget) lower(own *budget) int {
	if t.left < own.left {
		own.left, own.spent = t.left, errTenantSpent
	}
	if left := t.free + t.stock; t.drawn && left < own.left {
		own.left, own.spent = left, errUsedUp
	}
	return own.left
}

// affords reports whether the free part and the allowance suffice for a cost.
func (t *tenantBudget) affords(cost int) bool { return !t.drawn || cost <= t.free+t.stock }

// pay deducts the cost of a rule's expressions from the tab, and the part of it and of its writes that is not free from
// the allowance of the tenant.
func (t *tenancy) pay(of *tenantBudget, cost, writes int) {
	of.left -= cost
	cost += writes * roundsToWrite
	free := min(cost, of.free)
	of.free -= free
	beyond := cost - free
	if !of.drawn || beyond == 0 {
		return
	}
	of.stock -= beyond
	t.allowances.draw(of.tenant, beyond)
}

// tenantRefusal has the rules of one tenant that an event was refused for without a fault of the event: their allowance is
// used up, or they are halted. They are refused together: a dead letter for each would cost as much as their effects.
type tenantRefusal struct {
	tenant
	why   error
	rules []string
	first error // of the first rule
}

// refuse refuses the event for a rule of a tenant; err wraps or equals why.
func (t *tenancy) refuse(whose tenant, rule string, why, err error) {
	for i := range t.refusals {
		if known := &t.refusals[i]; known.tenant == whose && known.why == why { //nolint:errorlint // it is a constant
			known.rules = append(known.rules, rule)
			return
		}
	}
	t.refusals = append(t.refusals, tenantRefusal{whose, why, []string{rule}, err})
}

// isUsedUp reports whether rules were refused because an allowance is used up.
func (t *tenancy) isUsedUp() bool {
	return slices.ContainsFunc(t.refusals, func(a tenantRefusal) bool { return a.why == errUsedUp }) //nolint:errorlint // the same
}

// refusal returns the refusal of one rule, or of several.
func (a tenantRefusal) refusal() futurejobs.Refusal {
	if len(a.rules) == 1 {
		return futurejobs.Refusal{Rule: a.rules[0], Reason: a.first.Error()}
	}
	return futurejobs.Refusal{Rule: a.prefix + futurejobs.Several, Rules: a.rules, Reason: a.why.Error()}
}
