package rules

import (
	"sync"
	"time"
)

// The sizes of the allowances on a node, in rounds. All tenants together draw at most commonAllowance at once, and each
// at most tenantReserve more: n tenants cause at most commonAllowance + n·tenantReserve rounds of work beyond the growth.
const (
	// tenantGrowth is by how much the allowance of a tenant on the node grows in a second: about 15 % of a core. The
	// cost beyond the free part is drawn from it. A full allowance pays for five events of the largest size; after
	// that the rule is paused.
	tenantGrowth    = 1_500_000
	tenantAllowance = 30 * tenantGrowth
	// tenantReserve is the part of a tenant's allowance that no other tenant can use up.
	tenantReserve = 1_000_000
	// allGrowth is by how much the allowances of all tenants grow together, in a second.
	allGrowth = 2 * tenantGrowth
	// commonAllowance is what all tenants together draw at the most beyond their reserves, before it grows.
	commonAllowance = tenantAllowance
)

// allowances hold the amounts that the rules of tenants may cost a node beyond the free part. They grow up to their
// size. If many are not full, each grows more slowly. It is safe for concurrent use.
type allowances struct {
	mu     sync.Mutex
	debts  map[tenant]*debt // of the tenants whose allowance is not full
	common int              // what tenants owe beyond their reserves
	at     time.Time        // when they grew last
}

// debt is what a tenant drew and its allowance has not grown by since.
type debt struct {
	drawn int
	over  int // the part that was drawn while nothing was left: refusals of quotas are known after the event was matched
}

// beyond returns the part of the debt that the reserve does not cover.
func (d *debt) beyond() int { return max(0, d.drawn-tenantReserve) }

// The shortest and the longest time that allowances grow by at once: long enough to give many rounds, and short enough
// not to overflow an int.
const (
	leastGrowing = time.Millisecond
	mostGrowing  = time.Hour
)

// left returns the rest of an allowance at now; 0 if it was overdrawn. isOverdrawn reports that more than a reserve was
// drawn while nothing was left.
func (a *allowances) left(of tenant, now time.Time) (rounds int, isOverdrawn bool) {
	a.mu.Lock()
	defer a.mu.Unlock()
	a.grow(now)
	d := a.debts[of]
	if d == nil {
		d = &debt{}
	}
	return a.leftOf(d), d.over > tenantReserve
}

// leftOf returns the rest of a reserve, and of the common allowance as far as the tenant may draw it.
func (a *allowances) leftOf(d *debt) int {
	shared := min(tenantAllowance-max(d.drawn, tenantReserve), commonAllowance-a.common)
	return max(0, tenantReserve-d.drawn) + max(0, shared)
}

// recoversIn returns the least time after now until so many rounds of an allowance are left. It is longer if other tenants
// draw meanwhile.
func (a *allowances) recoversIn(of tenant, rounds int, now time.Time) time.Duration {
	a.mu.Lock()
	defer a.mu.Unlock()
	a.grow(now)
	d := a.debts[of]
	if d == nil {
		return 0
	}
	own := d.drawn + rounds - tenantReserve // what must grow until the reserve has them
	missing := min(own, max(rounds-a.leftOf(d), d.drawn+rounds-tenantAllowance))
	return time.Duration(max(0, missing)) * time.Second / time.Duration(a.growth())
}

// growth returns by how much each allowance that is not full grows in a second. There is one.
func (a *allowances) growth() int { return min(tenantGrowth, allGrowth/len(a.debts)) }

// draw takes rounds from an allowance. Concurrent events may overdraw it.
func (a *allowances) draw(of tenant, rounds int) {
	if rounds <= 0 {
		return
	}
	a.mu.Lock()
	defer a.mu.Unlock()
	if a.debts == nil {
		a.debts = make(map[tenant]*debt)
	}
	d := a.debts[of]
	if d == nil {
		d = &debt{}
		a.debts[of] = d
	}
	d.over += max(0, rounds-a.leftOf(d))
	before := d.beyond()
	d.drawn += rounds
	a.common += d.beyond() - before
}

func (a *allowances) grow(now time.Time) {
	passed := now.Sub(a.at)
	switch {
	case len(a.debts) == 0 || passed < 0: // the clock was put back
		a.at = now
		return
	case passed < leastGrowing:
		return
	}
	a.at = now
	growth := int(min(passed, mostGrowing).Microseconds()) * a.growth() / 1e6
	for of, d := range a.debts {
		before := d.beyond()
		d.drawn, d.over = d.drawn-growth, max(0, d.over-growth)
		a.common += d.beyond() - before
		if d.drawn <= 0 {
			delete(a.debts, of)
		}
	}
}
