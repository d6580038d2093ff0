package rules

import (
	"cmp"
	"errors"
	"fmt"
	"time"

	"deadman/rules/document"

	futurejobs "deadman/future_jobs"
	"deadman/internal/schedules"
)

// heartbeat is the compiled form of a Heartbeat.
type heartbeat struct {
	kind *expression // the signal of a heartbeat; nil: success
	run  *expression // the run of a heartbeat; nil: none

	every time.Duration
	ticks schedules.Schedule // replaces every: a heartbeat has to come after each tick; nil: every
	zone  *time.Location     // of the ticks, and of times in texts; nil: UTC
	gap   time.Duration      // the shortest between two ticks
	grace time.Duration
	max   time.Duration // 0: the length of a run is unlimited
	min   time.Duration

	tooOften time.Duration // the minimum time between the starts of two runs; 0: none

	expects string // as texts show it: every 10m, grace 2m
}

// heartbeatCompiler compiles a heartbeat trigger.
type heartbeatCompiler struct{ subscriptionCompiler }

// heartbeat compiles an event that has to recur.
func (c heartbeatCompiler) heartbeat(t document.Trigger) subscription {
	h := t.Heartbeat
	c.only("heartbeat", t, "key", "if", "since", "shape", "zone", "keys", "emit")
	const p = "/trigger/heartbeat"
	w := subscription{}
	if h.Event != "" || h.Key != "" {
		w = c.watch(p, document.Watch{Event: h.Event, Key: h.Key, If: h.If, Shape: h.Shape}, "carries the heartbeat")
		c.watched[len(c.watched)-1].merged = true
	} else {
		c.checkPingFields(p, h)
	}
	c.beats = &heartbeat{
		kind:  c.expression(p+"/kind", h.Kind, inKind.withSubject(h.Event)),
		run:   c.expression(p+"/run", h.Run, inRun.withSubject(h.Event)),
		every: time.Duration(h.Every), grace: time.Duration(h.Grace),
		max: time.Duration(h.Max), min: time.Duration(h.Min), tooOften: time.Duration(h.TooOften),
	}
	w.wild = w.wild || wild(c.beats.kind, c.beats.run)
	c.often(p, h)
	for _, span := range []struct {
		name  string
		value document.Duration
	}{{"grace", h.Grace}, {"max", h.Max}, {"min", h.Min}, {"too_often", h.TooOften}} {
		if span.value < 0 || span.value > document.MaxDuration {
			c.problem(p+"/"+span.name, "%s is not between 0 and %s", span.value, document.MaxDuration)
		}
	}
	if h.Max > 0 && h.Min >= h.Max {
		c.problem(p+"/min", "%s is not less than max, %s, so every run would be too short or too long", h.Min, h.Max)
	}
	c.checkTooOften(p+"/too_often", h)
	c.keys(p+"/keys", h.Keys)
	if c.document.Again == document.Restart {
		c.problem("/again", "again does not apply to a heartbeat, because each one postpones the job; remove again")
	}
	return w
}

// checkPingFields checks a heartbeat without an event: fields that refer to an event do not apply to a ping.
func (c heartbeatCompiler) checkPingFields(pointer string, h *document.Heartbeat) {
	for _, field := range []struct {
		name    string
		written bool
	}{{"if", h.If != ""}, {"kind", h.Kind != ""}, {"run", h.Run != ""}, {"shape", h.Shape != nil}} {
		if field.written {
			c.problem(pointer+"/"+field.name, "the field does not apply to pings; add event, or remove %s", field.name)
		}
	}
	c.watched = append(c.watched, watched{subject: pings, shape: pingShape, pointer: pointer, merged: true})
}

// checkTooOften refuses a minimum time between runs that runs in time do not keep.
func (c heartbeatCompiler) checkTooOften(pointer string, h *document.Heartbeat) {
	interval, name := h.Every, "every"
	if c.beats.ticks != nil {
		interval, name = document.Duration(c.beats.gap), "the shortest time between two ticks of the schedule"
	}
	if h.TooOften > 0 && interval > 0 && h.TooOften >= interval {
		c.problem(pointer, "%s is not less than %s, %s, so runs in time would start too often; lower too_often", h.TooOften, name, interval)
	}
}

