package events

import (
	"context"
	"fmt"
	"time"
)

// hear records that the stream is heard from now on, where it may not have been since the last
// mark: something of it was lost, or it may have taken nothing in. Whoever is judged by what did
// not come is judged by the mark that follows.
func (t *tap) hear(ctx context.Context) error {
	now := t.in.Now()
	if !t.deaf && !t.interrupted(now) {
		return nil
	}
	if err := t.in.Ledger.Hear(ctx, t.stream, now); err != nil {
		return fmt.Errorf("say that the stream was not heard: %w", err)
	}
	t.deaf = false
	return nil
}

// interrupted reports whether the streams may have taken nothing in at some time since the last
// mark. What a stream took in is still there: that this node did not read is no gap.
func (t *tap) interrupted(now time.Time) bool {
	return t.in.Up != nil && now.Add(-t.in.Up()).After(t.marked)
}

// lost records that something of the stream is lost, at once: another node may be the one that
// marks it next.
func (t *tap) lost(ctx context.Context) error {
	t.deaf = true
	now := t.in.Now()
	if now.IsZero() {
		return nil
	}
	if err := t.in.Ledger.Hear(ctx, t.stream, now); err != nil {
		return fmt.Errorf("say that the stream was not heard: %w", err)
	}
	return nil
}
