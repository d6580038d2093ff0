package futurejobs

import (
	"context"
	"errors"
	"fmt"
	"time"
)

// learnEvery is how often a starting node polls for heartbeats of other nodes.
const learnEvery = 250 * time.Millisecond

// Learn initializes the clock with the time of the running nodes. The database's clock may have stepped before this
// node started: then the running nodes use the time from before the step, and this node has to, too.
//
// nodes returns the nodes that did not leave, and interval is the time between their heartbeats. Learn returns at
// once if no other node is listed, or the last heartbeat of one is within the interval by the database's clock.
// Otherwise it waits for a heartbeat, for the interval and two seconds: the nodes crashed, or the clock stepped. It
// returns errors of nodes and of the database.
func (c *Clock) Learn(ctx context.Context, nodes func(context.Context) ([]Node, error), interval time.Duration) error {
	c.state.Store(&clockState{})
	if err := c.Sync(ctx); err != nil {
		return err
	}
	sent := c.local()
	all, err := nodes(ctx)
	if err != nil {
		return fmt.Errorf("time of the nodes: %w", err)
	}
	before := seenAt(all)
	if len(before) == 0 || c.isRecent(before, interval) {
		return nil
	}
	until := c.local().Add(interval + 2*maxClockJump)
	c.Waiting(all, until)
	for c.local().Before(until) {
		select {
		case <-ctx.Done():
			return ctx.Err()
		case <-time.After(learnEvery):
		}
		next := c.local()
		if all, err = nodes(ctx); err != nil {
			return fmt.Errorf("time of the nodes: %w", err)
		}
		for id, at := range seenAt(all) {
			if before[id].Equal(at) {
				continue
			}
			c.state.Store(&clockState{last: &clockSample{databaseAt: at.UTC(), sent: sent, arrived: c.local()}})
			var jumped ClockJumpError
			if err := c.Sync(ctx); !errors.As(err, &jumped) {
				return err
			}
			return nil
		}
		sent = next
	}
	return nil
}

// isRecent reports whether the last heartbeat of a node is within the interval, by the clock.
func (c *Clock) isRecent(seen map[string]time.Time, interval time.Duration) bool {
	for _, at := range seen {
		if c.Now().Sub(at).Abs() <= interval+maxClockJump {
			return true
		}
	}
	return false
}

// seenAt returns when the nodes were last seen, by id.
func seenAt(all []Node) map[string]time.Time {
	seen := make(map[string]time.Time, len(all))
	for _, n := range all {
		seen[n.ID] = n.SeenAt
	}
	return seen
}
