package rules_test

import (
	"encoding/json"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	futurejobs "deadman/future_jobs"
	"deadman/rules"
)

// heartbeatDevice is one entity of a rule with a heartbeat, and its alerts. It is checked through the engine, without a store:
// the writes are kept here, and counted.
type heartbeatDevice struct {
	*testing.T
	rule     *rules.Rule
	ref      futurejobs.Ref
	job      *futurejobs.Job
	received []string
	writes   int
	ids      int64
}

func newDevice(t *testing.T, text string) *heartbeatDevice {
	return &heartbeatDevice{T: t, rule: compileRule(t, text)}
}

// at returns a time on the day of the tests.
func at(clock string) time.Time {
	t, err := time.Parse("2006-01-02 15:04:05", "2026-03-02 "+clock)
	if err != nil {
		panic(err)
	}
	return t
}

// heartbeat makes the checks that are due by the time of a heartbeat, and then processes the heartbeat.
func (d *heartbeatDevice) heartbeat(clock string, b rules.ReceivedHeartbeat) {
	d.Helper()
	b.Key, b.At = "pump-7", at(clock)
	if b.Kind == "" && b.Exit == nil {
		b.Kind = rules.Success
	}
	d.checkUntil(clock)
	d.lateHeartbeat(clock, b)
}

// lateHeartbeat processes a heartbeat at a time.
func (d *heartbeatDevice) lateHeartbeat(now string, b rules.ReceivedHeartbeat) {
	d.Helper()
	effect, err := d.rule.HeartbeatEffect(b, 1)
	if err != nil {
		d.Fatal(err)
	}
	d.apply(now, effect)
}

func (d *heartbeatDevice) apply(now string, effect futurejobs.Effect) {
	d.Helper()
	d.ref = effect.Ref
	known := futurejobs.FoldInput{Pending: map[futurejobs.Ref]futurejobs.Job{}}
	if d.job != nil {
		known.Pending[d.ref] = *d.job
	}
	net := futurejobs.Fold([]futurejobs.Effect{effect}, known, at(now))
	for _, e := range net.End {
		d.record(now, e)
		d.job = nil
	}
	for _, j := range writtenJobs(net) {
		if len(net.Create) > 0 {
			d.ids++
			j.ID = d.ids
		}
		d.job = &j
		d.writes++
	}
}

// checkUntil makes the checks that are due by a time.
func (d *heartbeatDevice) checkUntil(until string) {
	d.Helper()
	for d.job != nil && !d.job.NextCheckAt.After(at(until)) {
		slot := d.job.NextCheckAt
		decision := d.rule.Engine().Check(d.Context(), *d.job, slot)
		d.record(slot.Format(time.TimeOnly), decision)
		d.job = &decision.Job
		if decision.Ends() {
			d.job = nil
		}
	}
}

func (d *heartbeatDevice) record(clock string, e futurejobs.Decision) {
	for _, a := range e.Alerts {
		d.received = append(d.received, fmt.Sprintf("%s %s %s: %s", clock, a.Severity, a.Status, a.Text))
	}
	if e.Ends() {
		d.received = append(d.received, fmt.Sprintf("%s %s: %s", clock, e.Outcome, e.Reason))
	}
}

func (d *heartbeatDevice) checkRaised(want ...string) {
	d.Helper()
	if diff := cmp.Diff(want, d.received); diff != "" {
		d.Errorf("alerts (-want +got):\n%s", diff)
	}
	d.received = nil
}

// checkNext expects the time of the device's next check.
func (d *heartbeatDevice) checkNext(want string) {
	d.Helper()
	if d.job == nil || !d.job.NextCheckAt.Equal(at(want)) {
		d.Errorf("the job is %+v, want it due at %s", d.job, want)
	}
}

const tenMinuteRule = `name: device-silent
entity: device
trigger: {heartbeat: {every: 10m, grace: 2m}}
`

func withExit(status int) rules.ReceivedHeartbeat { return rules.ReceivedHeartbeat{Exit: &status} }

func TestHeartbeatPostponesJob(t *testing.T) {
	d := newDevice(t, tenMinuteRule)
	d.heartbeat("10:00:00", rules.ReceivedHeartbeat{})
	d.checkNext("10:12:00")
	d.heartbeat("10:05:00", rules.ReceivedHeartbeat{})
	d.checkNext("10:17:00")
	d.heartbeat("10:15:30", rules.ReceivedHeartbeat{})
	d.checkNext("10:28:00")
	d.checkRaised()
	d.checkUntil("12:00:00")
	d.checkRaised("10:28:00 warning firing: device pump-7: no heartbeat since 10:15:30 UTC, expected every 10m, grace 2m")
	d.heartbeat("12:00:30", rules.ReceivedHeartbeat{})
	d.checkRaised(
		"12:00:30 warning resolved: device pump-7 recovered after 1h45m",
		"12:00:30 resolved: it recovered after 1h45m",
	)
	d.checkNext("12:13:00")
}

