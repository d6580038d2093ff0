package server

import (
	"testing"
	"time"
)

// Tests shorten these intervals. Without a setting they are those of the documentation.
func TestDefaultIntervals(t *testing.T) {
	t.Parallel()
	c := Config{}.WithDefaults()
	if c.quotasEvery != 5*time.Second || c.maintainEvery != time.Minute || c.overdueAfter != time.Minute || c.Lease != 15*time.Second || c.HeartbeatEvery != time.Minute {
		t.Errorf("quotas are read every %s, maintenance is every %s, jobs are overdue after %s, a lease lasts %s and heartbeats are sent every %s", c.quotasEvery, c.maintainEvery, c.overdueAfter, c.Lease, c.HeartbeatEvery)
	}
}
