package rules_test

import (
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"

	"deadman/internal/access"
	"deadman/rules"
)

// large returns an event of a parcel with a text of the given number of KiB.
func large(id, kib int) string {
	return fmt.Sprintf(`{"id":%d,"text":%q}`, id, strings.Repeat("x", kib<<10))
}

// dryRun returns the changes of saving the rule with its past.
func (b *backfillFixture) dryRun() (rules.Change, error) {
	return b.Save(b.Context(), []byte(parcelRule), "", rules.SaveOptions{Version: rules.AnyVersion, Since: time.Now().Add(-time.Hour), DryRun: true})
}

// TestBackfillIsBoundedByBytes checks that a dry run holds at most 64 MiB of events of pending jobs: those of ended jobs do not
// count.
func TestBackfillIsBoundedByBytes(t *testing.T) {
	b := newBackfillFixture(t)
	const kib, jobs = 250, 200 // 49 MiB
	for i := range jobs {
		b.publish("parcels.sent", large(i, kib))
	}
	for i := range jobs {
		b.publish("parcels.arrived", fmt.Sprintf(`{"id":%d}`, i))
	}
	for i := range jobs {
		b.publish("parcels.sent", large(jobs+i, kib))
	}
	if c, err := b.dryRun(); err != nil || c.Backfilled != jobs {
		t.Fatalf("%d jobs, want %d: %v", c.Backfilled, jobs, err)
	}
	for i := range jobs / 2 {
		b.publish("parcels.sent", large(2*jobs+i, kib))
	}
	const want = "past events create jobs with more than 64 MiB of events and keys at a time; use a later since"
	if _, err := b.dryRun(); err == nil || !strings.Contains(err.Error(), want) {
		t.Errorf("%v, want %q", err, want)
	}
}

// TestBackfillBeyondQuotaOfBytesIsRefused checks that no rule is saved whose jobs the tenant's quota of bytes would refuse one by
// one.
func TestBackfillBeyondQuotaOfBytesIsRefused(t *testing.T) {
	b := newBackfillFixture(t)
	for i := range 3 {
		b.publish("parcels.sent", large(i+1, 10))
	}
	var quotas access.Quotas
	b.Quotas = &quotas
	for limit, isRefused := range map[int64]bool{25 << 10: true, 40 << 10: false} {
		quotas.Set([]access.Quota{{Prefix: "par", Set: map[access.Limited]int64{access.LimitJobBytes: limit}}}, 0)
		c, err := b.dryRun()
		if got := errors.Is(err, access.ErrQuota); got != isRefused || !isRefused && (err != nil || c.Backfilled != 3) {
			t.Errorf("%d bytes: %d jobs, %v", limit, c.Backfilled, err)
		}
		if isRefused && err != nil && !strings.Contains(err.Error(), "past events create 3 jobs with 3") {
			t.Errorf("%v does not have the number of bytes", err)
		}
	}
}
