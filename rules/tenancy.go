package rules

import (
	"fmt"
	"sync"
	"time"
)

// The cost limits, in rounds, of the rules of one tenant together. They are rules with bounds.
const (
	// tenantShare is how many budgets of a rule they have on one event.
	tenantShare = 8
	// leastFree is the free part of each event, plus one for each bytesForFree bytes of it, regardless of earlier
	// costs. A hundred ordinary rules cost less: see TestOrdinaryRulesAreFree.
	leastFree    = 10_000
	bytesForFree = 4
	// tenantGrowth is by how much the allowance of a tenant on the node grows in a second: about 15 % of a core. The
	// cost beyond the free part is drawn from it. A full allowance pays for five events of the largest size; after
	// that the rule is paused.
	tenantGrowth    = 1_500_000
	tenantAllowance = 30 * tenantGrowth
	// allGrowth is by how much the allowances of all tenants grow together, in a second.
	allGrowth = 2 * tenantGrowth
)

var (
	errTenantSpent = fmt.Errorf("the rules of this rule's tenant take too long together on one event: beside the others, %w", errSpent)
	errUsedUp      = fmt.Errorf("the rules of this rule's tenant used up what they may cost on this node: "+
		"beyond %d rounds, and one for each %d bytes, an event is paid from an allowance that grows by %d rounds a second at the most; "+
		"make the expressions simpler, then retry the dead letter: %w",
		leastFree, bytesForFree, tenantGrowth, errSpent)
)

// tenant is the owner of a rule with bounds: a prefix of names, or a token without a prefix.
type tenant struct{ prefix, token string }

// tenancy holds the cost limits of the rules of tenants on one event.
type tenancy struct {
	of         func(rule string) string // returns the prefix of a rule; nil: none is known
	allowances *allowances              // nil: costs are not drawn, and no rule is refused
	now        func() time.Time
	refused    bool // rules were refused because an allowance is used up
	tabs       map[tenant]*tab
}

// tab is the remaining cost limit of one tenant's rules on the event.
type tab struct {
	tenant
	left  int // of their budgets
	free  int // of the free part
	stock int // of the tenant's allowance
	drawn bool
}

// tab returns the remaining limit of a rule's tenant on an event with the given bytes, if the rule has a budget.
func (t *tenancy) tab(of RuleVersion, budget, bytes int) *tab {
	whose := tenant{token: of.Bounds.Token}
	if t.of != nil {
		if prefix := t.of(of.Name); prefix != "" {
			whose = tenant{prefix: prefix}
		}
	}
	known := t.tabs[whose]
	if known != nil {
		return known
	}
	known = &tab{tenant: whose, left: tenantShare * budget}
	if t.allowances != nil {
		known.drawn, known.free, known.stock = true, leastFree+bytes/bytesForFree, t.allowances.left(whose, t.now())
	}
	if t.tabs == nil {
		t.tabs = make(map[tenant]*tab)
	}
	t.tabs[whose] = known
	return known
}

// lower lowers the budget of a rule to the remaining limit of its tenant, and returns it.
func (t *tab) lower(own *budget) int {
	if t.left < own.left {
		own.left, own.spent = t.left, errTenantSpent
	}
	if left := t.free + t.stock; t.drawn && left < own.left {
		own.left, own.spent = left, errUsedUp
	}
	return own.left
}

// pay deducts the cost of a rule from the tab, and the part that is not free from the allowance of the tenant.
func (t *tenancy) pay(of *tab, cost int) {
	of.left -= cost
	free := min(cost, of.free)
	of.free -= free
	beyond := cost - free
	if !of.drawn || beyond == 0 {
		return
	}
	of.stock -= beyond
	t.allowances.draw(of.tenant, beyond)
}

// allowances hold the amounts that the rules of tenants may cost a node beyond the free part. They grow up to their
// size. If many are not full, each grows more slowly. It is safe for concurrent use.
type allowances struct {
	mu    sync.Mutex
	drawn map[tenant]int // from the allowances that are not full
	at    time.Time      // when they grew last
}

// The shortest and the longest time that allowances grow by at once: long enough to give many rounds, and short enough
// not to overflow an int.
const (
	leastGrowing = time.Millisecond
	mostGrowing  = time.Hour
)

// left returns the rest of an allowance at now; 0 if it was overdrawn.
func (a *allowances) left(of tenant, now time.Time) int {
	a.mu.Lock()
	defer a.mu.Unlock()
	a.grow(now)
	return max(0, tenantAllowance-a.drawn[of])
}

// draw takes rounds from an allowance. Concurrent events may overdraw it.
func (a *allowances) draw(of tenant, rounds int) {
	a.mu.Lock()
	defer a.mu.Unlock()
	if a.drawn == nil {
		a.drawn = make(map[tenant]int)
	}
	a.drawn[of] += rounds
}

func (a *allowances) grow(now time.Time) {
	passed := now.Sub(a.at)
	switch {
	case len(a.drawn) == 0 || passed < 0: // the clock was put back
		a.at = now
		return
	case passed < leastGrowing:
		return
	}
	a.at = now
	growth := int(min(passed, mostGrowing).Microseconds()) * min(tenantGrowth, allGrowth/len(a.drawn)) / 1e6
	for of, drawn := range a.drawn {
		if drawn -= growth; drawn > 0 {
			a.drawn[of] = drawn
		} else {
			delete(a.drawn, of)
		}
	}
}