func TestHeartbeatsOfSlotAreOneWrite(t *testing.T) {
	d := newDevice(t, tenMinuteRule)
	for second := range 60 {
		d.heartbeat(fmt.Sprintf("10:00:%02d", second), rules.ReceivedHeartbeat{})
	}
	if d.writes != 2 { // the first is on the slot before
		t.Errorf("60 beats in a minute were %d writes, want 2", d.writes)
	}
	d.heartbeat("10:01:00", rules.ReceivedHeartbeat{})
	d.heartbeat("10:01:01", rules.ReceivedHeartbeat{})
	if d.writes != 3 {
		t.Errorf("%d writes, want one more for the next slot", d.writes)
	}
	d.checkNext("10:14:00")
}

func TestFailureIsOverdueAtOnce(t *testing.T) {
	d := newDevice(t, tenMinuteRule+"escalate: [{after: 0s, severity: error}, {after: 1h, step: still, severity: critical}]\n")
	d.heartbeat("10:00:00", rules.ReceivedHeartbeat{})
	d.heartbeat("10:05:10", withExit(3))
	d.checkNext("10:06:00")
	d.heartbeat("10:30:00", rules.ReceivedHeartbeat{Kind: rules.Failure})
	d.checkNext("11:06:00") // another failure does not restart the escalation
	d.heartbeat("11:10:00", withExit(0))
	d.checkRaised(
		"10:06:00 error firing: device pump-7: failed with exit status 3",
		"11:06:00 critical firing: device pump-7: failed; the ping had no body with the reason",
		"11:10:00 critical resolved: device pump-7 recovered after 1h4m50s",
		"11:10:00 resolved: it recovered after 1h4m50s",
	)
	d.checkNext("11:22:00")
}

// TestFailureText checks that the text of a failure ends with the last line of the body that has text.
func TestFailureText(t *testing.T) {
	for name, c := range map[string]struct {
		beat rules.ReceivedHeartbeat
		want string
	}{
		"a body":                {rules.ReceivedHeartbeat{Kind: rules.Failure, Body: "dumping crm\npg_dump: error: connection refused\n \n"}, "failed: pg_dump: error: connection refused"},
		"an exit status":        {rules.ReceivedHeartbeat{Exit: new(3), Body: "no space\r\n"}, "failed with exit status 3: no space"},
		"a progress bar":        {rules.ReceivedHeartbeat{Kind: rules.Failure, Body: "10 %\r20 %\rtimeout"}, "failed: timeout"},
		"a named run":           {rules.ReceivedHeartbeat{Kind: rules.Failure, Run: "r1", Body: "no space"}, "run r1 failed: no space"},
		"a long line":           {rules.ReceivedHeartbeat{Kind: rules.Failure, Body: strings.Repeat("é", 300)}, "failed: " + strings.Repeat("é", 199) + "…"},
		"control characters":    {rules.ReceivedHeartbeat{Kind: rules.Failure, Body: "\x1b[31mno\x00 space\xff"}, "failed: [31mno  space\uFFFD"},
		"no visible characters": {rules.ReceivedHeartbeat{Kind: rules.Failure, Body: " \n\t\n"}, "failed; the ping had no body with the reason"},
	} {
		d := newDevice(t, tenMinuteRule)
		d.heartbeat("10:00:10", c.beat)
		d.checkUntil("10:01:00")
		if want := []string{"10:01:00 warning firing: device pump-7: " + c.want}; !slices.Equal(d.received, want) {
			t.Errorf("%s: %q, want %q", name, d.received, want)
		}
	}
}

