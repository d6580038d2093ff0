package faults

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/nats-io/nats.go/jetstream"
)

// The rule of schedules/due.yaml, and the stream of its events. Its schedules tick each second.
const (
	ScheduleRule    = "report-due"
	ScheduleSource  = "REPORTS"
	ScheduleSubject = "reports.due"

	scheduleEvery = time.Second
)

// ScheduleChange is an acknowledged change of a stored schedule.
type ScheduleChange struct {
	ID   string
	Data string    // of its events from then on; empty: it emits none
	At   time.Time // of the acknowledgement
}

// storedTick is a recorded tick of a stored schedule.
type storedTick struct {
	id      string
	at      time.Time
	outcome string
	missed  int
}

func (t storedTick) event() string {
	return fmt.Sprintf("%s/%s/%d", ScheduleRule, t.id, t.at.Unix())
}

// CheckSchedules checks P1, P5 and P10 of stored schedules, at any moment: each tick is recorded, or counted as missed by the
// next one; the stream has exactly one event of each emitted tick, none of one without, and none after the
// acknowledgement of a change that ended it. At rest no tick waits for long.
func (c *Checker) CheckSchedules(ctx context.Context, changes []ScheduleChange) error {
	before, err := c.storedTicks(ctx)
	if err != nil {
		return err
	}
	events, breaches, err := c.scheduleEvents(ctx, changes)
	if err != nil {
		return err
	}
	after, err := c.storedTicks(ctx)
	if err != nil {
		return err
	}
	now := time.Now()
	for _, t := range before {
		if t.outcome == "emitted" && !events[t.event()] {
			breaches = append(breaches, fmt.Sprintf("P1: tick %s is emitted, and the stream has no event of it", t.event()))
		}
	}
	changed, last := make(map[string]bool), make(map[string]storedTick)
	for _, one := range changes {
		changed[one.ID] = true
	}
	for _, t := range after {
		if slices.Contains([]string{"paused", "skipped", "canceled", "failed"}, t.outcome) && events[t.event()] {
			breaches = append(breaches, fmt.Sprintf("P5: tick %s is %s, and the stream has an event of it", t.event(), t.outcome))
		}
		if t.outcome == "planned" && now.Sub(t.at) > 10*time.Second {
			breaches = append(breaches, fmt.Sprintf("P12: tick %s is planned, %s after it", t.event(), now.Sub(t.at)))
		}
		delete(events, t.event())
		if from := t.at.Add(-time.Duration(t.missed+1) * scheduleEvery); last[t.id].id != "" && !changed[t.id] && !from.Equal(last[t.id].at) {
			breaches = append(breaches, fmt.Sprintf("P1: no tick of %s between %s and %s is recorded or missed", t.id, last[t.id].at, t.at))
		}
		last[t.id] = t
	}
	for event := range events {
		breaches = append(breaches, fmt.Sprintf("P1: event %s is of no recorded tick", event))
	}
	for id, t := range last {
		if late := now.Sub(t.at); !changed[id] && late > 10*time.Second {
			breaches = append(breaches, fmt.Sprintf("P12: the last tick of %s is %s old", id, late))
		}
	}
	return join(breaches)
}

// storeTime is a time as either database has it: SQLite has microseconds since 1970.
type storeTime time.Time

// Scan implements sql.Scanner.
func (t *storeTime) Scan(from any) error {
	switch v := from.(type) {
	case time.Time:
		*t = storeTime(v)
	case int64:
		*t = storeTime(time.UnixMicro(v))
	default:
		return fmt.Errorf("%T is no time", from)
	}
	return nil
}

// storedTicks returns the recorded ticks by schedule and time.
func (c *Checker) storedTicks(ctx context.Context) (all []storedTick, err error) {
	rows, err := c.DB.QueryContext(ctx, `SELECT t.schedule_id, t.tick_at, t.outcome, t.missed FROM schedule_tick t JOIN rule r ON r.id = t.rule_id
		WHERE r.name = $1 ORDER BY t.schedule_id, t.tick_at`, ScheduleRule)
	if err != nil {
		return nil, err
	}
	defer rows.Close()
	for rows.Next() {
		var t storedTick
		if err := rows.Scan(&t.id, (*storeTime)(&t.at), &t.outcome, &t.missed); err != nil {
			return nil, err
		}
		all = append(all, t)
	}
	return all, rows.Err()
}

// scheduleEvents returns the ids of the events, and breaches for events that are in the stream twice or after a change.
func (c *Checker) scheduleEvents(ctx context.Context, changes []ScheduleChange) (ids map[string]bool, breaches []string, err error) {
	ids = make(map[string]bool)
	err = c.read(ctx, ScheduleSource, !headersOnly, func(msg jetstream.Msg, meta *jetstream.MsgMetadata) error {
		id := msg.Headers().Get("ce-id")
		if ids[id] {
			breaches = append(breaches, fmt.Sprintf("P5: event %s of a schedule is in the stream twice", id))
		}
		ids[id] = true
		for _, one := range changes {
			if of := strings.Split(id, "/")[1]; of == one.ID && meta.Timestamp.After(one.At) && string(msg.Data()) != one.Data {
				breaches = append(breaches, fmt.Sprintf("P10: event %s with the data %s was stored %s after a change to %q", id, msg.Data(), meta.Timestamp.Sub(one.At), one.Data))
			}
		}
		return nil
	})
	return ids, breaches, err
}
