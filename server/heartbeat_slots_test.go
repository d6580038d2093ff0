package server_test

import (
	"fmt"
	"strings"
	"testing"
)

// Two heartbeats in one slot: the later one moves the second step to a later slot: 10:02 + 12m + 3m is 10:17.
func TestHeartbeatOfSameSlotPostponesLaterSteps(t *testing.T) {
	const rule = `name: device-silent
entity: device
trigger: {heartbeat: {event: devices.*.beat, key: wildcard(1), every: 10m, grace: 2m}}
escalate:
  - {after: 0s, step: overdue, severity: warning}
  - {after: 3m, step: page, severity: critical}
slot: 15m
`
	both := fmt.Sprint(playAlerts(t, rule, nil, readTimeline(t, `Mon 02 Mar 10:00  event    devices.a.beat {}
Mon 02 Mar 10:02  event    devices.a.beat {}
Mon 02 Mar 11:00  until    the end
`)))
	last := fmt.Sprint(playAlerts(t, rule, nil, readTimeline(t, `Mon 02 Mar 10:02  event    devices.a.beat {}
Mon 02 Mar 11:00  until    the end
`)))
	if both != last || !strings.Contains(both, "page") {
		t.Errorf("after two beats of a slot:\n%s\nafter the last of them alone:\n%s", both, last)
	}
}

// A run fails, and a concurrent run succeeds within the same slot.
func TestFailedRunIsAlertedAlthoughAnotherSucceeds(t *testing.T) {
	const rule = `name: backup-failed
entity: backup
trigger: {heartbeat: {event: backups.*, key: wildcard(1), kind: string(event.status), run: event.run, schedule: "0 2 * * *", grace: 1h}}
slot: 15m
`
	const begins = `Mon 02 Mar 02:10  event    backups.crm {"status": "success", "run": "r0"}
Tue 03 Mar 02:00  event    backups.crm {"status": "start", "run": "r1"}
Tue 03 Mar 02:01  event    backups.crm {"status": "start", "run": "r2"}
Tue 03 Mar 02:05  event    backups.crm {"status": "fail", "run": "r1"}
Tue 03 Mar 02:06  event    backups.crm {"status": "success", "run": "%s"}
Tue 03 Mar 02:50  until    the end
`
	for run, reported := range map[string]bool{"r2": true, "r1": false} {
		text := fmt.Sprint(playAlerts(t, rule, nil, readTimeline(t, fmt.Sprintf(begins, run))))
		if strings.Contains(text, "failed") != reported {
			t.Errorf("after the success of %s an alert reports the failure: want %v, heard\n%s", run, reported, text)
		}
	}
}
