package server

import (
	"testing"
	"time"

	"deadman/alerts"
)

// A missing table for a later day is tolerated; tomorrow's table, in the evening, is not.
func TestMissingHistoryTableIsAlertedOneEveningBefore(t *testing.T) {
	tomorrow := time.Date(2026, 3, 2, 0, 0, 0, 0, time.UTC)
	for _, c := range []struct {
		day, now time.Time
		want     alerts.Status
	}{
		{time.Time{}, tomorrow.Add(-time.Hour), alerts.Resolved},
		{tomorrow, tomorrow.Add(-7 * time.Hour), alerts.Resolved},
		{tomorrow, tomorrow.Add(-5 * time.Hour), alerts.Firing},
		{tomorrow.AddDate(0, 0, 1), tomorrow.Add(-time.Hour), alerts.Resolved},
	} {
		if r := historyRemark(c.day, c.now); r.Status != c.want || r.Text == "" {
			t.Errorf("no table of %s, at %s: %s %q, want %s", c.day, c.now, r.Status, r.Text, c.want)
		}
	}
}
