package rules_test

import (
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"pgregory.net/rapid"

	futurejobs "deadman/future_jobs"
	"deadman/rules"
)

const hourlyRule = `name: import
entity: job
trigger: {heartbeat: {every: 1h, grace: 30m, too_often: 10m, min: 1s}}
`

// play processes lines such as "10:00:00 start a", with the checks that are due before them. A line "pause" or "resume"
// stops the clock of the job, and "until" makes only the checks.
func (d *heartbeatDevice) play(lines ...string) {
	d.Helper()
	for _, line := range lines {
		words := append(strings.Fields(line), "")
		switch clock, kind := words[0], rules.Signal(words[1]); kind {
		case "until":
			d.checkUntil(clock)
		case "pause":
			d.apply(clock, futurejobs.Effect{Rule: d.rule.Engine(), Ref: d.ref, Action: futurejobs.Pause{}})
		case "resume":
			d.apply(clock, futurejobs.Effect{Rule: d.rule.Engine(), Ref: d.ref, Action: futurejobs.Resume{Next: func(futurejobs.Job) time.Time { return at(clock) }}})
		default:
			d.heartbeat(clock, rules.ReceivedHeartbeat{Kind: kind, Run: words[2]})
		}
	}
}

func TestRunsThatStartTooOften(t *testing.T) {
	const bIsTooSoon = " warning firing: job pump-7: run b started 3m after the previous run, less than 10m"
	for name, c := range map[string]struct{ play, want []string }{
		"far enough apart": {
			[]string{"10:00:00 start a", "10:05:00 success a", "10:10:00 start b", "10:11:00 success b", "10:20:00 start", "10:21:00 success", "10:30:00 start", "10:31:00 until"}, nil,
		},
		"a second run, and the next one": {
			[]string{"10:00:00 start a", "10:02:00 success a", "10:03:00 start b", "10:04:30 success b", "10:40:00 start c", "10:41:00 success c", "11:00:00 until"},
			[]string{"10:04:00" + bIsTooSoon, "10:41:00 warning resolved: job pump-7 recovered after 38m", "10:41:00 resolved: it recovered after 38m"},
		},
		"both runs end before the check": {
			[]string{"10:00:00 start a", "10:03:01 start b", "10:03:05 success a", "10:03:10 success b", "10:30:00 until"},
			[]string{"10:04:00 warning firing: job pump-7: run b started 3m1s after the previous run, less than 10m"},
		},
		"both runs have no name and end before the check": {
			[]string{"10:00:00 start", "10:03:01 start", "10:03:05 success", "10:03:10 success", "10:30:00 until"},
			[]string{"10:04:00 warning firing: job pump-7: started 3m1s after the previous run, less than 10m"},
		},
		"one of them has no name": {
			[]string{"10:00:00 start a", "10:03:01 start", "10:03:05 success a", "10:03:10 success", "10:30:00 until"},
			[]string{"10:04:00 warning firing: job pump-7: started 3m1s after the previous run, less than 10m"},
		},
		"the first run ends after the alert": {
			[]string{"10:00:00 start a", "10:03:00 start b", "10:20:00 success a", "10:21:00 success b", "11:00:00 start c", "11:01:00 until"},
			[]string{"10:04:00" + bIsTooSoon},
		},
		"a later run without a name": {
			[]string{"10:00:00 start", "10:03:00 start", "10:20:00 start", "10:21:00 success", "10:30:00 until"},
			[]string{
				"10:04:00 warning firing: job pump-7: started 3m after the previous run, less than 10m",
				"10:21:00 warning resolved: job pump-7 recovered after 18m", "10:21:00 resolved: it recovered after 18m with its first success",
			},
		},
		"a process in a loop": {
			[]string{"10:00:00 start", "10:00:20 start", "10:00:40 start", "10:05:00 start", "10:15:00 start", "10:16:00 success", "10:17:00 until"},
			[]string{
				"10:01:00 warning firing: job pump-7: started 20s after the previous run, less than 10m",
				"10:16:00 warning resolved: job pump-7 recovered after 15m40s", "10:16:00 resolved: it recovered after 15m40s with its first success",
			},
		},
		"ends alone": {
			[]string{"10:00:00 success", "10:10:00 success", "10:13:00 success", "10:14:30 success", "10:24:30 success", "10:30:00 until"},
			[]string{
				"10:14:00 warning firing: job pump-7: ended 3m after the previous run, less than 10m",
				"10:24:30 warning resolved: job pump-7 recovered after 11m30s", "10:24:30 resolved: it recovered after 11m30s",
			},
		},
		"an end repeated twice": {
			[]string{"10:00:00 start", "10:01:00 success", "10:01:05 success", "10:01:10 success", "10:20:00 until"}, nil,
		},
		"ends alone, and starts": {
			[]string{"10:00:00 success", "10:01:00 start", "10:08:00 success", "10:11:00 start", "10:30:00 until"}, nil,
		},
		"a retry": {
			[]string{"10:00:00 start a", "10:01:01 fail a", "10:01:10 start b", "10:01:20 success b", "10:20:00 until"}, []string{"10:02:00 warning firing: job pump-7: failed; the ping had no body with the reason"},
		},
		"a retry without a name": {
			[]string{"10:00:00 start", "10:01:01 fail", "10:01:10 start", "10:01:20 success", "10:20:00 until"}, nil,
		},
		"a retry whose starts are unknown": {
			[]string{"10:00:00 success", "10:01:01 fail", "10:01:10 success", "10:20:00 until"}, nil,
		},
		"a second run beside a retry": {
			[]string{"10:00:00 start", "10:01:00 fail", "10:01:10 start", "10:01:20 start", "10:01:30 success", "10:20:00 until"},
			[]string{"10:02:00 warning firing: job pump-7: started 10s after the previous run, less than 10m"},
		},
		"a retry of a run that ended too soon": {
			[]string{"10:00:00 start", "10:00:00 success", "10:00:30 start", "10:00:40 success", "10:20:00 until"}, nil,
		},
		"a failure of the second run is no reason for a third": {
			[]string{"10:00:00 start a", "10:03:01 start b", "10:03:02 fail b", "10:03:05 success a", "10:20:00 until"},
			[]string{"10:04:00 warning firing: job pump-7: run b failed; the ping had no body with the reason"},
		},
		"a repeated start": {
			[]string{"10:00:00 start a", "10:00:05 start a", "10:01:00 success a", "10:01:05 success a", "10:01:10 success a", "10:20:00 until"}, nil,
		},
		"a repeated end alone": {
			[]string{"10:00:00 success a", "10:00:05 success a", "10:20:00 until"}, nil,
		},
		"a repeated start of the second run": {
			[]string{"10:00:00 start a", "10:03:01 start b", "10:03:02 start b", "10:03:10 success b", "10:03:11 success b", "10:20:00 until"},
			[]string{"10:04:00 warning firing: job pump-7: started 3m1s after the previous run, less than 10m"},
		},
		"a name that is used again": {
			[]string{"10:00:00 start a", "10:01:00 success a", "10:03:00 start a", "10:20:00 until"},
			[]string{"10:04:00 warning firing: job pump-7: run a started 3m after the previous run, less than 10m"},
		},
		"a log": {
			[]string{"10:00:00 start a", "10:03:00 log a", "10:10:00 start b", "10:13:00 log", "10:20:00 start c", "10:21:00 until"}, nil,
		},
		"a pause does not move starts apart": {
			[]string{"10:00:00 start a", "10:01:00 pause", "10:03:00 start b", "10:05:00 resume", "10:06:00 until"}, []string{"10:06:00" + bIsTooSoon},
		},
		"a run that an alert waits for": {
			[]string{"10:00:00 start a", "10:01:00 success a", "11:31:00 until", "11:35:00 start b", "11:35:10 start c", "11:36:00 success b", "11:37:00 until"},
			[]string{"11:31:00 warning firing: job pump-7: no heartbeat since 10:01:00 UTC, expected every 1h, grace 30m"},
		},
	} {
		t.Run(name, func(t *testing.T) {
			d := newDevice(t, hourlyRule)
			d.play(c.play...)
			d.checkRaised(c.want...)
		})
	}
}