// checkHeartbeatSource refuses steps with times that an entity without any heartbeat does not have.
func (c heartbeatCompiler) checkHeartbeatSource(d document.Document, steps []step) {
	if len(d.ExpectedKeys()) == 0 {
		return
	}
	for _, s := range steps {
		for _, x := range []*expression{s.computed, s.at} {
			if x != nil && x.readsEvent() {
				c.problem("/trigger/heartbeat/keys", "step %s depends on event, but an entity that never sent a heartbeat has no event; write a fixed time, or remove keys", s.name)
				return
			}
		}
	}
}

// often compiles the interval of the heartbeat, given by exactly one field.
func (c heartbeatCompiler) often(pointer string, h *document.Heartbeat) {
	switch {
	case h.Every == 0 && h.Schedule == "":
		c.problem(pointer+"/every", "the interval of the heartbeat is missing; write every: 10m, or a crontab as schedule: \"0 2 * * *\"")
	case h.Every != 0 && h.Schedule != "":
		c.problem(pointer, "a heartbeat has an interval or a schedule, not both; keep one of every and schedule")
	case h.Schedule == "" && (h.Every < document.Duration(time.Second) || h.Every > document.MaxDuration):
		c.problem(pointer+"/every", "%s is not between 1s and %s", h.Every, document.MaxDuration)
	}
	c.beats.expects = h.IntervalText()
	if h.Schedule != "" {
		c.follows(pointer, h)
	} else if h.Zone != "" {
		c.problem(pointer+"/zone", "zone needs a schedule; remove it")
	}
}

// follows compiles the schedule that a heartbeat has to follow.
func (c heartbeatCompiler) follows(pointer string, h *document.Heartbeat) {
	ticks, zone := scheduleCompiler(c).ticks(pointer, h.Schedule, h.Zone)
	if ticks == nil {
		return
	}
	gap := ticks.Shortest()
	if gap == 0 {
		c.problem(pointer+"/schedule", "%s ticks only once, but a heartbeat recurs; write a crontab, or @every", clip(h.Schedule, 80))
	}
	c.checkSpacing(document.Duration(gap))
	c.beats.ticks, c.beats.zone, c.beats.gap = ticks, zone, gap
}

// noGapSince returns when a heartbeat is overdue, provided that all heartbeats after since were received.
//
//  1. It is overdue already, since a known time: a run failed, or the next one began after that.
//  2. While runs of bounded length are in progress, it is overdue once the first of them takes too long.
//  3. Otherwise it is overdue once the time for the next heartbeat is over, its grace included.
//
// In a pause time is suspended. A heartbeat may come at any time; one that follows a schedule comes after the tick. A
// failure that was received stays, regardless of later gaps.
func (h *heartbeat) noGapSince(w jobContext) (at, since time.Time) {
	p := pulseOf(w.own)
	at, since = p.OverdueAt, w.since
	switch begun, isRunning := h.longest(p); {
	case !at.IsZero():
	case isRunning:
		at, since = passed(nil, begun, h.max, w.pauses), begun
	default:
		at = h.expected(w)
		if h.ticks != nil {
			since = at.Add(-h.grace)
		}
	}
	if p.Kind == Failure {
		since = futurejobs.FarFuture
	}
	return at, since
}

// longest returns when the run in progress for the longest began, if the length of runs is bounded.
func (h *heartbeat) longest(p heartbeatState) (begun time.Time, isRunning bool) {
	if h.max == 0 || len(p.Runs) == 0 {
		return time.Time{}, false
	}
	return p.Runs[0].At, true
}

// isOld returns how long a run may have been in progress when another one succeeds, to be tracked further. Without max
// it is the longest time until the next heartbeat: an aborted run is not tracked for ever.
func (h *heartbeat) isOld() time.Duration {
	switch {
	case h.max > 0:
		return h.max
	case h.ticks != nil:
		return h.gap + h.grace
	}
	return h.every + h.grace
}

// expected returns when the time for the next heartbeat is over. A tick in a pause is left out; the first one after the
// pause counts.
func (h *heartbeat) expected(w jobContext) time.Time {
	if h.ticks == nil {
		return passed(nil, w.since, h.every+h.grace, w.pauses)
	}
	tick := h.tick(w.since)
	for _, p := range w.pauses {
		if tick.After(p.From) && p.To.After(p.From) {
			tick = latest(tick, h.tick(p.To))
		}
	}
	return passed(nil, tick, h.grace, w.pauses)
}

// tick returns the first tick after a time.
func (h *heartbeat) tick(after time.Time) time.Time {
	if tick, more := h.ticks.Next(after); more {
		return tick
	}
	return futurejobs.FarFuture
}

