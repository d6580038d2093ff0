package rules

import (
	"time"

	"deadman/rules/bodies"

	"deadman/checks"
	futurejobs "deadman/future_jobs"
	"deadman/internal/calendars"
)

// jobContext holds the values of a job that its steps and texts are computed from.
type jobContext struct {
	scope
	from      time.Time // from when steps are counted; set by timeline
	slot      time.Time // of the check
	alertedAt time.Time // the slot of the first alert; zero: none
	// receivingSince is since when heartbeats have been received without a gap; zero: no relevant gap.
	receivingSince time.Time
	pauses         []checks.Pause
}

// contextOfCheck returns the context of a check.
func contextOfCheck(c checks.Check) jobContext {
	event := bodies.Stored(c.Event)
	state := event
	var own []byte
	if c.State != nil && !sameBytes(c.State, c.Event) {
		own, state = c.State, bodies.Stored(c.State)
	}
	if c.Queried {
		state = state.WithFound(c.Found)
	}
	size := event.Size()
	if state != event {
		size += state.Size()
	}
	spend := budgetFor(size)
	return jobContext{
		scope:          scope{event: event, state: state, key: c.Key, since: c.Since, rule: c.Rule, count: c.Count, own: own, spend: &spend},
		slot:           c.Slot,
		alertedAt:      c.FirstAlertAt,
		receivingSince: c.ReceivingSince,
		pauses:         c.Pauses,
	}
}

// contextOf returns the context of a job.
func contextOf(j futurejobs.Job) jobContext {
	return contextOfCheck(checks.Check{
		Key: j.Key, Event: j.Event, State: j.Known(), Since: j.Since, Count: j.CheckCount, Pauses: j.Pauses,
	})
}

// sameBytes reports whether two bodies share their memory, to avoid decoding it twice.
func sameBytes(a, b []byte) bool {
	return len(a) == len(b) && (len(a) == 0 || &a[0] == &b[0])
}

// passed returns the time when a span of a calendar's time has passed since the given time. In a pause time is
// suspended.
func passed(of *calendars.Calendar, since time.Time, span time.Duration, pauses []checks.Pause) time.Time {
	for _, p := range pauses {
		if !p.To.After(since) {
			continue
		}
		if p.From.After(since) {
			open := of.Between(since, p.From)
			if open >= span {
				break
			}
			span -= open
		}
		since = p.To
	}
	return of.Add(since, span)
}

func earliest(a, b time.Time) time.Time {
	if b.Before(a) {
		return b
	}
	return a
}

func latest(a, b time.Time) time.Time {
	if b.After(a) {
		return b
	}
	return a
}
