package rules

import (
	"errors"
	"strings"
	"testing"
	"time"

	"deadman/rules/document"

	"github.com/google/go-cmp/cmp"

	futurejobs "deadman/future_jobs"
)

const storedTrigger = `trigger: {schedule: "@stored", emit: {subject: reports.due, data: {from: rule}}}` + "\n"

// storedRule returns a rule with stored schedules.
func storedRule(t *testing.T, text string) StoredRule {
	t.Helper()
	rule, err := StoredCatalog{catalogOf(t, map[int]string{0: text})}.StoredRule("due")
	if err != nil {
		t.Fatal(err)
	}
	return rule
}

// A schedule gets its rule, its shard and its next tick, in its zone; a schedule that is not enabled or over has none.
func TestPrepareSchedule(t *testing.T) {
	rule := storedRule(t, storedTrigger)
	for _, c := range []struct {
		schedule futurejobs.Schedule
		want     string
	}{
		{futurejobs.Schedule{ID: "a", Text: "0 9 * * *", Zone: "Europe/Berlin", Enabled: true}, "2026-05-05T07:00:00Z"},
		{futurejobs.Schedule{ID: "a", Text: "0 9 * * *", Zone: "Europe/Berlin"}, ""},
		{futurejobs.Schedule{ID: "a", Text: "@at 2026-05-04T10:00:00Z", Enabled: true}, ""},
		{futurejobs.Schedule{ID: "a", Text: "@at 2026-05-04T10:00:01Z", Enabled: true}, "2026-05-04T10:00:01Z"},
	} {
		s := c.schedule
		if err := rule.Prepare(&s, minuteOf(0)); err != nil {
			t.Errorf("%+v: %v", c.schedule, err)
		}
		next := ""
		if !s.NextAt.IsZero() {
			next = s.NextAt.Format(time.RFC3339)
		}
		if next != c.want || s.RuleID != 7 || s.Rule != "due" || s.Shard != futurejobs.ShardOf("due", "a", 4) {
			t.Errorf("%+v: %+v, want its next tick at %q", c.schedule, s, c.want)
		}
	}
}

// Schedules of @every and of ? spread, and each of them always ticks at the same times.
func TestStoredSchedulesSpread(t *testing.T) {
	rule := storedRule(t, storedTrigger)
	for text, least := range map[string]int{"@every 1h": 150, "? * * * *": 40} {
		ticks := make(map[time.Time]int)
		for i := range 200 {
			s := futurejobs.Schedule{ID: strings.Repeat("x", i+1), Text: text, Enabled: true}
			if err := rule.Prepare(&s, minuteOf(0)); err != nil {
				t.Fatal(err)
			}
			again := s
			if err := rule.Prepare(&again, s.NextAt.Add(-time.Second)); err != nil || !again.NextAt.Equal(s.NextAt) {
				t.Fatalf("%s ticks at %s, and then at %s (%v)", s.ID, s.NextAt, again.NextAt, err)
			}
			ticks[s.NextAt]++
		}
		if len(ticks) < least {
			t.Errorf("200 schedules of %s tick at %d times, want at least %d", text, len(ticks), least)
		}
	}
}

// Each invalid field of a schedule is named, with the limit and the remedy.
func TestPrepareRefuses(t *testing.T) {
	rule := storedRule(t, storedTrigger)
	for want, s := range map[string]futurejobs.Schedule{
		"/id: the id is empty":                       {Text: "@daily"},
		"/id: the id has 257 bytes, the most is 256": {ID: strings.Repeat("a", 257), Text: "@daily"},
		`/id: "a b" has characters other than printable ASCII without spaces; write an id such as customer-17`: {ID: "a b", Text: "@daily"},
		`/id: "ä" has characters other than printable ASCII without spaces; write an id such as customer-17`:   {ID: "ä", Text: "@daily"},
		"/data: the data is not JSON": {ID: "a", Text: "@daily", Data: []byte("{")},
		"/data: the data has 8193 bytes, the most is 8192; put large values where their readers find them by id":                              {ID: "a", Text: "@daily", Data: []byte(strings.Repeat("1", 8193))},
		`/zone: "Berlin" is not a time zone; write a name of the IANA database, such as Europe/Berlin or UTC`:                                 {ID: "a", Text: "@daily", Zone: "Berlin"},
		`/schedule: "@stored" is not a schedule; write one of @every, @at, @yearly, @annually, @monthly, @weekly, @daily, @midnight, @hourly`: {ID: "a", Text: "@stored"},
	} {
		err := rule.Prepare(&s, minuteOf(0))
		var problems document.Problems
		if !errors.As(err, &problems) || len(problems) != 1 || problems[0].Pointer+": "+problems[0].Message != want {
			t.Errorf("%v, want %s", err, want)
		}
	}
}

