package futurejobs_test

import (
	"context"
	"fmt"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"deadman/checks"
	futurejobs "deadman/future_jobs"
)

// testAllowance is the allowance of a tenant, in microseconds of virtual time that its checks take. It grows by a fifth of the
// time, up to its size.
type testAllowance struct {
	tenant string
	size   int64

	mu    sync.Mutex
	owed  int64
	spent int64
	at    time.Time
}

func (p *testAllowance) Tenant() string { return p.tenant }

func (p *testAllowance) left(now time.Time) int64 {
	p.mu.Lock()
	defer p.mu.Unlock()
	if grown := now.Sub(p.at).Microseconds() / 5; !p.at.IsZero() && grown > 0 {
		p.owed = max(0, p.owed-grown)
	}
	p.at = now
	return p.size - p.owed
}

func (p *testAllowance) IsUsedUp(now time.Time) bool     { return p.left(now) <= 0 }
func (p *testAllowance) HasRecovered(now time.Time) bool { return p.left(now) >= min(p.size, 250_000) }

func (p *testAllowance) RecoversIn(now time.Time) time.Duration {
	return time.Duration(max(0, min(p.size, 250_000)-p.left(now))) * 5 * time.Microsecond
}

func (p *testAllowance) Spent() int64 {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.spent
}

// costlyHandler is an inline handler with an allowance, whose checks take a while.
type costlyHandler struct {
	*testAllowance
	takes time.Duration

	mu       sync.Mutex
	requests map[string]int // by key
}

func newCostlyHandler(tenant string, size, takes time.Duration) *costlyHandler {
	return &costlyHandler{testAllowance: &testAllowance{tenant: tenant, size: size.Microseconds()}, takes: takes, requests: map[string]int{}}
}

func (x *costlyHandler) Inline() {}

func (x *costlyHandler) Check(_ context.Context, c checks.Check) (checks.Answer, error) {
	time.Sleep(x.takes)
	x.testAllowance.mu.Lock()
	x.spent, x.owed = x.spent+x.takes.Microseconds(), x.owed+x.takes.Microseconds()
	x.testAllowance.mu.Unlock()
	x.mu.Lock()
	defer x.mu.Unlock()
	x.requests[c.Key]++
	return checks.Answer{Outcome: checks.Exhausted}, nil
}

// Expensive checks of some tenants that are due at once delay the checks of others by a turn each. Beyond their
// allowance they are put off: each is decided later, once, and counts as one check.
func TestVirtualTenantsAreServedInTurn(t *testing.T) {
	const hostile, jobs = 3, 150
	synctest.Test(t, func(t *testing.T) {
		all := map[string]checks.Handler{"good": newCostlyHandler("good-", time.Second, time.Microsecond)}
		documents := []string{fmt.Sprintf(noResolve, "good", "good"), fmt.Sprintf(noResolve, "plain", "plain")}
		for i := range hostile {
			name := fmt.Sprintf("bad%d", i)
			all[name] = newCostlyHandler(name+"-", 2*time.Second, 100*time.Millisecond)
			documents = append(documents, fmt.Sprintf(noResolve, name, name))
		}
		e := startEngine(t, all, documents...)
		startedAt := time.Now()
		for i := range hostile {
			e.publish(fmt.Sprintf("bad%d.created", i), keys(jobs)...)
		}
		e.publish("good.created", keys(jobs)...)
		e.publish("plain.created", keys(jobs)...)

		time.Sleep(35 * time.Second)
		if putOff := e.sweeper.PutOff(); len(putOff) != hostile || putOff[0].Rule != "bad0" || putOff[0].Since.Sub(startedAt) > 35*time.Second {
			t.Errorf("put off: %+v", putOff)
		}
		for _, h := range e.ended() {
			if late := h.EndedAt.Sub(h.FirstCheckAt); late > 2500*time.Millisecond && (h.Rule == "good" || h.Rule == "plain") {
				t.Errorf("%s/%s ended %s after its slot", h.Rule, h.Key, late)
			}
		}
		if lag, own := e.sweeper.Lag(), e.sweeper.OwnLag(); lag < time.Second || own > time.Second {
			t.Errorf("the lag is %s, of which %s is the node's own", lag, own)
		}
		time.Sleep(5 * time.Minute)
		counts := map[string]int{}
		ended, err := e.store.History(t.Context(), futurejobs.Filter{Limit: futurejobs.MaxLimit})
		if err != nil {
			t.Fatal(err)
		}
		for page := ended; ; {
			for _, h := range page.Items {
				if counts[h.Rule]++; h.Outcome != checks.Exhausted || h.CheckCount != 1 {
					t.Errorf("%s/%s ended as %s after %d checks", h.Rule, h.Key, h.Outcome, h.CheckCount)
				}
			}
			if page.Next == "" {
				break
			}
			if page, err = e.store.History(t.Context(), futurejobs.Filter{Limit: futurejobs.MaxLimit, Cursor: page.Next}); err != nil {
				t.Fatal(err)
			}
		}
		for name, h := range all {
			if counts[name] != jobs {
				t.Errorf("%d of %d jobs of %s ended", counts[name], jobs, name)
			}
			for key, n := range h.(*costlyHandler).requests {
				if n != 1 {
					t.Errorf("%s/%s was checked %d times", name, key, n)
				}
			}
		}
		if putOff := e.sweeper.PutOff(); len(putOff) != 0 {
			t.Errorf("put off at the end: %+v", putOff)
		}
	})
}
