package events

import (
	"context"
	"fmt"
	"time"
)

// recordGapIfNeeded records that the stream is heard from now on, where it may not have been since the last
// mark: something of it was lost, or it may have taken nothing in. Whoever is judged by what did
// not come is judged by the mark that follows.
func (t *streamReader) recordGapIfNeeded(ctx context.Context) error {
	now := t.in.Now()
	if !t.deaf && !t.brokerWasDown(now) {
		return nil
	}
	if err := t.in.Store.RecordGap(ctx, t.stream, now); err != nil {
		return fmt.Errorf("say that the stream was not heard: %w", err)
	}
	t.deaf = false
	return nil
}

// brokerWasDown reports whether the streams may have taken nothing in at some time since the last
// mark. What a stream took in is still there: that this node did not read is no gap.
func (t *streamReader) brokerWasDown(now time.Time) bool {
	return t.in.BrokerUptime != nil && now.Add(-t.in.BrokerUptime()).After(t.marked)
}

// recordGap records that something of the stream is lost, at once: another node may be the one that
// marks it next.
func (t *streamReader) recordGap(ctx context.Context) error {
	t.deaf = true
	now := t.in.Now()
	if now.IsZero() {
		return nil
	}
	if err := t.in.Store.RecordGap(ctx, t.stream, now); err != nil {
		return fmt.Errorf("say that the stream was not heard: %w", err)
	}
	return nil
}
