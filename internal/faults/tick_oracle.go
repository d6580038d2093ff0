package faults

import (
	"context"
	"fmt"
	"strconv"
	"time"

	"github.com/nats-io/nats.go/jetstream"
)

// The rules of ticks/due.yaml, and where their ticks lead.
const (
	TickSource  = "TICKS"
	TickSubject = "ticks.due"

	tickEmits = "import-due"     // each tick emits an event
	tickWaits = "import-missing" // each tick begins a wait, for longer than the campaign
	emitEvery = 8 * time.Second  // longer than a killed node takes to serve again: the next tick counts for one that was published and not committed
	waitEvery = time.Second
)

// tick is what became of a tick: it counts for those that were missed just before it.
type tick struct {
	at     time.Time
	missed int
}

// CheckTicks checks P1 of ticks, at any moment: each led to a wait, or an event, once, or is counted as
// missed by the one that did.
func (c *Checker) CheckTicks(ctx context.Context) error {
	saved, emitted, err := c.tickCursor(ctx, tickEmits) // before what came of it, which is as far, or further
	if err != nil {
		return err
	}
	events, breaches, err := c.emissions(ctx)
	if err != nil {
		return err
	}
	breaches = append(breaches, gaps(tickEmits, emitEvery, saved, emitted, events)...)
	saved, began, err := c.tickCursor(ctx, tickWaits)
	if err != nil {
		return err
	}
	waits, err := c.waits(ctx)
	if err != nil {
		return err
	}
	return join(append(breaches, gaps(tickWaits, waitEvery, saved, began, waits)...))
}

// before is the tick before those that a tick counts for.
func (t tick) before(every time.Duration) time.Time {
	return t.at.Add(-time.Duration(t.missed+1) * every)
}

// gaps says which ticks of a rule became nothing, from its save up to where its cursor stands.
func gaps(rule string, every time.Duration, saved, cursor time.Time, all []tick) (breaches []string) {
	last := saved.Add(time.Second) // ticks are whole seconds
	for _, t := range all {
		if from := t.before(every); from.After(last) {
			breaches = append(breaches, fmt.Sprintf("P1: no tick of %s between %s and %s came of anything", rule, last, t.at))
		}
		last = t.at
	}
	if cursor.After(last) {
		breaches = append(breaches, fmt.Sprintf("P1: the ticks of %s up to %s are done, and after %s nothing came of them", rule, cursor, last))
	}
	return breaches
}

// tickCursor is when a rule was saved, and the last tick of it that was applied; one it begins
// with is no tick.
func (c *Checker) tickCursor(ctx context.Context, rule string) (saved, at time.Time, err error) {
	err = c.DB.QueryRowContext(ctx, `SELECT v.saved_at, coalesce(c.last_at, v.saved_at) FROM rule r
		JOIN rule_version v ON v.rule_id = r.id
		LEFT JOIN event_cursor c ON c.stream = 'schedule/' || r.id
		WHERE r.name = $1 ORDER BY v.version LIMIT 1`, rule).Scan(&saved, &at)
	return saved, at, err
}

// waits are the ticks that began waits. None of them ends in a run.
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

// emissions are the ticks that emitted an event, and those that did so twice. One that was emitted and
// not committed counts as missed when the next came meanwhile.
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
