package rules

import (
	"fmt"
	"testing"
	"time"
)

// checkLeft checks what is left of an allowance.
func (a *allowances) checkLeft(t *testing.T, of tenant, now time.Time, want int) {
	t.Helper()
	if left, _ := a.left(of, now); left != want {
		t.Errorf("%v has %d, want %d", of, left, want)
	}
}

// An allowance grows up to its size, and with that of many others more slowly. Rounds drawn beyond it are paid back
// first.
func TestAllowancesGrow(t *testing.T) {
	var a allowances
	now := minuteOf(0)
	acme := tenant{prefix: "acme-"}
	has := func(of tenant, want int) {
		t.Helper()
		a.checkLeft(t, of, now, want)
	}
	has(acme, tenantAllowance)
	a.draw(acme, tenantAllowance+tenantGrowth)
	has(acme, 0)
	now = now.Add(time.Second)
	has(acme, 0)
	for range 10_000 {
		now = now.Add(100 * time.Microsecond)
		a.left(acme, now)
	}
	has(acme, tenantGrowth)
	now = now.Add(-time.Hour)
	has(acme, tenantGrowth)
	now = now.Add(time.Second)
	has(acme, 2*tenantGrowth)
	now = now.Add(1000 * time.Hour)
	has(acme, tenantAllowance)
	if len(a.debts) != 0 || a.common != 0 {
		t.Errorf("kept: %v, %d", a.debts, a.common)
	}
	for i := range 10 {
		a.draw(tenant{token: fmt.Sprint(i)}, tenantReserve)
	}
	now = now.Add(time.Second)
	for i := range 10 {
		has(tenant{token: fmt.Sprint(i)}, tenantAllowance-tenantReserve+allGrowth/10)
	}
	has(acme, tenantAllowance)
}

// All tenants together draw one full allowance and their reserves at once, however many they are, and each of them
// their part of the growth after that. A tenant that draws little is refused nothing for what the others drew.
func TestVirtualAllTenantsTogetherAreBounded(t *testing.T) {
	for _, hostile := range []int{1, 2, 5, 10, 100} {
		t.Run(fmt.Sprint(hostile), func(t *testing.T) {
			var a allowances
			began := minuteOf(0)
			innocent, total := tenant{prefix: "innocent-"}, 0
			little := allGrowth / (hostile + 1) * 9 / 10 // rounds a second
			for tick := range 20 * 200 {                 // twenty a second
				now := began.Add(time.Duration(tick) * 50 * time.Millisecond)
				for i := range hostile {
					of := tenant{token: fmt.Sprint(i)}
					left, _ := a.left(of, now)
					a.draw(of, left)
					total += left
				}
				bound := commonAllowance + hostile*tenantReserve + int(now.Sub(began).Milliseconds())*allGrowth/1000
				if total > bound {
					t.Fatalf("%d rounds within %s, at most %d", total, now.Sub(began), bound)
				}
				if tick%20 != 19 {
					continue
				}
				if left, _ := a.left(innocent, now); left < little {
					t.Fatalf("the innocent tenant has %d after %s, needs %d", left, now.Sub(began), little)
				}
				a.draw(innocent, little)
			}
			if least := commonAllowance + 150*allGrowth/2; total < least {
				t.Errorf("only %d rounds were drawn, of at least %d", total, least)
			}
		})
	}
}

// What was drawn while nothing was left takes the free part away, until it is paid back to a reserve.
func TestTenantInDebtHasNoFreePart(t *testing.T) {
	var a allowances
	now, acme := minuteOf(0), tenant{prefix: "acme-"}
	a.checkLeft(t, acme, now, tenantAllowance)
	a.draw(acme, tenantAllowance+tenantReserve)
	if _, isOverdrawn := a.left(acme, now); isOverdrawn {
		t.Error("overdrawn by a reserve")
	}
	a.draw(acme, tenantGrowth)
	for i, want := range []bool{true, false} {
		if _, isOverdrawn := a.left(acme, now.Add(time.Duration(i)*time.Second)); isOverdrawn != want {
			t.Errorf("overdrawn after %d s: %t", i, isOverdrawn)
		}
	}
}
