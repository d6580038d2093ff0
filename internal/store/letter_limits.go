package store

import (
	"time"
)

// LetterLimits bounds the dead letters that a node writes in a period. Further refused events are counted in summaries,
// one for each rule, stream and minute. Letters beyond the bytes are written without headers and body.
type LetterLimits struct {
	Letters LetterShares  // in dead letters
	Bytes   LetterShares  // of their headers and bodies, in bytes
	Period  time.Duration // in which the limits hold
}

// LetterShares is the capacity of a period, and how rules and tenants share it.
type LetterShares struct {
	Total   int64 // of all rules, without the reserves
	Tenants int64 // of the rules of all tenants, as a part of Total; the rest is left to rules without a tenant
	Tenant  int64 // of the rules of one tenant
	Reserve int64 // of one tenant, as a part of Tenant: it is there whatever other rules have used

	Rule       int64 // of one rule without a tenant
	TenantRule int64 // of one rule of a tenant
}

// DefaultLetterLimits are the limits of a node. They follow from DefaultLetterCaps: what is written beyond the caps of
// a rule would be deleted within a minute. Tenants together take half, and one tenant a tenth of their letters or a
// quarter of their bytes.
var DefaultLetterLimits = LetterLimits{
	Letters: LetterShares{Total: 200_000, Tenants: 100_000, Tenant: 10_000, Reserve: 1_000, Rule: 20_000, TenantRule: 5_000},
	Bytes:   LetterShares{Total: 512 << 20, Tenants: 256 << 20, Tenant: 64 << 20, Reserve: 4 << 20, Rule: 64 << 20, TenantRule: 32 << 20},
	Period:  time.Minute, // the interval at which the caps delete what is beyond them
}

// letterPool is the use of one kind of capacity.
type letterPool struct {
	all     int64 // of Total
	shared  int64 // of Tenants
	tenants map[string]int64
	rules   map[string]int64
}

func newLetterPool() letterPool {
	return letterPool{tenants: make(map[string]int64), rules: make(map[string]int64)}
}

// fits reports whether a rule of a tenant may use n more; an empty tenant: none.
func (p *letterPool) fits(s LetterShares, rule, tenant string, n int64) bool {
	if n == 0 {
		return true
	}
	draws, used := p.draws(s, tenant, n), p.rules[rule]+n
	if tenant == "" {
		return used <= s.Rule && p.all+draws <= s.Total
	}
	return used <= s.TenantRule && p.tenants[tenant]+n <= s.Tenant && p.shared+draws <= s.Tenants && p.all+draws <= s.Total
}

// add adds a use, or removes one if n is negative.
func (p *letterPool) add(s LetterShares, rule, tenant string, n int64) {
	draws := p.draws(s, tenant, n)
	p.all, p.rules[rule] = p.all+draws, p.rules[rule]+n
	if tenant != "" {
		p.shared, p.tenants[tenant] = p.shared+draws, p.tenants[tenant]+n
	}
}

// draws returns the part of a use that is beyond the tenant's reserve.
func (p *letterPool) draws(s LetterShares, tenant string, n int64) int64 {
	if tenant == "" {
		return n
	}
	own := p.tenants[tenant]
	return max(own+n-s.Reserve, 0) - max(own-s.Reserve, 0)
}