// TestFailuresAreInTrail checks that the trail of a job has each failure: one that starts the job, one that a success follows
// before a check, and one while an alert is open.
func TestFailuresAreInTrail(t *testing.T) {
	d := newDevice(t, tenMinuteRule)
	check := func(want string) {
		t.Helper()
		entries := d.job.Trail.Entries()
		if len(entries) != 1 || entries[0].Kind != futurejobs.Failed || entries[0].At.Format(time.TimeOnly)+" "+entries[0].Reason != want {
			t.Errorf("the trail is %+v, want %s", entries, want)
		}
	}
	d.heartbeat("10:00:10", rules.ReceivedHeartbeat{Kind: rules.Failure, Run: "r1", Body: "no space"})
	check("10:00:10 run r1 failed: no space")
	d.heartbeat("10:00:20", rules.ReceivedHeartbeat{Run: "r1"})
	d.job.Trail = "" // as a store returns the job
	d.heartbeat("10:05:00", withExit(3))
	check("10:05:00 failed with exit status 3")
	d.checkUntil("10:20:00")
	d.job.Trail = ""
	d.heartbeat("10:21:00", rules.ReceivedHeartbeat{Kind: rules.Begun})
	if d.job.Trail != "" {
		t.Errorf("a start is in the trail: %s", d.job.Trail)
	}
	d.heartbeat("10:22:00", withExit(4))
	check("10:22:00 failed with exit status 4")
	d.checkUntil("11:30:00")
	d.checkRaised("10:06:00 warning firing: device pump-7: failed with exit status 3")
}

// TestLastReport checks what a job knows of its last report, and whether a success came.
func TestLastReport(t *testing.T) {
	d := newDevice(t, tenMinuteRule)
	check := func(signal, failed, reason string, noSuccess bool) {
		t.Helper()
		want := futurejobs.HeartbeatReport{Failure: reason}
		if want.NoSuccess = noSuccess; signal != "" {
			want.At = at(signal)
		}
		if failed != "" {
			want.FailedAt = at(failed)
		}
		if diff := cmp.Diff(want, rules.LastReport(d.job.State)); diff != "" {
			t.Errorf("the last report (-want +got):\n%s", diff)
		}
	}
	d.heartbeat("10:00:10", withExit(3))
	check("10:00:10", "10:00:10", "failed with exit status 3", true)
	d.heartbeat("10:00:20", rules.ReceivedHeartbeat{Kind: rules.Begun})
	check("10:00:20", "10:00:10", "failed with exit status 3", true)
	d.heartbeat("10:05:00", rules.ReceivedHeartbeat{Kind: rules.Failure})
	check("10:05:00", "10:05:00", "failed; the ping had no body with the reason", true)
	d.heartbeat("10:06:00", rules.ReceivedHeartbeat{})
	if end := d.received[len(d.received)-1]; !rules.EndsWithFirstSuccess(end) {
		t.Errorf("the first success ended the job: %q", end)
	}
	d.heartbeat("10:07:00", withExit(3))
	check("10:07:00", "10:07:00", "failed with exit status 3", false)
	d.heartbeat("10:09:00", rules.ReceivedHeartbeat{})
	check("", "", "", false)
	if end := d.received[len(d.received)-1]; rules.EndsWithFirstSuccess(end) {
		t.Errorf("not the first success ended the job: %q", end)
	}

	d = newDevice(t, tenMinuteRule)
	d.heartbeat("10:00:00", rules.ReceivedHeartbeat{})
	d.heartbeat("10:05:10", rules.ReceivedHeartbeat{Kind: rules.Failure, Run: "a"})
	d.heartbeat("10:05:20", rules.ReceivedHeartbeat{Run: "b"})
	check("10:05:20", "10:05:10", "failed; the ping had no body with the reason", false)
}

func TestLogChangesNothing(t *testing.T) {
	d := newDevice(t, tenMinuteRule)
	d.heartbeat("10:00:00", rules.ReceivedHeartbeat{Kind: rules.Log})
	if d.job != nil {
		t.Error("a log began a wait")
	}
	d.heartbeat("10:01:00", rules.ReceivedHeartbeat{})
	d.heartbeat("10:09:00", rules.ReceivedHeartbeat{Kind: rules.Log})
	d.checkNext("10:13:00")
}

const nightlyRule = `name: nightly
entity: job
trigger: {heartbeat: {every: 1d, grace: 1h, max: 2h, min: 10s}}
`

