package futurejobs

import (
	"testing"
	"time"

	"deadman/alerts"
	"deadman/checks"
)

// A job that is due is not restarted silently: it is checked first, or raises an alert.
func TestDueJobIsCheckedBeforeItRestarts(t *testing.T) {
	rule, pending := pendingState()
	expiredDraft := func(Job) alerts.Draft { return alerts.Draft{Status: alerts.Expired, Text: "checked too late"} }
	anew := effectOf(rule, Start{Job: Job{Version: 1, Since: noon, FirstCheckAt: noon.Add(time.Hour)}, Restart: true, ExpiredAlert: expiredDraft})
	due := pending[anew.Ref].NextCheckAt
	for _, now := range []time.Time{due.Add(-time.Second), due} {
		isDue := now.Equal(due)
		if got := RestartsDueJob([]Effect{anew}, FoldInput{Pending: pending}, now); got != isDue {
			t.Errorf("unlooked %s before it is due: %v", due.Sub(now), got)
		}
		net := foldEffects([]Effect{anew}, pending, now)
		outcome, unpublished := checks.Restarted, 0
		if isDue {
			outcome, unpublished = checks.Expired, 1
		}
		if net.End[0].Outcome != outcome || len(net.End[0].Alerts) != unpublished || len(net.Create) != 1 {
			t.Errorf("%s before it is due: %+v", due.Sub(now), net)
		}
	}
	if RestartsDueJob([]Effect{effectOf(rule, Start{}), effectOf(rule, End{})}, FoldInput{Pending: pending}, due) {
		t.Error("an event that begins no job waits for a check")
	}
}
