package rules

import (
	"sync/atomic"
	"time"

	futurejobs "deadman/future_jobs"
)

// The free part of each check, in rounds: leastFreeCheck, and one for each bytesForFreeCheck bytes that its job has. An
// ordinary condition costs less, also on a large body.
const (
	leastFreeCheck    = 1000
	bytesForFreeCheck = 32
)

// checkCosts has the allowances of tenants for checks and ticks.
type checkCosts struct {
	*allowances
	prefixOf func(rule string) string
}

// checkAllowance is the allowance for checks and ticks that one version of a rule draws from.
type checkAllowance struct {
	checkCosts
	rule, token string
	spent       atomic.Int64
}

var _ futurejobs.Allowance = (*checkAllowance)(nil)

// checkAllowance returns the allowance of a version of a rule; nil: its checks are not bounded over time.
func (o environment) checkAllowance(of RuleVersion) *checkAllowance {
	if of.Bounds == nil || o.checks == nil {
		return nil
	}
	return &checkAllowance{checkCosts: *o.checks, rule: of.Name, token: of.Bounds.Token}
}

func (a *checkAllowance) owner() tenant { return tenantOf(a.prefixOf, a.rule, a.token) }

// Tenant implements futurejobs.Allowance.
func (a *checkAllowance) Tenant() string {
	of := a.owner()
	if of.prefix == "" {
		return "token " + of.token
	}
	return of.prefix + futurejobs.Several
}

// IsUsedUp implements futurejobs.Allowance.
func (a *checkAllowance) IsUsedUp(now time.Time) bool {
	left, _ := a.left(a.owner(), now)
	return left == 0
}

// HasRecovered implements futurejobs.Allowance: half of a reserve is there, which is more than most checks cost.
func (a *checkAllowance) HasRecovered(now time.Time) bool {
	left, _ := a.left(a.owner(), now)
	return left >= tenantReserve/2
}

// RecoversIn implements futurejobs.Allowance.
func (a *checkAllowance) RecoversIn(now time.Time) time.Duration {
	return a.recoversIn(a.owner(), tenantReserve/2, now)
}

// Spent implements futurejobs.Allowance.
func (a *checkAllowance) Spent() int64 { return a.spent.Load() }

// pay draws the cost of a check of a job with the given bytes, as far as it is not free.
func (a *checkAllowance) pay(cost, bytes int) {
	a.spent.Add(int64(cost))
	a.draw(a.owner(), cost-leastFreeCheck-bytes/bytesForFreeCheck)
}
