package store

import (
	"fmt"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	futurejobs "deadman/future_jobs"
)

// hold returns the capacity of a batch of rules of one tenant; an empty tenant: none.
func (r *letterRoom) hold(tenant string) *letterHold {
	return &letterHold{room: r, tenantOf: func(string) string { return tenant }}
}

// refusals returns n letters of a rule with a body.
func refusals(rule string, body []byte, n int) []futurejobs.DeadLetter {
	letters := make([]futurejobs.DeadLetter, n)
	for i := range letters {
		letters[i] = futurejobs.DeadLetter{Rule: rule, Event: futurejobs.Event{Stream: "S", Seq: uint64(i + 1), Data: body}}
	}
	return letters
}

// TestDeadLetterQuotaOfBodies checks that the capacity for bodies is by rule, by tenant, of all tenants and in total, until
// the next period, and that the passed letters stay unchanged.
func TestDeadLetterQuotaOfBodies(t *testing.T) {
	const mib = 1 << 20
	r := letterRoom{limits: DefaultLetterLimits}
	r.limits.Period = time.Hour
	body := make([]byte, mib)
	write := func(rule, tenant string, n int) (whole int) {
		letters := refusals(rule, body, n)
		for i, l := range r.hold(tenant).keep(letters) {
			switch {
			case len(letters[i].Event.Data) != mib:
				t.Fatal("the letter of the caller was changed")
			case l.Event.Data != nil:
				whole++
			case l.Size != mib:
				t.Fatalf("a letter without a body has a size of %d", l.Size)
			}
		}
		return whole
	}
	got := map[string]int{"a rule": write("loud", "", 100), "a rule of a tenant": write("acme-0", "acme-", 100)}
	for tenant := range 6 {
		for i := range 10 {
			got["the tenants"] += write(fmt.Sprintf("t%d-%d", tenant, i), fmt.Sprintf("t%d-", tenant), 30)
		}
	}
	got["another rule of the tenant"] = write("acme-1", "acme-", 5)
	got["a tenant that used little"] = write("late-0", "late-", 30)
	for i := range 20 {
		got["all"] += write(fmt.Sprintf("other-%d", i), "", 40)
	}
	got["nothing left"] = write("late", "", 1)
	got["a tenant's reserve"] = write("last-0", "last-", 10)
	large := futurejobs.DeadLetter{Rule: "late", Event: futurejobs.Event{Header: map[string][]string{"ce-x": {string(body)}}, ID: "x"}}
	if l := r.hold("").keep([]futurejobs.DeadLetter{large})[0]; l.Event.Header != nil || l.Event.ID != "" || l.Size == 0 {
		t.Error("headers or an id are written without room, or the letter seems to be whole")
	}
	r.until = time.Now().Add(-time.Second)
	got["a period later"] = write("loud", "", 1)
	const reserves = 7 * 4 // of acme and of six tenants
	want := map[string]int{
		"a rule": 64, "a rule of a tenant": 32, "the tenants": 256 + reserves - 32, "another rule of the tenant": 0, "a tenant that used little": 4,
		"all": 512 - 64 - 256, "nothing left": 0, "a tenant's reserve": 4, "a period later": 1,
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Error(diff)
	}
}

// TestDeadLetterQuotaOfRows checks that the capacity for letters is by rule, by tenant, of all tenants and in total, and
// that the others are summarized.
func TestDeadLetterQuotaOfRows(t *testing.T) {
	r := letterRoom{limits: LetterLimits{
		Letters: LetterShares{Total: 100, Tenants: 40, Tenant: 20, Reserve: 3, Rule: 30, TenantRule: 12},
		Bytes:   DefaultLetterLimits.Bytes,
		Period:  time.Hour,
	}}
	write := func(rule, tenant string, n int) (own int) {
		kept := r.hold(tenant).keep(refusals(rule, []byte("x"), n))
		for own < len(kept) && kept[own].Summarized == 0 {
			own++
		}
		var beyond []futurejobs.DeadLetter
		if own < n {
			beyond = []futurejobs.DeadLetter{{
				Rule: rule, Event: futurejobs.Event{Stream: "S", Seq: uint64(own + 1)}, Size: 1, Summarized: int64(n - own), LastSeq: uint64(n),
			}}
		}
		if diff := cmp.Diff(append(refusals(rule, []byte("x"), own), beyond...), kept); diff != "" {
			t.Errorf("letters of %s (-want +got):\n%s", rule, diff)
		}
		return own
	}
	var got []string
	for _, c := range []struct {
		rule, tenant string
		n, want      int
	}{
		{"a-1", "a-", 50, 12}, // of one rule
		{"a-2", "a-", 50, 8},  // of the tenant
		{"a-3", "a-", 1, 0},
		{"b-1", "b-", 50, 12},
		{"b-2", "b-", 50, 8},
		{"c-1", "c-", 50, 9}, // what the tenants share, and its reserve
		{"c-2", "c-", 50, 0},
		{"d-1", "d-", 50, 3}, // its reserve
		{"", "", 50, 30},
		{"r", "", 50, 30},
		{"q", "", 1, 0}, // all
		{"e-1", "e-", 2, 2},
	} {
		if n := write(c.rule, c.tenant, c.n); n != c.want {
			got = append(got, fmt.Sprintf("%q: %d letters, want %d", c.rule, n, c.want))
		}
	}
	if len(got) > 0 {
		t.Error(got)
	}
}

// TestDeadLetterQuotaIsReleased checks that a batch that was not committed frees what it took, and only that, and nothing in
// the next period.
func TestDeadLetterQuotaIsReleased(t *testing.T) {
	r := letterRoom{limits: LetterLimits{
		Letters: LetterShares{Total: 10, Tenants: 6, Tenant: 5, Reserve: 2, Rule: 10, TenantRule: 5},
		Bytes:   LetterShares{Total: 10, Tenants: 6, Tenant: 5, Reserve: 2, Rule: 10, TenantRule: 5},
		Period:  time.Hour,
	}}
	used := func() string {
		return fmt.Sprint(r.letters.all, r.letters.shared, r.letters.tenants["a-"], r.letters.rules["a-1"], r.bytes.all, r.bytes.shared, r.bytes.tenants["a-"], r.bytes.rules["a-1"])
	}
	r.hold("a-").keep(refusals("a-1", []byte("x"), 1))
	before := used()
	failed := r.hold("a-")
	failed.keep(refusals("a-1", []byte("x"), 9))
	if got := used(); got != "3 3 5 5 3 3 5 5" {
		t.Errorf("used: %s", got)
	}
	failed.giveBack()
	if got := used(); got != before {
		t.Errorf("used after it was given back: %s, want %s", got, before)
	}
	failed.giveBack()
	if got := used(); got != before {
		t.Errorf("used after it was given back twice: %s, want %s", got, before)
	}
	late := r.hold("a-")
	late.keep(refusals("a-1", []byte("x"), 3))
	r.until = time.Now().Add(-time.Second)
	r.hold("").keep(refusals("other", nil, 1))
	late.giveBack()
	if got := used(); got != "1 0 0 0 0 0 0 0" {
		t.Errorf("used in the next period: %s", got)
	}
}