func TestRuns(t *testing.T) {
	run := func(kind rules.Signal, name string) rules.ReceivedHeartbeat {
		return rules.ReceivedHeartbeat{Kind: kind, Run: name}
	}
	for name, c := range map[string]struct {
		play func(*heartbeatDevice)
		want []string
		due  string
	}{
		"over in time": {
			func(d *heartbeatDevice) {
				d.heartbeat("01:00:00", run(rules.Begun, "a"))
				d.checkNext("03:00:00")
				d.heartbeat("02:30:00", run(rules.Success, "a"))
				d.checkNextOfSecond("2026-03-03 03:30:00")
			}, nil, "",
		},
		"too long": {
			func(d *heartbeatDevice) {
				d.heartbeat("01:00:00", run(rules.Begun, "a"))
				d.heartbeat("03:30:00", run(rules.Success, "a"))
			}, []string{
				"03:00:00 warning firing: job pump-7: run a has not finished after 2h",
				"03:30:00 warning resolved: job pump-7 recovered after 2h30m",
				"03:30:00 resolved: it recovered after 2h30m with its first success",
			}, "",
		},
		"too short": {
			func(d *heartbeatDevice) {
				d.heartbeat("01:00:00", run(rules.Begun, ""))
				d.heartbeat("01:00:03", run(rules.Success, ""))
				d.checkUntil("02:00:00")
			}, []string{"01:01:00 warning firing: job pump-7: took 3s, less than 10s"}, "",
		},
		"a failed run": {
			func(d *heartbeatDevice) {
				d.heartbeat("01:00:00", run(rules.Begun, "a"))
				d.heartbeat("01:20:00", rules.ReceivedHeartbeat{Exit: new(7), Run: "a"})
				d.checkUntil("02:00:00")
			}, []string{"01:21:00 warning firing: job pump-7: run a failed with exit status 7"}, "",
		},
		"two at a time": {
			func(d *heartbeatDevice) {
				d.heartbeat("01:00:00", run(rules.Begun, "a"))
				d.heartbeat("02:00:00", run(rules.Begun, "b"))
				d.checkNext("03:00:00")
				d.heartbeat("02:10:00", run(rules.Success, "a"))
				d.checkNext("04:00:00")
				d.heartbeat("05:00:00", run(rules.Begun, "c")) // an overdue job stays overdue
				d.checkUntil("06:00:00")
			}, []string{"04:00:00 warning firing: job pump-7: run b has not finished after 2h"}, "",
		},
	} {
		t.Run(name, func(t *testing.T) {
			d := newDevice(t, nightlyRule)
			c.play(d)
			d.checkRaised(c.want...)
		})
	}
}

func (d *heartbeatDevice) checkNextOfSecond(want string) {
	d.Helper()
	if got := d.job.NextCheckAt.Format(time.DateTime); got != want {
		d.Errorf("due at %s, want %s", got, want)
	}
}

func TestDroppedRunsAreCounted(t *testing.T) {
	d := newDevice(t, nightlyRule)
	for i := range 20 {
		d.heartbeat(fmt.Sprintf("01:%02d:00", i), rules.ReceivedHeartbeat{Kind: rules.Begun, Run: fmt.Sprint("r", i)})
	}
	d.checkNext("03:00:00") // the oldest is not dropped
	d.checkUntil("03:00:00")
	d.checkRaised("03:00:00 warning firing: job pump-7: run r0 has not finished after 2h (4 more unfinished runs are no longer tracked)")
}

// A sender that keeps beginning runs without ending them is reported, whether or not the runs have names.
func TestRepeatedlyRestartedRuns(t *testing.T) {
	for name, run := range map[string]func(minute int) string{
		"without a name": func(int) string { return "" },
		"with a name":    func(minute int) string { return fmt.Sprint("r", minute) },
	} {
		t.Run(name, func(t *testing.T) {
			d := newDevice(t, nightlyRule)
			for m := range 180 {
				d.heartbeat(fmt.Sprintf("%02d:%02d:00", 1+m/60, m%60), rules.ReceivedHeartbeat{Kind: rules.Begun, Run: run(m)})
			}
			if len(d.received) != 1 || !strings.HasPrefix(d.received[0], "03:00:00 warning firing") {
				t.Errorf("reports %q, want one call, 2h after the first of them began", d.received)
			}
		})
	}
}

// The duration of a run counts from its last beginning.
func TestRestartedRun(t *testing.T) {
	d := newDevice(t, nightlyRule)
	d.heartbeat("01:00:00", rules.ReceivedHeartbeat{Kind: rules.Begun})
	d.heartbeat("02:00:00", rules.ReceivedHeartbeat{Kind: rules.Begun})
	d.checkNext("03:00:00")
	d.heartbeat("02:00:03", rules.ReceivedHeartbeat{})
	d.checkUntil("03:30:00")
	d.checkRaised("02:01:00 warning firing: job pump-7: took 3s, less than 10s")
}

// An aborted run is not tracked for ever: heartbeats of a slot are one write again.
func TestAbortedRunIsDropped(t *testing.T) {
	d := newDevice(t, tenMinuteRule)
	d.heartbeat("10:00:00", rules.ReceivedHeartbeat{Kind: rules.Begun, Run: "r"})
	d.heartbeat("10:10:00", rules.ReceivedHeartbeat{})
	d.heartbeat("10:20:00", rules.ReceivedHeartbeat{})
	before := d.writes
	for second := range 50 {
		d.heartbeat(fmt.Sprintf("10:20:%02d", 1+second), rules.ReceivedHeartbeat{})
	}
	if d.writes != before+1 { // the first is on the slot before
		t.Errorf("50 beats in a minute were %d writes, want 1", d.writes-before)
	}
}