// A schedule whose next tick may come before the last attempt to post the event of the one before is refused.
func TestPrepareRefusesAttemptsUntilNextTick(t *testing.T) {
	rule := storedRule(t, `trigger: {schedule: "@stored", emit: {webhook: billing, attempts: 4, interval: 2s}}`+"\n")
	for text, want := range map[string]string{
		"@every 46s":               "", // four times 6 s, and pauses of 2, 4 and 8 s with half of each as jitter
		"@every 45s":               "4 attempts to post an event may take 45s, but ticks are only 45s apart; lower trigger.emit.attempts or interval of the rule, or write a schedule with fewer ticks",
		"* * * * *":                "",
		"@at 2026-05-04T10:10:00Z": "",
	} {
		got := ""
		if err := rule.Prepare(&futurejobs.Schedule{ID: "a", Text: text, Enabled: true}, minuteOf(0)); err != nil {
			got = err.Error()
		}
		if (want == "") != (got == "") || !strings.Contains(got, want) {
			t.Errorf("%s: %q, want %q", text, got, want)
		}
	}
}

// The pauses between attempts double up to an hour, with jitter of up to half of each.
func TestPausesOfWebhook(t *testing.T) {
	w := futurejobs.Webhook{Attempts: 12, Interval: 4 * time.Second}
	least := w.Interval
	for attempt := 1; attempt < 12; attempt++ {
		for range 20 {
			if pause, ok := w.Pause(attempt); !ok || pause < least || pause > least*3/2 {
				t.Errorf("after attempt %d: %s, %v, want %s and up to half more", attempt, pause, ok, least)
			}
		}
		least = min(2*least, time.Hour)
	}
	if pause, ok := w.Pause(12); ok {
		t.Errorf("after the last attempt: %s", pause)
	}
}

// The last of the due ticks counts, and decides what becomes of them.
func TestDecideStoredTicks(t *testing.T) {
	active := storedRule(t, storedTrigger)
	paused := active
	paused.paused = true
	due := futurejobs.Schedule{RuleID: 7, ID: "a", Text: "*/10 * * * *", Enabled: true, NextAt: minuteOf(10)}
	broken := due
	broken.Text = "@never"
	each, once := storedRule(t, storedTrigger+"catch_up: {after: 30m, do: all}\n"), due
	once.Text = "@at 2026-05-04T10:10:00Z"
	for name, c := range map[string]struct {
		rule    StoredRule
		s       futurejobs.Schedule
		now     time.Time
		want    futurejobs.DecidedTick
		remarks string
	}{
		"in time":             {active, due, minuteOf(10), futurejobs.DecidedTick{At: minuteOf(10), Outcome: futurejobs.TickPlanned, Next: minuteOf(20)}, ""},
		"missed":              {active, due, minuteOf(45), futurejobs.DecidedTick{At: minuteOf(40), Missed: 3, Outcome: futurejobs.TickPlanned, Next: minuteOf(50)}, ""},
		"paused":              {paused, due, minuteOf(15), futurejobs.DecidedTick{At: minuteOf(10), Outcome: futurejobs.TickPaused, Next: minuteOf(20)}, ""},
		"not enabled":         {storedRule(t, storedTrigger+"enabled: false\n"), due, minuteOf(15), futurejobs.DecidedTick{At: minuteOf(10), Outcome: futurejobs.TickPaused, Next: minuteOf(20)}, ""},
		"missed while paused": {paused, due, minuteOf(45), futurejobs.DecidedTick{At: minuteOf(40), Outcome: futurejobs.TickPaused, Next: minuteOf(50)}, ""},
		"missed while not enabled": {
			storedRule(t, storedTrigger+"enabled: false\n"), due, minuteOf(45), futurejobs.DecidedTick{At: minuteOf(40), Outcome: futurejobs.TickPaused, Next: minuteOf(50)}, "",
		},
		"just in time": {
			storedRule(t, storedTrigger+"catch_up: {after: 5m, do: skip}\n"), due, minuteOf(15),
			futurejobs.DecidedTick{At: minuteOf(10), Outcome: futurejobs.TickPlanned, Next: minuteOf(20)},
			"",
		},
		"late": {
			storedRule(t, storedTrigger+"catch_up: {after: 5m, do: skip}\n"), due, minuteOf(16),
			futurejobs.DecidedTick{At: minuteOf(10), Outcome: futurejobs.TickSkipped, Next: minuteOf(20)},
			"info: rule due, stored schedules, since the tick of a at 2026-05-04T10:10:00Z: ticks found later than catch_up.after, 5m, and skipped: 1",
		},
		"all in time":    {each, due, minuteOf(10), futurejobs.DecidedTick{At: minuteOf(10), Outcome: futurejobs.TickPlanned, Next: minuteOf(20)}, ""},
		"all missed":     {each, due, minuteOf(39), futurejobs.DecidedTick{At: minuteOf(10), Outcome: futurejobs.TickPlanned, Next: minuteOf(20)}, ""},
		"all just kept":  {each, due, minuteOf(40), futurejobs.DecidedTick{At: minuteOf(10), Outcome: futurejobs.TickPlanned, Next: minuteOf(20)}, ""},
		"all but one":    {each, due, minuteOf(41), futurejobs.DecidedTick{At: minuteOf(20), Missed: 1, Outcome: futurejobs.TickPlanned, Next: minuteOf(30)}, ""},
		"all but twelve": {each, due, minuteOf(160), futurejobs.DecidedTick{At: minuteOf(130), Missed: 12, Outcome: futurejobs.TickPlanned, Next: minuteOf(140)}, ""},
		"all too late": {
			each, once, minuteOf(41),
			futurejobs.DecidedTick{At: minuteOf(10), Outcome: futurejobs.TickSkipped},
			"info: rule due, stored schedules, since the tick of a at 2026-05-04T10:10:00Z: ticks found later than catch_up.after, 30m, and skipped: 1",
		},
		"unreadable": {
			active, broken, minuteOf(10),
			futurejobs.DecidedTick{At: minuteOf(10), Outcome: futurejobs.TickFailed, Reason: `"@never" is not a schedule; did you mean "@every"?`},
			"error: rule due, stored schedules, since the tick of a at 2026-05-04T10:10:00Z: schedules that cannot be read any more and do not tick, so save them again: 1",
		},
	} {
		got := c.rule.Decide(c.s, c.now)
		c.want.Schedule = c.s
		if diff := cmp.Diff(c.want, got); diff != "" {
			t.Errorf("%s (-want +got):\n%s", name, diff)
		}
		remark, ok := c.rule.Remark([]futurejobs.DecidedTick{got})
		if ok != (c.remarks != "") || ok && string(remark.Severity)+": "+remark.Text != c.remarks {
			t.Errorf("%s: %s: %s, want %q", name, remark.Severity, remark.Text, c.remarks)
		}
	}
}

