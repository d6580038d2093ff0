package rules_test

import (
	"encoding/json"
	"strings"
	"testing"
	"time"

	"deadman/checks"
	futurejobs "deadman/future_jobs"
	"deadman/internal/calendars"
	"deadman/rules"
)

const (
	everyDay = `
name: backup
entity: host
trigger: {heartbeat: {every: 24h, grace: 30m}}
escalate: [{after: 0s, step: call}, {after: 1h, step: boss}]
`
	everyHour = `
name: backup
entity: host
trigger: {heartbeat: {every: 1h, grace: 5m}}
`
	eachNight = `
name: backup
entity: host
trigger: {heartbeat: {schedule: "0 2 * * *", grace: 30m}}
escalate: [{after: 10m, step: call}]
`
)

// TestGapRestarts shows when a job restarts because a heartbeat may have been missed in a monitoring gap.
func TestGapRestarts(t *testing.T) {
	for _, c := range []struct {
		name, rule               string
		slot, received, raisedAt string // after the last heartbeat, at 10:00
		state                    string
		count, step              int
		next                     string // empty: an alert is raised
	}{
		{name: "heard all the while", rule: tenMinuteRule, slot: "10:12:00"},
		{name: "heard since the beat", rule: tenMinuteRule, slot: "10:12:00", received: "10:00:00"},
		{name: "heard since before it", rule: tenMinuteRule, slot: "10:12:00", received: "09:00:00"},
		{name: "deaf for long", rule: tenMinuteRule, slot: "10:12:00", received: "11:00:00", next: "11:12:00"},
		{name: "deaf for a moment", rule: tenMinuteRule, slot: "10:12:00", received: "10:05:00", next: "10:17:00"},
		{name: "and silent from then on", rule: tenMinuteRule, slot: "10:17:00", received: "10:05:00", count: 1},
		{name: "deaf for a third time", rule: tenMinuteRule, slot: "10:40:00", received: "10:35:00", count: 2, next: "10:47:00"},
		{name: "deaf all the time", rule: tenMinuteRule, slot: "10:50:00", received: "10:45:00", count: 3},
		{name: "what was heard of", rule: tenMinuteRule, slot: "10:12:00", received: "11:00:00", state: `{"heartbeat":{"kind":"fail","reason":"failed","overdue_at":"2026-03-02T10:11:00Z"}}`},
		{name: "who never reported", rule: tenMinuteRule, slot: "10:12:00", received: "11:00:00", state: `{"heartbeat":{"kind":"expected"}}`, next: "11:12:00"},
		{name: "a beat that may have come early", rule: everyHour, slot: "11:05:00", received: "10:54:00", next: "11:59:00"},
		{name: "an hour, for a second time", rule: everyHour, slot: "11:59:00", received: "11:50:00", count: 1, next: "12:55:00"},
		{name: "a long wait, at any time of it", rule: everyDay, slot: "+1 10:30:00", received: "20:00:00", next: "+1 20:30:00"},
		{name: "a long wait, to the end of it", rule: everyDay, slot: "+1 20:30:00", received: "20:00:00", count: 1},
		{name: "a long wait, late in it", rule: everyDay, slot: "+1 10:30:00", received: "+1 09:40:00", next: "+2 10:10:00"},
		{name: "a long wait, for a second time", rule: everyDay, slot: "+2 10:10:00", received: "+2 10:09:00", count: 1},
		{name: "a schedule, before the tick", rule: eachNight, slot: "+1 02:40:00", received: "+1 02:00:00"},
		{name: "a schedule, after the tick", rule: eachNight, slot: "+1 02:40:00", received: "+1 02:00:01", next: "+2 02:40:00"},
		{name: "the raised alert stays", rule: everyDay, slot: "+1 11:00:00", received: "+1 10:45:00", raisedAt: "+1 10:30:00", count: 1, step: 1, next: "+1 11:30:00"},
		{name: "and is climbed from", rule: everyDay, slot: "+1 11:30:00", received: "+1 10:45:00", raisedAt: "+1 10:30:00", count: 1, step: 1},
		{name: "a step is not left out", rule: everyDay, slot: "+3 12:00:00", received: "+3 11:59:00", count: 1},
	} {
		t.Run(c.name, func(t *testing.T) {
			d := newDevice(t, c.rule)
			check := checks.Check{
				Key: "pump-7", Since: at("10:00:00"), Slot: parseDay(t, c.slot), At: parseDay(t, c.slot), Count: c.count, Step: c.step,
				ReceivingSince: parseDay(t, c.received), FirstAlertAt: parseDay(t, c.raisedAt),
			}
			if c.state != "" {
				check.State = json.RawMessage(c.state)
			}
			answer, err := d.rule.Engine().Handler.Check(t.Context(), check)
			if err != nil {
				t.Fatal(err)
			}
			switch written := answer.Step > c.step; {
			case c.next == "" && (!written || answer.Step != c.step+1):
				t.Errorf("%d steps are taken, the next check is at %s; want one more", answer.Step, answer.Next)
			case c.next != "" && (written || !answer.Next.Equal(parseDay(t, c.next))):
				t.Errorf("%d steps are taken, the next check is at %s; want %s", answer.Step, answer.Next, parseDay(t, c.next))
			}
		})
	}
}