// A start fixes no deadline that may be void: the deadline may seem to have passed because of a monitoring gap, a
// heartbeat that was not kept, or a pause.
func TestStartDoesNotMakeJobOverdue(t *testing.T) {
	late := rules.ReceivedHeartbeat{Key: "pump-7", Kind: rules.Begun, At: at("11:05:00")}
	t.Run("after an outage", func(t *testing.T) {
		d := newDevice(t, strings.Replace(tenMinuteRule, "grace: 2m", "grace: 2m, max: 2h", 1))
		d.heartbeat("10:00:00", rules.ReceivedHeartbeat{})
		d.lateHeartbeat("11:05:00", late)
		d.checkNext("13:05:00")
		d.checkUntil("13:05:00")
		d.checkRaised("13:05:00 warning firing: device pump-7: a run has not finished after 2h")
	})
	t.Run("without max it changes nothing", func(t *testing.T) {
		d := newDevice(t, tenMinuteRule)
		d.heartbeat("10:00:00", rules.ReceivedHeartbeat{})
		d.job.NextCheckAt = at("11:30:00") // a check forgave the monitoring gap
		d.lateHeartbeat("11:05:00", late)
		d.checkNext("11:30:00")
		d.lateHeartbeat("11:06:00", rules.ReceivedHeartbeat{Key: "pump-7", Kind: rules.Failure, At: at("11:06:00")})
		d.checkNext("11:07:00") // a failure is
	})
	t.Run("after a beat that is not kept", func(t *testing.T) {
		d := newDevice(t, "name: silent\nentity: device\ntrigger: {heartbeat: {every: 1h, grace: 5m, max: 2h}}\nslot: 15m\n")
		d.heartbeat("09:56:00", rules.ReceivedHeartbeat{})
		d.heartbeat("10:09:00", rules.ReceivedHeartbeat{})
		d.heartbeat("11:05:00", rules.ReceivedHeartbeat{Kind: rules.Begun})
		d.checkNext("13:15:00")
	})
	t.Run("in a pause", func(t *testing.T) {
		d := newDevice(t, strings.Replace(tenMinuteRule, "grace: 2m", "grace: 2m, max: 2h", 1))
		d.heartbeat("10:00:00", rules.ReceivedHeartbeat{})
		send := func(clock string, action futurejobs.Action) {
			d.apply(clock, futurejobs.Effect{Rule: d.rule.Engine(), Ref: d.ref, Action: action})
		}
		send("10:01:00", futurejobs.Pause{})
		d.lateHeartbeat("11:05:00", late)
		send("11:10:00", futurejobs.Resume{Next: func(futurejobs.Job) time.Time { return time.Time{} }})
		d.checkUntil("13:00:00")
		d.checkRaised()
	})
}

// A heartbeat of a stream that is older than the last one changes nothing.
func TestOlderHeartbeatChangesNothing(t *testing.T) {
	s := openStore(t)
	saveRule(t, s, 0, backupRule)
	b := newCatalog(t, s)
	known := futurejobs.FoldInput{Pending: map[futurejobs.Ref]futurejobs.Job{}}
	for i, c := range []struct{ clock, status, due string }{
		{"10:00:00", "0", "2026-03-03 10:00:00"},
		{"10:05:00", "0", "2026-03-03 10:05:00"},
		{"10:04:00", "1", "2026-03-03 10:05:00"},
		{"10:04:00", "0", "2026-03-03 10:05:00"},
		{"10:05:35", "1", "2026-03-02 10:06:00"},
		{"10:05:20", "0", "2026-03-02 10:06:00"}, // from before the failure
	} {
		e := event(uint64(i+1), "backups.crm.done", `{"status": `+c.status+`}`)
		e.At = at(c.clock)
		effects, refused := b.Match(e)
		if len(effects) != 1 || len(refused) > 0 {
			t.Fatal(effects, refused)
		}
		net := futurejobs.Fold(effects, known, at("10:05:40"))
		for _, j := range writtenJobs(net) {
			known.Pending[j.Ref] = j
		}
		for _, j := range known.Pending {
			if got := j.NextCheckAt.Format(time.DateTime); got != c.due {
				t.Errorf("after %s at %s it is due at %s, want %s", c.status, c.clock, got, c.due)
			}
		}
	}
}

