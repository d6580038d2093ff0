package futurejobs

import (
	"testing"
	"time"

	"deadman/alerts"
	"deadman/checks"
)

// A job that is due is not restarted silently: it is checked first, or raises an alert.
func TestDueJobIsCheckedBeforeItRestarts(t *testing.T) {
	rule, pending := waiting()
	unsaid := func(Job) alerts.Draft { return alerts.Draft{Status: alerts.Expired, Text: "checked too late"} }
	anew := one(rule, Start{Job: Job{Version: 1, Since: noon, FirstCheckAt: noon.Add(time.Hour)}, Restart: true, ExpiredAlert: unsaid})
	due := pending[anew.Ref].NextCheckAt
	for _, now := range []time.Time{due.Add(-time.Second), due} {
		isDue := now.Equal(due)
		if got := RestartsDueJob([]Effect{anew}, FoldInput{Pending: pending}, now); got != isDue {
			t.Errorf("unlooked %s before it is due: %v", due.Sub(now), got)
		}
		net := folded([]Effect{anew}, pending, now)
		outcome, said := checks.Restarted, 0
		if isDue {
			outcome, said = checks.Expired, 1
		}
		if net.End[0].Outcome != outcome || len(net.End[0].Alerts) != said || len(net.Create) != 1 {
			t.Errorf("%s before it is due: %+v", due.Sub(now), net)
		}
	}
	if RestartsDueJob([]Effect{one(rule, Start{}), one(rule, End{})}, FoldInput{Pending: pending}, due) {
		t.Error("what begins nothing anew waits for a look")
	}
}
