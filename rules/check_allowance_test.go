package rules

import (
	"encoding/json"
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"

	"deadman/checks"
	futurejobs "deadman/future_jobs"
)

// holdRule is a rule with a condition at each check.
const holdRule = `
name: holding
entity: order
trigger: {event: orders.changed, key: event.id}
while: 'count(event.list, # == 1) < 3 and count(event.list, # == 2) < 3'
escalate: [{after: 3h}]
`

// check returns the check of a rule's job with an event's body.
func (ts *tenantCatalog) check(name string, data []byte) (*futurejobs.Rule, error) {
	ts.Helper()
	v := ts.current.Load().names[name].versions[0]
	r, err := ts.Rule(ts.Context(), v.saved.RuleID, v.saved.Version)
	if err != nil {
		ts.Fatal(err)
	}
	_, err = r.Handler.Check(ts.Context(), checks.Check{Key: "1", Since: minuteOf(0), Slot: minuteOf(30), Event: json.RawMessage(data), State: data})
	return r, err
}

// A check of a tenant's rule draws from an allowance of its own kind beyond its free part, and a check of a rule
// without bounds from none.
func TestChecksDrawFromTheirOwnAllowance(t *testing.T) {
	ts := newTenantCatalog(t)
	ts.add(holdRule, "acme", "acme")
	ts.add(holdRule, "plain", "")
	acme := tenant{token: "acme"}
	if r, err := ts.check("plain-0", largeEvent(t, 8_000, 10)); err != nil || r.Allowance != nil {
		t.Fatalf("%v, %v", r.Allowance, err)
	}
	if _, err := ts.check("acme-0", largeEvent(t, 8, 10)); err != nil {
		t.Fatal(err)
	}
	ts.checked.checkLeft(t, acme, ts.now, tenantAllowance)
	r, err := ts.check("acme-0", largeEvent(t, 8_000, 10))
	if err != nil {
		t.Fatal(err)
	}
	left, _ := ts.checked.left(acme, ts.now)
	if drawn := tenantAllowance - left; drawn < 10_000 || int64(drawn) > r.Allowance.Spent() || r.Allowance.Tenant() != "token acme" {
		t.Errorf("drawn %d, spent %d of %s", drawn, r.Allowance.Spent(), r.Allowance.Tenant())
	}
	if len(ts.Catalog.allowances.debts) != 0 || len(ts.dryAllowances.debts) != 0 {
		t.Error("drawn of events")
	}
	ts.checked.draw(acme, tenantAllowance)
	recovers := ts.now.Add(r.Allowance.RecoversIn(ts.now))
	for _, c := range []struct {
		after                  time.Duration
		isUsedUp, hasRecovered bool
	}{{0, true, false}, {100 * time.Millisecond, false, false}, {time.Second, false, true}} {
		now := ts.now.Add(c.after)
		if isUsedUp, hasRecovered := r.Allowance.IsUsedUp(now), r.Allowance.HasRecovered(now); isUsedUp != c.isUsedUp || hasRecovered != c.hasRecovered {
			t.Errorf("after %s used up %t, recovered %t", c.after, isUsedUp, hasRecovered)
		}
	}
	if in := recovers.Sub(ts.now); in < 300*time.Millisecond || in > time.Second || r.Allowance.RecoversIn(recovers.Add(time.Minute)) != 0 {
		t.Errorf("it recovers in %s", in)
	}
}

// A hundred thousand ordinary checks at once are free, on small bodies and large ones.
func TestOrdinaryChecksAreFree(t *testing.T) {
	ts := newTenantCatalog(t)
	ts.add(`
name: ordinary
entity: order
trigger: {event: orders.changed, key: event.id}
while: 'state.total > 3 and state.status in ["OPEN", "PAID"] and state.customer.kind == "SHOP" and any(state.notes, # == "c")'
escalate: [{after: 'hours(event.total)', text: '{{event.id}} of {{state.customer.kind}} is {{state.status}}'}]
labels: {country: '{{event.country}}'}
`, "acme", "acme")
	for _, bytes := range []int{0, 1_000, 10_000, 100_000, 250_000} {
		if _, err := ts.check("acme-0", orderEvent(bytes)); err != nil {
			t.Fatal(err)
		}
		if len(ts.checked.debts) != 0 {
			t.Errorf("a check of %d bytes draws %+v", bytes, *ts.checked.debts[tenant{token: "acme"}])
		}
	}
}

// Ticks wait while the allowance of their tenant is used up, and draw from it.
func TestTicksDrawFromAllowanceOfChecks(t *testing.T) {
	ts := newTenantCatalog(t)
	keys, err := json.Marshal(func() (keys []string) {
		for i := range 1000 {
			keys = append(keys, fmt.Sprint("k", i))
		}
		return keys
	}())
	if err != nil {
		t.Fatal(err)
	}
	ts.add(fmt.Sprintf(`
name: ticking
entity: order
trigger: {schedule: "@every 1m", keys: %s}
escalate: [{after: 'hours(count(%[2]s, count(%[2]s, # > 3 and key != "x") > 3) > 3 ? 1 : 2)'}]
again: keep
`, keys, "["+strings.Repeat("1, ", 59)+"1]"), "acme", "acme")
	due := func() (futurejobs.DueTicks, error) {
		_, all := ts.Scheduled()
		d, _, err := all[0].Due(minuteOf(0), minuteOf(0).Add(90*time.Second))
		return d, err
	}
	acme := tenant{token: "acme"}
	d, err := due()
	if err != nil || len(d.Effects) == 0 || len(d.Alerts) != 1 {
		t.Fatalf("%d effects, %d remarks, %v", len(d.Effects), len(d.Alerts), err)
	}
	left, _ := ts.checked.left(acme, ts.now)
	if drawn := tenantAllowance - left; drawn < 100_000 || drawn > tenantShare*leastBudget*2 {
		t.Errorf("a tick draws %d", drawn)
	}
	ts.checked.draw(acme, tenantAllowance+2*90*tenantGrowth)
	if _, err := due(); !errors.Is(err, futurejobs.ErrPutOff) {
		t.Errorf("used up: %v", err)
	}
}