// A run that started after the failure did not fail: its name is not in the text.
func TestTextDoesNotNameLaterRun(t *testing.T) {
	d := newDevice(t, hourlyRule+"slot: 30m\n")
	d.play("10:00:00 start a", "10:03:00 start b", "10:14:00 start c", "10:15:00 success a", "10:30:00 until")
	d.checkRaised("10:30:00 warning firing: job pump-7: started 3m after the previous run, less than 10m")
}

// A run that is longer than max has failed: the next one is a retry.
func TestRunAfterMaxIsRetry(t *testing.T) {
	d := newDevice(t, strings.Replace(hourlyRule, "min: 1s", "max: 2m", 1))
	d.play("10:00:00 start a", "10:03:00 start b", "10:04:00 success b", "10:05:00 until")
	d.checkRaised(
		"10:02:00 warning firing: job pump-7: run a has not finished after 2m",
		"10:04:00 warning resolved: job pump-7 recovered after 2m", "10:04:00 resolved: it recovered after 2m with its first success",
	)
}

// Each signal is written, also within a slot, and only with too_often.
func TestEachStartIsWritten(t *testing.T) {
	for text, want := range map[string]int{hourlyRule: 4, strings.Replace(hourlyRule, "too_often: 10m, ", "", 1): 1} {
		d := newDevice(t, text)
		d.play("10:00:10 success", "10:00:20 success", "10:00:30 success", "10:00:40 success")
		if d.writes != want {
			t.Errorf("%d writes, want %d, of %s", d.writes, want, text)
		}
	}
}