// TestStepsAfterGapAreCountedFromDeadline shows that a job that was restarted less often than allowed keeps the times
// of its steps: they are counted from the end of the restarted interval, and not from the slot of the first step.
func TestStepsAfterGapAreCountedFromDeadline(t *testing.T) {
	d := newDevice(t, `
name: silent
entity: device
trigger: {heartbeat: {every: 10m, grace: 2m}}
escalate: [{after: 0s, step: call}, {after: 58m, step: boss}]
slot: 5m
`)
	for count := 1; count <= 3; count++ {
		slot, next := "10:20:00", "11:15:00" // 58 minutes after 10:17
		if count == 3 {
			slot, next = "10:15:00", "11:15:00" // 58 minutes after the slot, as the job is not restarted any more
		}
		answer, err := d.rule.Engine().Handler.Check(t.Context(), checks.Check{
			Key: "pump-7", Since: at("10:00:00"), Slot: at(slot), At: at(slot), Count: count, ReceivingSince: at("10:05:00"),
		})
		if err != nil {
			t.Fatal(err)
		}
		if answer.Step != 1 || !answer.Next.Equal(at(next)) {
			t.Errorf("after %d restarts %d steps are taken, the next check is at %s; want 1 and %s", count, answer.Step, answer.Next, next)
		}
	}
}

