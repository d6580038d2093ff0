package rules

import (
	"cmp"
	"fmt"
	"time"

	"deadman/rules/bodies"
	"deadman/rules/document"

	futurejobs "deadman/future_jobs"
	"deadman/internal/schedules"
	"deadman/internal/timezones"
)

// ticking is the schedule of a rule.
type ticking struct {
	schedule schedules.Schedule // @every counts from 1970: a rule's own beginning is not known here
	zone     *time.Location
	keys     []string // of the jobs that each tick creates; nil: the tick is the key
}

// keysAt returns the keys of the jobs that a tick creates.
func (t *ticking) keysAt(tick time.Time) []string {
	if len(t.keys) > 0 {
		return t.keys
	}
	return []string{tick.UTC().Format(time.RFC3339)}
}

// scheduleCompiler compiles a schedule trigger.
type scheduleCompiler struct{ subscriptionCompiler }

// schedule compiles a trigger that ticks.
func (c scheduleCompiler) schedule(t document.Trigger) {
	c.only("schedule", t, "key", "if", "since", "shape")
	if t.IsStored() {
		c.stored(t)
		return
	}
	schedule, zone := c.ticks("/trigger", t.Schedule, t.Zone)
	c.keys("/trigger/keys", t.Keys)
	if schedule == nil {
		return
	}
	c.ticking = &ticking{schedule, zone, t.Keys}
	c.checkTickRate(t)
	if t.Emit == nil {
		return
	}
	if t.Emit.Webhook != "" {
		c.problem("/trigger/emit/webhook", `only the events of stored schedules are posted; write schedule: "@stored", and store a schedule, or emit the event on a subject`)
	}
	c.emit(t)
}

// longestCaughtUp is the longest time of missed ticks that each emit an event.
const longestCaughtUp = document.Duration(24 * time.Hour)

// stored compiles a trigger with stored schedules.
func (c scheduleCompiler) stored(t document.Trigger) {
	if t.Zone != "" {
		c.problem("/trigger/zone", "each stored schedule has its own zone; remove this field")
	}
	if c.document.CatchUp.Do == document.Expire {
		c.problem("/catch_up/do", "a stored schedule emits events, and an event does not expire; write skip, run or all")
	}
	if c.document.CatchUp.Do == document.All && c.document.CatchUp.After > longestCaughtUp {
		c.problem("/catch_up/after", "%s is more than %s, the most for all missed ticks; write a shorter time, or do: run", c.document.CatchUp.After, longestCaughtUp)
	}
	if t.Emit == nil {
		c.problem("/trigger/emit", "the ticks of stored schedules emit an event; write emit: {subject: reports.due}, and start jobs by a rule with the trigger event: reports.due")
		return
	}
	c.emit(t)
}

// ticks compiles a schedule in a named zone; nil: its error was reported. A schedule has to be valid in every zone.
func (c scheduleCompiler) ticks(pointer, text, name string) (schedules.Schedule, *time.Location) {
	zone, err := timezones.ParseOrUTC(name)
	c.require(pointer+"/zone", err)
	if err != nil {
		zone = time.UTC
	}
	schedule, err := schedules.Parse(text, zone, c.document.Name)
	c.require(pointer+"/schedule", err)
	if err != nil {
		return nil, zone
	}
	return schedule, zone
}

// checkTickRate refuses a rule that restarts its jobs at every tick before an alert is raised, even if only for some
// keys. A rule with a computed step is left to the preview.
func (c scheduleCompiler) checkTickRate(t document.Trigger) {
	d := c.document
	gap := document.Duration(c.ticking.schedule.Shortest())
	if len(t.Keys) == 0 || d.Again != document.Restart || gap == 0 || len(d.Escalate) == 0 {
		return
	}
	first := document.MaxDuration
	for _, s := range d.Escalate {
		if s.After.Computed != "" || s.At != "" || s.Of != "" || s.Within != "" {
			return
		}
		if s.Every == 0 {
			first = min(first, s.After.Fixed)
		} else {
			first = min(first, s.Every)
		}
	}
	if d.Spread > d.Slot {
		first += d.Spread - d.Slot // of the key with the last offset
	}
	if slot := max(d.Slot, 1); (first+slot-1)/slot*slot >= gap {
		c.problem("/again", "a tick comes %s after the previous one and restarts the job before the first step is due (slot %s), so the rule never alerts; write again: keep, or an earlier first step", gap, d.Slot)
	}
}

