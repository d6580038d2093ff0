package faults

import (
	"context"
	"fmt"
	"strconv"
	"time"

	"github.com/nats-io/nats.go/jetstream"
)

// The rules of ticks/due.yaml, and the effects of their ticks.
const (
	TickSource  = "TICKS"
	TickSubject = "ticks.due"

	tickEmits = "import-due"     // each tick emits an event
	tickWaits = "import-missing" // each tick creates a job that outlasts the campaign
	emitEvery = 8 * time.Second  // longer than the restart of a killed node: the next tick counts one that was published and not committed
	waitEvery = time.Second
)

// tick is the result of a tick, which also counts the ticks missed just before it.
type tick struct {
	at     time.Time
	missed int
}

// CheckTicks checks P1 of ticks, at any moment: each led to one job or one event, or is counted as missed by a later
// one.
func (c *Checker) CheckTicks(ctx context.Context) error {
	saved, emitted, err := c.tickCursor(ctx, tickEmits) // before its effects, which are at least as recent
	if err != nil {
		return err
	}
	events, breaches, err := c.emissions(ctx)
	if err != nil {
		return err
	}
	breaches = append(breaches, gaps(tickEmits, emitEvery, saved, emitted, events)...)
	saved, startedAt, err := c.tickCursor(ctx, tickWaits)
	if err != nil {
		return err
	}
	waits, err := c.waits(ctx)
	if err != nil {
		return err
	}
	return join(append(breaches, gaps(tickWaits, waitEvery, saved, startedAt, waits)...))
}

// before returns the last tick before those that a tick counts.
func (t tick) before(every time.Duration) time.Time {
	return t.at.Add(-time.Duration(t.missed+1) * every)
}

// gaps returns the ticks of a rule without effect, from its save up to its cursor.
func gaps(rule string, every time.Duration, saved, cursor time.Time, all []tick) (breaches []string) {
	last := saved.Add(time.Second) // ticks are whole seconds
	for _, t := range all {
		if from := t.before(every); from.After(last) {
			breaches = append(breaches, fmt.Sprintf("P1: no tick of %s between %s and %s had an effect", rule, last, t.at))
		}
		last = t.at
	}
	if cursor.After(last) {
		breaches = append(breaches, fmt.Sprintf("P1: the ticks of %s up to %s are applied, and those after %s had no effect", rule, cursor, last))
	}
	return breaches
}

// tickCursor returns the time a rule was saved and its last applied tick; the cursor's start is not a tick.
func (c *Checker) tickCursor(ctx context.Context, rule string) (saved, at time.Time, err error) {
	err = c.DB.QueryRowContext(ctx, `SELECT v.saved_at, coalesce(c.last_at, v.saved_at) FROM rule r
		JOIN rule_version v ON v.rule_id = r.id
		LEFT JOIN event_cursor c ON c.stream = 'schedule/' || r.id
		WHERE r.name = $1 ORDER BY v.version LIMIT 1`, rule).Scan(&saved, &at)
	return saved, at, err
}

// waits returns the ticks that created jobs. None of the jobs ends in a run.
func (c *Checker) waits(ctx context.Context) (all []tick, err error) {
	rows, err := c.DB.QueryContext(ctx, `SELECT j.since_at, (j.event::json->>'missed')::int FROM future_job j
		JOIN rule r ON r.id = j.rule_id WHERE r.name = $1 ORDER BY j.since_at`, tickWaits)
	if err != nil {
		return nil, err
	}
	defer rows.Close()
	for rows.Next() {
		var t tick
		if err := rows.Scan(&t.at, &t.missed); err != nil {
			return nil, err
		}
		all = append(all, t)
	}
	return all, rows.Err()
}

// emissions returns the ticks that emitted an event, and breaches for those that emitted two. A tick whose event was
// published and not committed counts as missed if the next one came first.
func (c *Checker) emissions(ctx context.Context) (all []tick, breaches []string, err error) {
	seen := map[string]bool{}
	err = c.read(ctx, TickSource, headersOnly, func(msg jetstream.Msg, meta *jetstream.MsgMetadata) error {
		id, missed := msg.Headers().Get("ce-id"), msg.Headers().Get("ce-missed")
		at, err := time.Parse(time.RFC3339, msg.Headers().Get("ce-time"))
		if err != nil {
			return fmt.Errorf("event %d: %w", meta.Sequence.Stream, err)
		}
		n, err := strconv.Atoi(missed)
		if err != nil {
			return fmt.Errorf("event %d: %w", meta.Sequence.Stream, err)
		}
		if seen[id] {
			breaches = append(breaches, fmt.Sprintf("P1: event %s of a tick is in the stream twice", id))
		}
		seen[id] = true
		all = append(all, tick{at, n})
		return nil
	})
	return all, breaches, err
}