// A version that adds too_often judges starts from the next one on, and one that removes it forgets them.
func TestVersionChangesTooOften(t *testing.T) {
	with, without := compileRule(t, hourlyRule), compileRule(t, strings.Replace(hourlyRule, "too_often: 10m, ", "", 1))
	d := newDevice(t, hourlyRule)
	d.rule = without
	d.play("10:00:10 success", "10:00:20 start a", "10:01:00 success a")
	d.rule = with
	d.play("10:03:00 start b", "10:04:00 success b")
	d.checkRaised()
	d.play("10:05:10 start c")
	d.rule = without
	d.play("10:05:20 success c")
	d.checkRaised()
	if state := string(d.job.State); strings.Contains(state, "_at\":\"2026-03-02T10:05:10") || strings.Contains(state, "started_at") {
		t.Errorf("the state without too_often is %s", state)
	}
	d.rule = with
	d.play("10:06:00 start d", "10:07:00 success d", "10:08:00 until")
	d.checkRaised()
}

// Events of a stream: one that is older, or that has the time of the last one, starts no run. Pings of nodes with different
// clocks do.
func TestRepeatedEventIsNoRun(t *testing.T) {
	s := openStore(t)
	saveRule(t, s, 0, strings.Replace(backupRule, "every: 1d", "every: 1d, too_often: 1h", 1))
	b := newCatalog(t, s)
	known := futurejobs.FoldInput{Pending: map[futurejobs.Ref]futurejobs.Job{}}
	for i, c := range []struct{ clock, body, want string }{
		{"10:00:00", `{"status": "start", "run": "a"}`, ""},
		{"10:00:00", `{"status": "start", "run": "a"}`, ""},
		{"10:10:00", `{"status": "success", "run": "a"}`, ""},
		{"09:30:00", `{"status": "start", "run": "b"}`, ""},
		{"11:10:00", `{"status": "start"}`, ""},
		{"11:10:00", `{"status": "start"}`, ""},
		{"11:10:00", `{"status": "start", "run": "c"}`, "started 0s after the previous run, less than 1h"},
	} {
		e := event(uint64(i+1), "backups.crm.done", c.body)
		e.At = at(c.clock)
		effects, refused := b.Match(e)
		if len(effects) != 1 || len(refused) > 0 {
			t.Fatal(effects, refused)
		}
		for _, j := range writtenJobs(futurejobs.Fold(effects, known, at("11:10:00"))) {
			known.Pending[j.Ref] = j
			if isFailed := strings.Contains(string(j.State), `"reason"`); isFailed != (c.want != "") || !strings.Contains(string(j.State), c.want) {
				t.Errorf("after %s at %s the state is %s, want the reason %q", c.body, c.clock, j.State, c.want)
			}
		}
	}
	d := newDevice(t, hourlyRule)
	d.lateHeartbeat("10:00:30", rules.ReceivedHeartbeat{Key: "pump-7", At: at("10:00:30"), Kind: rules.Begun})
	d.lateHeartbeat("10:00:30", rules.ReceivedHeartbeat{Key: "pump-7", At: at("10:00:29"), Kind: rules.Begun})
	d.play("10:02:00 until")
	d.checkRaised("10:01:00 warning firing: job pump-7: started 0s after the previous run, less than 10m")
}

// signalOfRun is a signal in the history of a startModel.
type signalOfRun struct {
	at             time.Time
	kind           rules.Signal
	run            string
	starts, isSoon bool // it starts a run; too soon
}

// startModel judges the signals of a key by their whole history, as docs/reference/rule-heartbeats.md describes it.
type startModel struct {
	least   time.Duration
	history []signalOfRun
	soonAt  time.Time // start of the last run that was too soon, if no later run has succeeded
	isOpen  bool      // an alert is open
}

// startOf returns when the run that a signal would end has started; false if that is unknown.
func (m *startModel) startOf(run string) (start time.Time, isKnown bool) {
	for _, s := range slices.Backward(m.history) {
		if s.run != run {
			continue
		}
		if s.kind != rules.Begun {
			break
		}
		if start, isKnown = s.at, true; run == "" {
			break
		}
	}
	return start, isKnown
}