// emit checks the event that a tick publishes, and that the rule has no fields for jobs.
func (c scheduleCompiler) emit(t document.Trigger) {
	d := c.document
	c.receiver(*t.Emit)
	if len(t.Emit.Data) > bodies.MaxBytes {
		c.problem("/trigger/emit/data", "the data has %d bytes, the most is %d", len(t.Emit.Data), bodies.MaxBytes)
	}
	for _, field := range []struct {
		name    string
		written bool
	}{
		{"trigger/keys", t.Keys != nil},
		{"update", len(d.Update) > 0},
		{"resolve", len(d.Resolve) > 0},
		{"pause", len(d.Pause) > 0},
		{"lookup", d.Lookup != nil},
		{"while", d.While != ""},
		{"escalate", len(d.Escalate) > 0},
		{"recheck", d.Recheck != ""},
		{"handler", d.Handler != ""},
		{"keep", d.Keep != nil},
	} {
		if field.written {
			c.problem("/"+field.name, "a rule that emits events creates no jobs; remove this field, or move it to a rule with the trigger event: %s", clip(cmp.Or(t.Emit.Subject, "imports.due"), 80))
		}
	}
}

// receiver checks the receiver of events: a subject or a webhook.
func (c scheduleCompiler) receiver(e document.Emit) {
	if e.Webhook != "" {
		c.webhook(e)
		return
	}
	switch wrong := checkSubject(e.Subject); {
	case e.Subject == "":
		c.problem("/trigger/emit/subject", "the subject is missing; write the subject to publish the event on, such as imports.due")
	case wrong != "":
		c.problem("/trigger/emit/subject", "%s", wrong)
	case wildcardsIn(e.Subject) > 0:
		c.problem("/trigger/emit/subject", "%q has wildcards, but an event is published on one subject; write one, such as imports.due", clip(e.Subject, 80))
	}
	if e.Attempts != 0 || e.Interval != 0 {
		c.problem("/trigger/emit/attempts", "an event for a stream is published until the stream has it; remove attempts and interval")
	}
}

// longestPosts is the longest time of all attempts to post an event.
const longestPosts = 24 * time.Hour

// webhook checks a receiver of events over HTTP.
func (c scheduleCompiler) webhook(e document.Emit) {
	if e.Subject != "" {
		c.problem("/trigger/emit/webhook", "an event has one receiver; remove subject or webhook")
	}
	if e.Interval < 0 {
		c.problem("/trigger/emit/interval", "%s is negative", e.Interval)
		return
	}
	if w := webhookOf(e); w.Longest() > longestPosts {
		c.problem("/trigger/emit/attempts", "%d attempts, %s apart and twice as long after each, may take more than %s; lower attempts or interval", w.Attempts, document.Duration(w.Interval), document.Duration(longestPosts))
	}
}

// webhookOf returns the receiver of events over HTTP.
func webhookOf(e document.Emit) *futurejobs.Webhook {
	return &futurejobs.Webhook{
		Channel: e.Webhook, Attempts: cmp.Or(e.Attempts, document.DefaultPosts), Interval: time.Duration(cmp.Or(e.Interval, document.DefaultPostInterval)),
	}
}

// IsOver warns of a schedule that does not tick any more after now. It is no reason to refuse a rule: its files stay in
// their folder.
func IsOver(d document.Document, now time.Time) []string {
	s := scheduleOf(d)
	if s == nil || now.IsZero() {
		return nil
	}
	if _, more := s.Next(now); more {
		return nil
	}
	return []string{fmt.Sprintf("schedule: %s is over, so the rule never ticks; write a time to come, or a crontab", clip(d.Trigger.Schedule, 80))}
}

// scheduleOf returns the rule's schedule, from 1970; nil: it does not tick, or the schedule is unreadable. It needs no
// environment, so that a rule with a missing calendar still has its ticks.
func scheduleOf(d document.Document) schedules.Schedule {
	if d.Trigger.Schedule == "" || d.Trigger.IsStored() {
		return nil
	}
	zone, err := timezones.ParseOrUTC(d.Trigger.Zone)
	if err != nil {
		return nil
	}
	s, err := schedules.Parse(d.Trigger.Schedule, zone, d.Name)
	if err != nil {
		return nil
	}
	return s
}
