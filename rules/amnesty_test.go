package rules_test

import (
	"encoding/json"
	"strings"
	"testing"
	"time"

	"deadman/checks"
)

const (
	everyDay = `
name: backup
entity: host
trigger: {heartbeat: {every: 24h, grace: 30m}}
escalate: [{after: 0s, step: call}, {after: 1h, step: boss}]
`
	eachNight = `
name: backup
entity: host
trigger: {heartbeat: {schedule: "0 2 * * *", grace: 30m}}
escalate: [{after: 10m, step: call}]
`
)

// TestAmnesty shows when a wait begins anew, because a beat may have come unheard.
func TestAmnesty(t *testing.T) {
	for _, c := range []struct {
		name, rule          string
		slot, heard, saidAt string // after the last beat, at 10:00
		state               string
		count, step         int
		next                string // empty: it is said
	}{
		{name: "heard all the while", rule: everyTen, slot: "10:12:00"},
		{name: "heard since the beat", rule: everyTen, slot: "10:12:00", heard: "10:00:00"},
		{name: "heard since before it", rule: everyTen, slot: "10:12:00", heard: "09:00:00"},
		{name: "deaf for long", rule: everyTen, slot: "10:12:00", heard: "11:00:00", next: "11:12:00"},
		{name: "deaf for a moment", rule: everyTen, slot: "10:12:00", heard: "10:05:00", next: "10:17:00"},
		{name: "and silent from then on", rule: everyTen, slot: "10:17:00", heard: "10:05:00", count: 1},
		{name: "deaf for a third time", rule: everyTen, slot: "10:40:00", heard: "10:35:00", count: 2, next: "10:47:00"},
		{name: "deaf all the time", rule: everyTen, slot: "10:50:00", heard: "10:45:00", count: 3},
		{name: "what was heard of", rule: everyTen, slot: "10:12:00", heard: "11:00:00", state: `{"heartbeat":{"kind":"fail","reason":"failed","overdue_at":"2026-03-02T10:11:00Z"}}`},
		{name: "who never reported", rule: everyTen, slot: "10:12:00", heard: "11:00:00", state: `{"heartbeat":{"kind":"expected"}}`, next: "11:12:00"},
		{name: "a long wait, of which no beat was due", rule: everyDay, slot: "+1 10:30:00", heard: "20:00:00"},
		{name: "a long wait, of which the beat was due", rule: everyDay, slot: "+1 10:30:00", heard: "+1 09:40:00", next: "+2 10:10:00"},
		{name: "a long wait, for a second time", rule: everyDay, slot: "+2 10:10:00", heard: "+2 10:09:00", count: 1},
		{name: "a schedule, before the tick", rule: eachNight, slot: "+1 02:40:00", heard: "+1 02:00:00"},
		{name: "a schedule, after the tick", rule: eachNight, slot: "+1 02:40:00", heard: "+1 02:00:01", next: "+2 02:40:00"},
		{name: "what was said stays", rule: everyDay, slot: "+1 11:00:00", heard: "+1 10:45:00", saidAt: "+1 10:30:00", count: 1, step: 1, next: "+1 11:30:00"},
		{name: "and is climbed from", rule: everyDay, slot: "+1 11:30:00", heard: "+1 10:45:00", saidAt: "+1 10:30:00", count: 1, step: 1},
		{name: "a step is not left out", rule: everyDay, slot: "+3 12:00:00", heard: "+3 11:59:00", count: 1},
	} {
		t.Run(c.name, func(t *testing.T) {
			d := newDevice(t, c.rule)
			check := checks.Check{
				Key: "pump-7", Since: at("10:00:00"), Slot: day(t, c.slot), At: day(t, c.slot), Count: c.count, Step: c.step,
				HeardSince: day(t, c.heard), SaidAt: day(t, c.saidAt),
			}
			if c.state != "" {
				check.State = json.RawMessage(c.state)
			}
			answer, err := d.rule.Engine().Handler.Check(t.Context(), check)
			if err != nil {
				t.Fatal(err)
			}
			switch said := answer.Step > c.step; {
			case c.next == "" && (!said || answer.Step != c.step+1):
				t.Errorf("%d steps are taken, the next look is at %s; want one more", answer.Step, answer.Next)
			case c.next != "" && (said || !answer.Next.Equal(day(t, c.next))):
				t.Errorf("%d steps are taken, the next look is at %s; want %s", answer.Step, answer.Next, day(t, c.next))
			}
		})
	}
}

// day is an instant of the day of the last beat, or of one some days after it.
func day(t *testing.T, text string) time.Time {
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