// isSince reports whether the last signal since the last failure that satisfies a condition came within the least time.
func (m *startModel) isSince(at time.Time, satisfies func(signalOfRun) bool) bool {
	for _, s := range slices.Backward(m.history) {
		if s.kind == rules.Failure {
			break
		}
		if satisfies(s) {
			return at.Sub(s.at) < m.least
		}
	}
	return false
}

func (m *startModel) receive(s signalOfRun) {
	start, isKnown := m.startOf(s.run)
	isStart := func(o signalOfRun) bool { return o.starts && o.kind == rules.Begun }
	isEnd := func(o signalOfRun) bool { return o.starts && o.kind == rules.Success }
	repeatsLast := s.run != "" && len(m.history) > 0 && m.history[len(m.history)-1].run == s.run
	switch s.kind {
	case rules.Begun:
		s.starts = s.run == "" || !isKnown
		s.isSoon = s.starts && m.isSince(s.at, isStart)
	case rules.Success:
		s.starts = !isKnown && !repeatsLast && !m.isSince(s.at, isStart)
		s.isSoon = s.starts && m.isSince(s.at, isEnd)
	}
	m.history = append(m.history, s)
	isLater := start.After(m.soonAt)
	if !isKnown {
		isLater = !s.at.Before(m.soonAt.Add(m.least))
	}
	switch {
	case s.isSoon:
		m.soonAt, m.isOpen = s.at, true
	case s.kind == rules.Failure:
		m.isOpen = true
	case s.kind == rules.Success && (m.soonAt.IsZero() || isLater):
		m.soonAt, m.isOpen = time.Time{}, false
	}
}

// An alert is open exactly when the model has one, whatever the order of starts, ends and failures.
func TestStartsAgreeWithModel(t *testing.T) {
	raised := 0
	rapid.Check(t, func(r *rapid.T) {
		d := newDevice(t, "name: import\nentity: job\ntrigger: {heartbeat: {every: 20h, too_often: 10m}}\nslot: 1s\n")
		m := startModel{least: 10 * time.Minute}
		now, ids := at("00:00:00"), 0
		for range rapid.IntRange(1, 60).Draw(r, "signals") {
			now = now.Add(time.Duration(rapid.SampledFrom([]int{2, 5, 60, 299, 300, 599, 600, 601, 1200}).Draw(r, "seconds")) * time.Second)
			s := signalOfRun{at: now, kind: rapid.SampledFrom([]rules.Signal{rules.Begun, rules.Begun, rules.Success, rules.Success, rules.Failure, rules.Log}).Draw(r, "kind")}
			switch run := rapid.IntRange(0, 3).Draw(r, "run"); {
			case run == 1:
				ids++
				s.run = fmt.Sprint("r", ids)
			case run > 1 && ids > 0:
				s.run = fmt.Sprint("r", max(1, ids-run+2))
			}
			if m.isOpen && s.kind == rules.Success && s.run != "" && slices.ContainsFunc(m.history, func(o signalOfRun) bool { return o.run == s.run }) {
				if _, isRunning := m.startOf(s.run); !isRunning {
					continue // a repeated success while an alert is open: only its effect on later ends differs
				}
			}
			d.play(strings.Join([]string{now.Format(time.TimeOnly), string(s.kind), s.run}, " "), now.Add(time.Second).Format(time.TimeOnly)+" until")
			if s.kind != rules.Log {
				m.receive(s)
			}
			if isOpen := d.job != nil && len(d.job.Alerts) > 0; isOpen != m.isOpen {
				r.Fatalf("%s %s %q: an alert is open: %v, want %v; %+v", now.Format(time.TimeOnly), s.kind, s.run, isOpen, m.isOpen, m.history)
			}
		}
		for _, text := range d.received {
			if strings.Contains(text, "after the previous run, less than") {
				raised++
			}
		}
	})
	if raised == 0 {
		t.Error("no run was too soon: nothing is tested")
	}
}

// The times of starts move with the clock of the database, and each run that is too soon is in the trail of its job.
func TestStartsMoveWithClock(t *testing.T) {
	d := newDevice(t, hourlyRule)
	d.play("10:00:00 success", "10:01:00 start a", "10:02:00 start b")
	if entries := d.job.Trail.Entries(); len(entries) != 1 || entries[0].Reason != "run b started 1m after the previous run, less than 10m" {
		t.Errorf("the trail is %+v", entries)
	}
	state := string(d.rule.Engine().ShiftState(d.job.State, time.Hour))
	for _, want := range []string{`"started_at":"2026-03-02T11:02:00Z"`, `"ended_at":"2026-03-02T11:00:00Z"`, `"too_soon_at":"2026-03-02T11:02:00Z"`} {
		if !strings.Contains(state, want) {
			t.Errorf("the state is %s, want %s", state, want)
		}
	}
}
