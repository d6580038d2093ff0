package alerts

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	"deadman/internal/failpoints"
)

// relayWorker relays the alerts of some shards, one batch after another.
type relayWorker struct {
	*Relay
	number int
	wake   chan struct{}
	around blockedSet
}

func (l *relayWorker) run(ctx context.Context) {
	next, retry := time.NewTimer(0), time.NewTimer(relayRefusalRetry)
	defer next.Stop()
	retry.Stop() // nothing is rejected yet
	defer retry.Stop()
	wake, pause, patience := l.wake, relayBackoff, relayRefusalRetry
	for {
		select {
		case <-ctx.Done():
			return
		case <-retry.C:
			l.around = blockedSet{} // rejected alerts are retried
		case <-next.C:
		case <-wake:
		}
		detoured := l.around.any()
		more, err := l.step(ctx, l.heldShards())
		l.setErr(ctx, l.number, errors.Join(err, l.around.why))
		switch now := l.around.any(); {
		case now && !detoured:
			retry.Reset(patience)
			patience = min(2*patience, relayMaxBackoff)
		case !now:
			patience = relayRefusalRetry
		}
		switch {
		case err != nil:
			wake = nil // a hint must not shorten the backoff
			next.Reset(pause)
			pause = min(2*pause, relayMaxBackoff)
			continue
		case more:
			next.Reset(0)
		default:
			next.Reset(relayPollInterval)
		}
		wake, pause = l.wake, relayBackoff
	}
}

// heldShards returns the held shards of the worker.
func (l *relayWorker) heldShards() []int16 {
	var mine []int16
	for _, shard := range l.shards() {
		if int(shard)%relayWorkers == l.number {
			mine = append(mine, shard)
		}
	}
	return mine
}

// step relays one batch. A rejection is not an error: the worker skips the rejected lines.
//
//  1. Read the oldest alerts, without the rules that are blocked as a whole.
//  2. Publish and mark the alerts that are not behind a rejected alert of their rule and key and are within their
//     quotas.
//  3. Block the lines of rejected alerts. Alerts behind the blocked ones may then be read.
func (l *relayWorker) step(ctx context.Context, held []int16) (more bool, err error) {
	if len(held) == 0 {
		return false, nil
	}
	batch, more, err := l.outbox.Unpublished(ctx, held, relayBatch, l.around.ruleNames())
	if err != nil {
		return false, fmt.Errorf("read alerts: %w", err)
	}
	free := l.around.filter(batch)
	if len(free) == 0 {
		return l.around.blockRules(batch, more) && more, nil
	}
	if l.Quotas != nil {
		if free, err = l.Quotas.Admit(ctx, free); len(free) == 0 || err != nil {
			return more, err
		}
	}
	failpoints.Point("relay.read")
	sent, err := l.publisher.Publish(ctx, free)
	l.giveBack(free, sent)
	if err := failpoints.PointErr("relay.published"); err != nil {
		return true, err // simulates a lost acknowledgement
	}
	var refusal *RejectedError
	if errors.As(err, &refusal) {
		l.around.add(refusal)
		l.around.blockRules(batch, more)
		err = nil
	}
	return more, errors.Join(err, l.mark(ctx, sent))
}

// giveBack returns admitted alerts that were not sent to the quotas.
func (l *relayWorker) giveBack(admitted, sent []Alert) {
	if l.Quotas == nil || len(sent) == len(admitted) {
		return
	}
	gone := make(map[ID]bool, len(sent))
	for i := range sent {
		gone[sent[i].ID] = true
	}
	l.Quotas.Return(slices.DeleteFunc(slices.Clone(admitted), func(a Alert) bool { return gone[a.ID] }))
}
