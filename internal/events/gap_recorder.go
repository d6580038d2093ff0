package events

import (
	"context"
	"fmt"
	"time"
)

// gapRecorder records the monitoring gaps of a line. Heartbeats are judged by them.
type gapRecorder struct {
	in      *Intake
	line    string
	pending bool // events were lost since the last mark
}

// recordBeforeMark records that the current gap-free period of the stream begins now, if a gap since the last mark
// is possible: the stream lost messages, or may have received none. It precedes the next mark, which heartbeats are
// judged by.
func (g *gapRecorder) recordBeforeMark(ctx context.Context, markedAt time.Time) error {
	now := g.in.Now()
	if !g.pending && !g.brokerWasDown(now, markedAt) {
		return nil
	}
	if err := g.store(ctx, now); err != nil {
		return err
	}
	g.pending = false
	return nil
}

// brokerWasDown reports whether the streams may have been unable to receive messages at some time since the last
// mark. Received messages are kept by the stream, so an interruption of this node's reading is no gap.
func (g *gapRecorder) brokerWasDown(now, markedAt time.Time) bool {
	return g.in.BrokerUptime != nil && now.Add(-g.in.BrokerUptime()).After(markedAt)
}

// record records a loss of the stream at once, because another node may write the next mark.
func (g *gapRecorder) record(ctx context.Context) error {
	g.pending = true
	now := g.in.Now()
	if now.IsZero() {
		return nil
	}
	return g.store(ctx, now)
}

func (g *gapRecorder) store(ctx context.Context, now time.Time) error {
	if err := g.in.Store.RecordGap(ctx, g.line, now); err != nil {
		return fmt.Errorf("record a monitoring gap of the stream: %w", err)
	}
	return nil
}