// TestPostponedTooOften shows that a job that was restarted as often as allowed raises its alert at the next check, and
// that the following step keeps its time.
func TestPostponedTooOften(t *testing.T) {
	known, err := calendars.Parse([]byte("calendars:\n  office: {zone: UTC, days: mon-sun, hours: \"01:00-23:00\"}\n"), "")
	if err != nil {
		t.Fatal(err)
	}
	const ten = "name: silent\nentity: device\ntrigger: {heartbeat: {every: 10m, grace: 2m}}\nslot: 1m\n"
	for _, c := range []struct {
		name, rule string
		most       int           // how often it is postponed
		then       time.Duration // until the next step; 0: as a calendar counts
	}{
		{"at once", ten + "escalate: [{after: 0s}, {after: 1h, step: boss}]\n", 3, time.Hour},
		{"spread", ten + "spread: 10m\nescalate: [{after: 0s}, {after: 1h, step: boss}]\n", 3, time.Hour},
		{"after a while", ten + "escalate: [{after: 30m, step: call}, {after: 1h, step: boss}]\n", 3, 30 * time.Minute},
		{"computed", ten + "escalate: [{after: minutes(event.body == nil ? 30 : 31), step: call}, {after: 1h, step: boss}]\n", 3, 30 * time.Minute},
		{"by a calendar", ten + "escalate: [{after: 1h, of: office, step: call}, {after: 2h, step: boss}]\n", 3, 0},
		{"a day, spread", everyDay + "spread: 30m\n", 1, time.Hour},
	} {
		t.Run(c.name, func(t *testing.T) {
			d := &heartbeatDevice{T: t, rule: compileWith(t, c.rule, known)}
			d.heartbeat("02:00:00", rules.ReceivedHeartbeat{})
			j := *d.job
			var received time.Time
			for checkUntil := 0; ; checkUntil++ {
				slot := j.NextCheckAt
				if checkUntil < c.most+1 {
					received = slot.Add(-time.Minute) // deadman restarted a minute ago
				}
				answer, err := d.rule.Engine().Handler.Check(t.Context(), checks.Check{
					Key: j.Key, Since: j.Since, Slot: slot, At: slot, Count: j.CheckCount, ReceivingSince: received, Event: j.Event, State: j.State,
				})
				switch {
				case err != nil:
					t.Fatal(err)
				case answer.Step > 1 || (answer.Step == 1) != (checkUntil == c.most):
					t.Fatalf("at check %d, at %s, %d steps are taken; want one, at check %d", checkUntil+1, slot, answer.Step, c.most+1)
				case answer.Step == 0:
					j.NextCheckAt, j.CheckCount = answer.Next, j.CheckCount+1
					continue
				case !answer.Next.After(slot), c.then > 0 && answer.Next.Sub(slot) != c.then:
					t.Errorf("the next step is %s after the first; want %s", answer.Next.Sub(slot), c.then)
				}
				// Later gaps do not move the next step.
				again, err := d.rule.Engine().Handler.Check(t.Context(), checks.Check{
					Key: j.Key, Since: j.Since, Slot: answer.Next, At: answer.Next, Count: j.CheckCount + 1, Step: 1, FirstAlertAt: slot,
					ReceivingSince: answer.Next.Add(-time.Second), Event: j.Event, State: j.State,
				})
				if err != nil || again.Step != 2 {
					t.Errorf("at the next check %d steps are taken, %v; want both", again.Step, err)
				}
				return
			}
		})
	}
}

// compileWith returns a rule that may name calendars.
func compileWith(t *testing.T, text string, known calendars.Set) *rules.Rule {
	t.Helper()
	documents, err := rules.ParseAgainst([]byte(text), "", known)
	if err != nil {
		t.Fatal(err)
	}
	rule, err := rules.Compile(documents[0], rules.RuleVersion{RuleID: 7, Version: 3}, known)
	if err != nil {
		t.Fatal(err)
	}
	return rule
}

// parseDay returns a time on the day of the last heartbeat, or some days after it.
func parseDay(t *testing.T, text string) time.Time {
	t.Helper()
	if text == "" {
		return time.Time{}
	}
	days := 0
	if rest, later := strings.CutPrefix(text, "+"); later {
		days, text = int(rest[0]-'0'), rest[2:]
	}
	return at(text).AddDate(0, 0, days)
}

// TestOverdueBefore checks that OverdueBefore agrees with HeartbeatDue for reports of any age, of intervals and schedules.
func TestOverdueBefore(t *testing.T) {
	now := at("12:07:30")
	for _, interval := range []string{"every: 1h, grace: 5m", `schedule: "0 2 * * *", zone: Europe/Berlin, grace: 30m`, `schedule: "*/15 * * * *"`, `schedule: "@every 7m", grace: 1m`, `schedule: "0 0 29 2 *"`} {
		rule := compileRule(t, "name: beat\nentity: host\ntrigger: {heartbeat: {"+interval+"}}\nescalate: [{after: 0s, step: missing}]\n")
		before := rule.OverdueBefore(now)
		for age := 31 * time.Second; age < 80*time.Hour; age += 7*time.Minute + time.Second {
			since := now.Add(-age)
			due := rule.HeartbeatDue(futurejobs.Job{Ref: futurejobs.Ref{Key: "a"}, Since: since, Version: 1})
			if overdue := !due.After(now); overdue != since.Before(before) {
				t.Fatalf("%s: a report at %s is followed by one due at %s, and overdue before %s", interval, since, due, before)
			}
		}
	}
	if other := compileRule(t, "name: order\nentity: order\ntrigger: {event: orders.created, key: event.id}\nescalate: [{after: 1h}]\n"); !other.OverdueBefore(now).IsZero() {
		t.Error("a rule without a heartbeat has a time")
	}
}