// Pings count in the order in which they are committed: the clocks of two nodes differ a little, and a ping answered
// with OK is not left out.
func TestPingsOfTwoClocks(t *testing.T) {
	d := newDevice(t, nightlyRule)
	d.lateHeartbeat("10:00:00", rules.ReceivedHeartbeat{Key: "pump-7", At: at("10:00:00"), Kind: rules.Begun})
	d.lateHeartbeat("10:00:30", rules.ReceivedHeartbeat{Key: "pump-7", At: at("10:00:20"), Kind: rules.Log})
	d.lateHeartbeat("10:00:30", rules.ReceivedHeartbeat{Key: "pump-7", At: at("10:00:30"), Kind: rules.Success})
	d.lateHeartbeat("10:00:30", rules.ReceivedHeartbeat{Key: "pump-7", At: at("10:00:29"), Kind: rules.Failure})
	d.checkNext("10:01:00")
	d.lateHeartbeat("10:00:31", rules.ReceivedHeartbeat{Key: "pump-7", At: at("10:00:29"), Kind: rules.Success})
	d.checkNextOfSecond("2026-03-03 11:01:00")
}

func TestPausedRulesCreateNoJobs(t *testing.T) {
	d := newDevice(t, tenMinuteRule)
	d.heartbeat("10:00:00", rules.ReceivedHeartbeat{Paused: true})
	if d.job != nil {
		t.Fatal("a rule that is paused began a wait")
	}
	d.heartbeat("10:01:00", rules.ReceivedHeartbeat{})
	d.heartbeat("10:03:00", rules.ReceivedHeartbeat{Paused: true})
	d.checkNext("10:15:00")
}

func TestInvalidHeartbeats(t *testing.T) {
	heartbeat, event := compileRule(t, tenMinuteRule), compileRule(t, baseRule)
	for name, c := range map[string]struct {
		rule *rules.Rule
		beat rules.ReceivedHeartbeat
		want string
	}{
		"no heartbeat":   {event, rules.ReceivedHeartbeat{Key: "a", Kind: rules.Success}, "the rule has no heartbeat; add one to its trigger"},
		"no kind":        {heartbeat, rules.ReceivedHeartbeat{Key: "a", Kind: "sucess"}, `"sucess" is not a kind of heartbeat; did you mean "success"?`},
		"an exit status": {heartbeat, rules.ReceivedHeartbeat{Key: "a", Exit: new(256)}, "256 is not an exit status, which is 0 to 255"},
		"no key":         {heartbeat, rules.ReceivedHeartbeat{Kind: rules.Success}, "the key is empty"},
		"a long run":     {heartbeat, rules.ReceivedHeartbeat{Key: "a", Kind: rules.Success, Run: strings.Repeat("a", 513)}, "the key has 513 bytes"},
	} {
		if _, err := c.rule.HeartbeatEffect(c.beat, 1); err == nil || !strings.Contains(err.Error(), c.want) {
			t.Errorf("%s: %v, want %q", name, err, c.want)
		}
	}
}

func TestPingData(t *testing.T) {
	d := newDevice(t, nightlyRule)
	d.heartbeat("01:00:00", rules.ReceivedHeartbeat{Kind: rules.Begun, Run: "a"})
	d.heartbeat("01:00:30", rules.ReceivedHeartbeat{Exit: new(0), Run: "a", Body: "42 files"})
	want := `{"kind":"success","exit_status":0,"run":"a","duration_seconds":30,"body":"42 files","source":"ping"}`
	if string(d.job.Event) != want {
		t.Errorf("the event is %s, want %s", d.job.Event, want)
	}
	if streams := d.rule.Engine().HeartbeatStreams; !slices.Equal(streams, []string{""}) {
		t.Errorf("the rule reads %q, want pings alone", streams)
	}
}

func TestFailureLeavesSnoozeAlone(t *testing.T) {
	d := newDevice(t, tenMinuteRule+"escalate: [{after: 0s}, {after: 1h, step: still}]\n")
	d.heartbeat("10:00:00", rules.ReceivedHeartbeat{})
	d.checkUntil("10:12:00")
	d.apply("10:20:00", futurejobs.Effect{Rule: d.rule.Engine(), Ref: d.ref, Action: futurejobs.Snooze{Until: at("15:00:00")}})
	d.heartbeat("10:30:00", withExit(1))
	d.checkNext("15:00:00")
	d.heartbeat("10:40:00", rules.ReceivedHeartbeat{Kind: rules.Begun})
	d.checkNext("15:00:00")
	d.checkUntil("15:00:00")
	d.checkRaised(
		"10:12:00 warning firing: device pump-7: no heartbeat since 10:00:00 UTC, expected every 10m, grace 2m",
		"15:00:00 warning firing: device pump-7: failed with exit status 1",
	)
}

