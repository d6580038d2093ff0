package events

import (
	"context"
	"fmt"
	"time"
)

// recordGapIfNeeded records that the current gap-free period of the stream begins now, if a gap since the last mark
// is possible: the stream lost messages, or may have received none. It precedes the next mark, which heartbeats are
// judged by.
func (t *streamReader) recordGapIfNeeded(ctx context.Context) error {
	now := t.in.Now()
	if !t.deaf && !t.brokerWasDown(now) {
		return nil
	}
	if err := t.in.Store.RecordGap(ctx, t.line, now); err != nil {
		return fmt.Errorf("record a monitoring gap of the stream: %w", err)
	}
	t.deaf = false
	return nil
}

// brokerWasDown reports whether the streams may have been unable to receive messages at some time since the last
// mark. Received messages are kept by the stream, so an interruption of this node's reading is no gap.
func (t *streamReader) brokerWasDown(now time.Time) bool {
	return t.in.BrokerUptime != nil && now.Add(-t.in.BrokerUptime()).After(t.marked)
}

// recordGap records a loss of the stream at once, because another node may write the next mark.
func (t *streamReader) recordGap(ctx context.Context) error {
	t.deaf = true
	now := t.in.Now()
	if now.IsZero() {
		return nil
	}
	if err := t.in.Store.RecordGap(ctx, t.line, now); err != nil {
		return fmt.Errorf("record a monitoring gap of the stream: %w", err)
	}
	return nil
}
