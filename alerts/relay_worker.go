package alerts

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	"deadman/internal/failpoints"
)

// relayWorker relays the alerts of some shards, one batch after the other.
type relayWorker struct {
	*Relay
	number int
	wake   chan struct{}
	around blockedSet
}

func (l *relayWorker) run(ctx context.Context) {
	next, retry := time.NewTimer(0), time.NewTimer(relayRefusalRetry)
	defer next.Stop()
	defer retry.Stop()
	wake, pause, patience := l.wake, relayBackoff, relayRefusalRetry
	for {
		select {
		case <-ctx.Done():
			return
		case <-retry.C:
			l.around = blockedSet{} // what was refused has its next try
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
			wake = nil // a hint is no reason to hurry a broker that fails
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

// heldShards are the shards of the lane that are held.
func (l *relayWorker) heldShards() []int16 {
	var mine []int16
	for _, shard := range l.shards() {
		if int(shard)%relayLanes == l.number {
			mine = append(mine, shard)
		}
	}
	return mine
}

// step relays one batch. A refusal is no error: the lane goes around it.
//
//  1. The oldest alerts are read, without the rules that are gone around whole.
//  2. What is not behind a refused alert of its rule and key, and has room in its quotas, is published, and marked.
//  3. What was refused is gone around from now on. More may be there where it stood in the way.
func (l *relayWorker) step(ctx context.Context, held []int16) (more bool, err error) {
	if len(held) == 0 {
		return false, nil
	}
	batch, err := l.outbox.Unpublished(ctx, held, relayBatch, l.around.whole())
	if err != nil {
		return false, fmt.Errorf("read alerts: %w", err)
	}
	more = len(batch) == relayBatch
	free := l.around.filter(batch)
	if len(free) == 0 {
		return l.around.blockRules(batch) && more, nil
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
		return true, err // as if no answer had come
	}
	var refusal *RejectedError
	if errors.As(err, &refusal) {
		l.around.add(refusal)
		l.around.blockRules(batch)
		err = nil
	}
	return more, errors.Join(err, l.mark(ctx, sent))
}

// giveBack returns to the quotas what was admitted and not sent.
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