func TestHeartbeatsKeepSnooze(t *testing.T) {
	d := newDevice(t, tenMinuteRule)
	d.heartbeat("10:00:00", rules.ReceivedHeartbeat{})
	d.apply("10:05:00", futurejobs.Effect{Rule: d.rule.Engine(), Ref: d.ref, Action: futurejobs.Snooze{Until: at("11:00:00")}})
	d.heartbeat("10:08:00", rules.ReceivedHeartbeat{})
	d.checkNext("11:00:00")
	d.heartbeat("10:55:00", rules.ReceivedHeartbeat{})
	d.checkNext("11:07:00")
	d.checkUntil("11:07:00")
	d.checkRaised("11:07:00 warning firing: device pump-7: no heartbeat since 10:55:00 UTC, expected every 10m, grace 2m")
}

// TestStartIsNoSuccess checks the text about a run that has only started.
func TestStartIsNoSuccess(t *testing.T) {
	d := newDevice(t, tenMinuteRule)
	d.heartbeat("10:00:00", rules.ReceivedHeartbeat{})
	d.heartbeat("10:05:00", rules.ReceivedHeartbeat{Kind: rules.Begun})
	d.checkUntil("10:12:00")
	d.checkRaised("10:12:00 warning firing: device pump-7: no success since 10:00:00 UTC, expected every 10m, grace 2m")
}

func TestStepsUntilAcknowledgedHaveNoTotal(t *testing.T) {
	d := newDevice(t, tenMinuteRule+"escalate: [{every: 10m, until: acknowledged, step: nag}]\n")
	d.heartbeat("10:00:00", rules.ReceivedHeartbeat{})
	d.checkUntil("10:22:00")
	d.checkUntil("10:32:00")
	d.checkRaised(
		"10:22:00 warning firing: device pump-7: no heartbeat since 10:00:00 UTC, expected every 10m, grace 2m (nag 1)",
		"10:32:00 warning firing: device pump-7: no heartbeat since 10:00:00 UTC, expected every 10m, grace 2m (nag 2)",
	)
}

func TestHeartbeatsPostponeHandler(t *testing.T) {
	d := newDevice(t, tenMinuteRule+"handler: pumps\n")
	d.heartbeat("10:00:00", rules.ReceivedHeartbeat{})
	d.checkNext("10:12:00")
	d.heartbeat("10:11:00", rules.ReceivedHeartbeat{})
	d.checkNext("10:23:00")
}

// The state of a heartbeat is kept beside its updates, and does not change them.
func TestRunsAndUpdates(t *testing.T) {
	d := newDevice(t, nightlyRule+"update: {event: jobs.changed, key: event.id}\n")
	update := futurejobs.Update{Merge: func(known json.RawMessage) (json.RawMessage, error) {
		return json.RawMessage(strings.Replace(string(known), "{", `{"size":5,`, 1)), nil
	}}
	d.heartbeat("01:00:00", rules.ReceivedHeartbeat{Body: "a"})
	d.apply("01:00:10", futurejobs.Effect{Rule: d.rule.Engine(), Ref: d.ref, Action: update})
	d.heartbeat("01:01:00", rules.ReceivedHeartbeat{Kind: rules.Begun, Run: "r"})
	want := `{"body":"a","heartbeat":{"kind":"start","at":"2026-03-02T01:01:00Z","run":"r","runs":[{"run":"r","at":"2026-03-02T01:01:00Z"}]},"kind":"start","run":"r","size":5,"source":"ping"}`
	if string(d.job.State) != want {
		t.Errorf("the state is %s\nwant %s", d.job.State, want)
	}
	d.heartbeat("02:00:00", rules.ReceivedHeartbeat{Run: "r"})
	d.heartbeat("02:10:00", rules.ReceivedHeartbeat{})
	if got := string(d.job.State); !strings.Contains(got, `"size":5`) || strings.Contains(got, "heartbeat") {
		t.Errorf("the state is %s, want the update in it and no run", got)
	}
}

const backupRule = `name: backup-failed
entity: backup
trigger: {heartbeat: {event: backups.*.*, key: wildcard(1), if: event.test != true, every: 1d, kind: event.status, run: event.run}}
resolve: {event: backups.*.gone, key: wildcard(1)}
slot: 1m
`