// The body of an event is that of the schedule, else that of the rule, else it has the schedule and the tick.
func TestStoredEmission(t *testing.T) {
	planned := futurejobs.PlannedTick{ScheduleTick: futurejobs.ScheduleTick{ScheduleRef: futurejobs.ScheduleRef{RuleID: 7, ID: "a/1"}, At: minuteOf(10), DecidedAt: minuteOf(10), Missed: 2, Attempts: 1}}
	own := planned
	own.Data = []byte(`{"from": "schedule"}`)
	bare := storedRule(t, `trigger: {schedule: "@stored", emit: {subject: reports.due}}`+"\n")
	for _, c := range []struct {
		rule StoredRule
		tick futurejobs.PlannedTick
		want string
	}{
		{storedRule(t, storedTrigger), own, `{"from": "schedule"}`},
		{storedRule(t, storedTrigger), planned, `{"from":"rule"}`},
		{bare, planned, `{"schedule":"a/1","tick":"2026-05-04T10:10:00Z","missed":2}`},
	} {
		got, err := c.rule.Emission(c.tick)
		if err != nil {
			t.Fatal(err)
		}
		want := futurejobs.Emission{Rule: "due", Subject: "reports.due", ID: "due/a/1/1777889400", Data: []byte(c.want), At: minuteOf(10), Missed: 2, Schedule: "a/1"}
		if diff := cmp.Diff(want, got); diff != "" {
			t.Errorf("event (-want +got):\n%s", diff)
		}
	}
	for name, c := range map[string]struct {
		attempts int
		late     time.Duration
		want     bool
	}{"first attempt": {1, time.Minute, false}, "second attempt": {2, 0, true}, "after a restore": {1, time.Minute + time.Second, true}} {
		tick := planned
		tick.Attempts, tick.DecidedAt = c.attempts, tick.At.Add(c.late)
		if got := tick.MayBeStored(); got != c.want {
			t.Errorf("%s: the event may be stored: %v", name, got)
		}
	}
}

// A rule with another trigger, or an unknown one, has no stored schedules.
func TestStoredRuleOfOtherTrigger(t *testing.T) {
	b := StoredCatalog{catalogOf(t, map[int]string{0: storedTrigger, 1: "trigger: {schedule: \"@daily\", emit: {subject: a}}\n"})}
	if _, err := b.StoredRule("due"); err == nil || !strings.Contains(err.Error(), `the rule has no stored schedules, so those that it had can be deleted only; write trigger: {schedule: "@stored"`) {
		t.Errorf("a rule with a schedule of its own: %v", err)
	}
	if _, err := b.StoredRule("other"); !errors.Is(err, futurejobs.ErrNotFound) {
		t.Errorf("an unknown rule: %v", err)
	}
	if _, all := b.StoredRules(); len(all) != 0 {
		t.Errorf("%d rules have stored schedules", len(all))
	}
}
