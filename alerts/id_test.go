package alerts_test

import (
	"bytes"
	"testing"
	"time"

	"github.com/google/uuid"

	"deadman/alerts"
)

func TestIDsOfSlotSortByTheirJobs(t *testing.T) {
	slot := time.Date(2026, 11, 22, 12, 0, 0, 0, time.UTC)
	var before alerts.ID
	for _, job := range []int64{1, 2, 255, 256, 1 << 31, 1<<32 - 1} {
		d := alerts.Decision{JobID: job, CreatedAt: slot, Check: 1, Status: alerts.Firing, At: slot}
		id := d.ID()
		if id.Version() != 8 || id.Variant() != uuid.RFC4122 {
			t.Errorf("job %d: %s is of version %d and variant %s", job, id, id.Version(), id.Variant())
		}
		if bytes.Compare(before[:], id[:]) >= 0 {
			t.Errorf("job %d: %s comes before %s of a job that began earlier", job, id, before)
		}
		if !alerts.TimeOf(id).Equal(slot) {
			t.Errorf("job %d: time of the id is %s", job, alerts.TimeOf(id))
		}
		before = id
	}
}

func TestIDsOfSlotSortByEventsOfTheirJobs(t *testing.T) {
	slot := time.Date(2026, 11, 22, 12, 0, 0, 0, time.UTC)
	hour := slot.Truncate(1 << 20 * 1024 * time.Microsecond) // start of the current age period
	var before alerts.ID
	for i, age := range []time.Duration{0, 2 * time.Millisecond, time.Second, 10 * time.Minute} {
		origin := alerts.OriginOf(hour.Add(age), uint64(4095+i))
		id := alerts.Decision{Origin: origin, JobID: int64(100 - i), Status: alerts.Firing, At: slot}.ID()
		if id.Version() != 8 || id.Variant() != uuid.RFC4122 || !alerts.TimeOf(id).Equal(slot) {
			t.Errorf("%s has version %d, variant %s and time %s", id, id.Version(), id.Variant(), alerts.TimeOf(id))
		}
		if !origin.At().Equal(hour.Add(age)) {
			t.Errorf("the origin at %s is of an event at %s", hour.Add(age), origin.At())
		}
		if bytes.Compare(before[:], id[:]) >= 0 {
			t.Errorf("%s: %s comes before %s of an event that came earlier", age, id, before)
		}
		before = id
	}
}

func TestDecisionAboutEventsJobIsKnownByEvent(t *testing.T) {
	slot := time.Date(2026, 11, 22, 12, 0, 0, 0, time.UTC)
	one := alerts.Decision{
		Origin: alerts.OriginOf(slot.Add(-time.Hour), 17), RuleID: 3, Rule: "late", Key: "7",
		JobID: 7, CreatedAt: slot, Check: 1, Status: alerts.Firing, StepIndex: 1, At: slot,
	}
	for name, change := range map[string]func(d *alerts.Decision){
		"job":     func(d *alerts.Decision) { d.JobID += 1000 },
		"created": func(d *alerts.Decision) { d.CreatedAt = d.CreatedAt.Add(time.Hour) },
		"check":   func(d *alerts.Decision) { d.Check++ },
	} {
		other := one
		change(&other)
		if other.ID() != one.ID() {
			t.Errorf("with another %s the id is another", name)
		}
	}
	idsDiffer(t, one, map[string]func(d *alerts.Decision){
		"stream's time": func(d *alerts.Decision) { d.Origin += 1 << 12 },
		"sequence":      func(d *alerts.Decision) { d.Origin++ },
		"rule id":       func(d *alerts.Decision) { d.RuleID++ },
		"rule":          func(d *alerts.Decision) { d.Rule = "later" },
		"key":           func(d *alerts.Decision) { d.Key = "8" },
		"status":        func(d *alerts.Decision) { d.Status = alerts.GaveUp },
		"step":          func(d *alerts.Decision) { d.StepIndex++ },
		"place":         func(d *alerts.Decision) { d.Place++ },
		"at":            func(d *alerts.Decision) { d.At = d.At.Add(time.Millisecond) },
	})
	one.Status = alerts.Undetermined
	other := one
	if other.Check++; other.ID() == one.ID() {
		t.Error("two checks that could not find out have one id")
	}
}

// idsDiffer checks that each change of a decision changes the id.
func idsDiffer(t *testing.T, one alerts.Decision, changes map[string]func(d *alerts.Decision)) {
	t.Helper()
	for name, change := range changes {
		other := one
		change(&other)
		if other.ID() == one.ID() {
			t.Errorf("with another %s the id is the same", name)
		}
	}
}

func TestEachDecisionHasIDOfItsOwn(t *testing.T) {
	slot := time.Date(2026, 11, 22, 12, 0, 0, 0, time.UTC)
	one := alerts.Decision{JobID: 7, CreatedAt: slot, Check: 1, Status: alerts.Firing, StepIndex: 1, At: slot}
	if again := one; again.ID() != one.ID() {
		t.Error("one decision has two ids")
	}
	idsDiffer(t, one, map[string]func(d *alerts.Decision){
		"job":     func(d *alerts.Decision) { d.JobID += 1 << 32 },
		"created": func(d *alerts.Decision) { d.CreatedAt = d.CreatedAt.Add(time.Microsecond) },
		"check":   func(d *alerts.Decision) { d.Check++ },
		"status":  func(d *alerts.Decision) { d.Status = alerts.GaveUp },
		"step":    func(d *alerts.Decision) { d.StepIndex++ },
		"place":   func(d *alerts.Decision) { d.Place++ },
		"at":      func(d *alerts.Decision) { d.At = d.At.Add(time.Millisecond) },
	})
}