// The signal of a stream's heartbeat is in its event.
func TestHeartbeatsOfStream(t *testing.T) {
	s := openStore(t)
	saveRule(t, s, 0, backupRule)
	b := newCatalog(t, s)
	known := futurejobs.FoldInput{Pending: map[futurejobs.Ref]futurejobs.Job{}}
	receive := func(seq uint64, body string) (rev string, refused []string) {
		effects, refusals := b.Match(event(seq, "backups.crm.done", body))
		for _, r := range refusals {
			refused = append(refused, r.Reason)
		}
		net := futurejobs.Fold(effects, known, at("12:00:00"))
		for _, j := range writtenJobs(net) {
			known.Pending[j.Ref] = j
			return fmt.Sprintf("%s %s %s", j.Key, j.NextCheckAt.Format(time.DateTime), j.State), refused
		}
		return "", refused
	}
	for i, c := range []struct{ body, job, refused string }{
		{`{"status": "log"}`, "", ""},
		{`{"status": "success", "test": true}`, "", ""},
		{`{"status": "sucess"}`, "", `trigger: kind: "sucess" is not a kind of heartbeat; did you mean "success"?`},
		{`{"status": "green"}`, "", `trigger: kind: "green" is not a kind of heartbeat; write one of success, start, fail, log, or an exit status`},
		{`{"status": 256}`, "", "trigger: kind: 256 is not an exit status, which is 0 to 255"},
		{`{"state": 1}`, "", "trigger: kind: event.status: expected text or a number, not a missing value"},
		{`{"status": 0, "run": true}`, "", "trigger: run: key event.run: expected text or a number, not true or false"},
		{`{"status": 0}`, "crm 2026-03-02 12:01:00 ", ""},
	} {
		job, refused := receive(uint64(i+1), c.body)
		if job != c.job || !strings.HasPrefix(strings.Join(refused, "; "), c.refused) || len(refused) > 0 != (c.refused != "") {
			t.Errorf("%s: %q, refused %q; want %q, %q", c.body, job, refused, c.job, c.refused)
		}
	}
}

// A heartbeat that is read late, once the rule has no heartbeat any more, creates no job.
func TestLateHeartbeatOfRemovedTrigger(t *testing.T) {
	s := openStore(t)
	const head = "name: silent\nentity: device\n"
	saveRule(t, s, 0, head+"trigger: {heartbeat: {event: beats, key: event.id, every: 10m}}\n")
	begins := func() bool {
		effects, refused := newCatalog(t, s).Match(event(1, "beats", `{"id": "pump-7"}`))
		if len(effects) != 1 || len(refused) > 0 {
			t.Fatal(effects, refused)
		}
		return len(futurejobs.Fold(effects, futurejobs.FoldInput{}, at("12:00:00")).Create) > 0
	}
	if !begins() {
		t.Error("a beat begins no wait")
	}
	saveRule(t, s, 9, head+"trigger: {event: beats, key: event.id}\nescalate: [{after: 1h}]\n")
	if begins() {
		t.Error("a beat from before the save begins a wait that nothing puts off")
	}
}

// No entity is reported missing before the stream of the heartbeats is read past the slot.
func TestChecksWaitForHeartbeatStream(t *testing.T) {
	s := openStore(t)
	saveRule(t, s, 0, "name: silent\nentity: device\ntrigger: {heartbeat: {event: beats, key: event.id, every: 10m}}\n")
	rule, err := newCatalog(t, s).Newest("silent")
	if err != nil {
		t.Fatal(err)
	}
	if e := rule.Engine(); !slices.Equal(e.Streams, []string{"S"}) || !slices.Equal(e.HeartbeatStreams, []string{"S"}) {
		t.Errorf("streams %q, streams of heartbeats %q; want the stream alone", e.Streams, e.HeartbeatStreams)
	}
}

// writtenJobs returns the jobs that a batch creates or changes.
func writtenJobs(net futurejobs.FoldResult) (jobs []futurejobs.Job) {
	for _, j := range net.Create {
		jobs = append(jobs, *j)
	}
	return append(append(jobs, net.Change...), net.Update...)
}

// The text of a heartbeat that follows a schedule has times in the zone of the schedule.
func TestHeartbeatTextHasZoneOfSchedule(t *testing.T) {
	d := newDevice(t, "name: device-silent\nentity: device\ntrigger: {heartbeat: {schedule: \"*/30 * * * *\", zone: Asia/Tokyo, grace: 5m}}\n")
	d.heartbeat("10:01:00", rules.ReceivedHeartbeat{})
	d.checkUntil("10:40:00")
	d.checkRaised("10:35:00 warning firing: device pump-7: no heartbeat since 19:01:00 JST, expected after each tick of \"*/30 * * * *\" Asia/Tokyo, grace 5m")
}