// overdueLookback is how far overdueBefore looks back for a tick.
const overdueLookback = 400 * futurejobs.Day

// overdueBefore returns Rule.OverdueBefore; of no heartbeat, the zero time.
func (h *heartbeat) overdueBefore(now time.Time) time.Time {
	switch {
	case h == nil:
		return time.Time{}
	case h.ticks == nil:
		return now.Add(-h.every - h.grace)
	}
	through := now.Add(-h.grace)
	_, tick := h.ticks.Between(through.Add(-overdueLookback), through)
	return tick
}

// missedFrom returns since when a heartbeat that came at last had been missed: since the last one, or the tick or the
// run that it was to follow; or since a failure, if that came first.
func (h *heartbeat) missedFrom(p heartbeatState, since time.Time) time.Time {
	begun, isRunning := h.longest(p)
	switch {
	case !p.OverdueAt.IsZero():
		return p.OverdueAt
	case isRunning:
		return begun
	case h.ticks != nil:
		return h.tick(since)
	}
	return since
}

// explain returns why a heartbeat is overdue at a time.
func (h *heartbeat) explain(p heartbeatState, since, at time.Time) string {
	var text string
	awaited := "heartbeat"
	switch p.Kind {
	case Expected: // a person ended the job of the last one, if there was one
		since = p.At
	case Begun: // the start of a run came later
		awaited = "success"
	}
	switch {
	case p.Kind == Failure && p.Run != "":
		text = "run " + p.Run + " " + p.Reason
	case p.Reason != "":
		text = p.Reason
	case h.max > 0 && len(p.Runs) > 0 && !p.Runs[0].At.Add(h.max).After(at):
		text = "run " + p.Runs[0].Name + " has not finished after " + document.Duration(h.max).String()
		if p.Runs[0].Name == "" {
			text = "a run has not finished after " + document.Duration(h.max).String()
		}
	case since.IsZero():
		text = "no heartbeat yet, expected " + h.expects
	default:
		text = "no " + awaited + " since " + h.timeText(since, at) + ", expected " + h.expects
	}
	if p.Dropped > 0 {
		text += fmt.Sprintf(" (%d more unfinished runs are no longer tracked)", p.Dropped)
	}
	return text
}

// timeText returns a time as a sentence shows it: in the zone of the schedule, and without the date if it is recent.
func (h *heartbeat) timeText(t, now time.Time) string {
	layout := "2006-01-02 15:04:05 MST"
	if now.Sub(t) < futurejobs.Day {
		layout = "15:04:05 MST"
	}
	return t.In(cmp.Or(h.zone, time.UTC)).Format(layout)
}

// runOf returns the run that a heartbeat belongs to; empty if it names none.
func (h *heartbeat) runOf(s scope) (string, error) {
	if h.run == nil {
		return "", nil
	}
	v, err := h.run.run(s)
	if absent := (absentError{}); v == nil && err == nil || errors.As(err, &absent) {
		return "", nil
	}
	if err != nil {
		return "", err
	}
	return h.run.keyOf(s)
}

// The limits of consecutive restarts because of monitoring gaps. After them the step that is due raises its alert:
// never to know is as bad as a false alert. A job with an interval of a day or more is postponed only once.
const (
	maxGapRestartsDefault = 3
	longInterval          = futurejobs.Day
)

// maxGapRestarts returns how often the interval may restart.
func (h *heartbeat) maxGapRestarts(w jobContext) int {
	if h.restartDeadline(w).Sub(w.receivingSince) >= longInterval {
		return 1
	}
	return maxGapRestartsDefault
}

// gapLimitReached reports whether a job without an alert is not postponed any more, although a heartbeat may have been
// missed in a gap.
func (h *heartbeat) gapLimitReached(w jobContext) bool {
	if h == nil || w.count == 0 || w.receivingSince.IsZero() || !w.alertedAt.IsZero() {
		return false
	}
	_, since := h.noGapSince(w)
	return w.receivingSince.After(since) && w.count >= h.maxGapRestarts(w)
}

// restartDeadline returns when a heartbeat is overdue if the interval begins at the end of the gap.
func (h *heartbeat) restartDeadline(w jobContext) time.Time {
	if h.ticks == nil {
		return passed(nil, w.receivingSince, h.every+h.grace, w.pauses)
	}
	return passed(nil, h.tick(w.receivingSince), h.grace, w.pauses)
}
