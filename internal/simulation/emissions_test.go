package simulation_test

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	futurejobs "deadman/future_jobs"
	"deadman/internal/scheduler"
)

// emission is an event of a tick that the stream stored.
type emission struct {
	futurejobs.Emission
	storedAt time.Time
}

var _ scheduler.Emitter = brokerClient{}

// The bounds of publications of ticks.
const (
	publishTries = 20
	transitMost  = 400 * time.Millisecond // a publication without an answer may arrive that long after it was given up
)

var errNewer = errors.New("the subject has a newer message")

// PublishTick implements scheduler.Emitter, as package bus does: it searches the stream, and publishes on condition that the
// stream has no newer message since.
func (c brokerClient) PublishTick(ctx context.Context, e futurejobs.Emission, held scheduler.Held) error {
	for range publishTries {
		after := 0
		isStored, err := call(ctx, c.gate, streams, "Search "+e.ID, func(context.Context) (bool, error) {
			defer c.deployment.ledger.lock()()
			after = len(c.deployment.ledger.emitted)
			return c.deployment.ledger.hasEmitted(e.ID), nil
		})
		if isStored || err != nil {
			return err
		}
		err = held(ctx, func(ctx context.Context) (bool, error) { return c.send(ctx, e, after) })
		if !errors.Is(err, errNewer) {
			return err
		}
	}
	return errNewer
}

// send publishes an event of a tick. If its node gives up, half of the events arrive nevertheless.
func (c brokerClient) send(ctx context.Context, e futurejobs.Emission, after int) (isAnswered bool, err error) {
	l, w := c.luck("Emit "+e.ID), c.deployment
	if err := c.enter(ctx, streams, l); err != nil {
		if l.share(7) < 0.5 && (ctx.Err() != nil || errors.Is(err, errDead)) {
			w.late.Go(func() {
				time.Sleep(l.between(0, transitMost))
				if w.ledger.emit(c.id(), e, after) == nil {
					w.count("event of a tick stored after its node gave it up")
				}
			})
		}
		return false, fmt.Errorf("emit: %w", err)
	}
	if err := w.ledger.emit(c.id(), e, after); err != nil {
		return true, err
	}
	if err := c.leave(ctx, streams, l); err != nil {
		return false, fmt.Errorf("emit: %w", err)
	}
	return true, nil
}

// hasEmitted reports whether the stream has the event of a tick.
func (l *ledger) hasEmitted(id string) bool {
	return slices.ContainsFunc(l.emitted, func(e emission) bool { return e.ID == id })
}

// emit stores the event of a tick, if no other was stored after the first ones.
func (l *ledger) emit(node string, e futurejobs.Emission, after int) error {
	defer l.lock()()
	if len(l.emitted) != after {
		return errNewer
	}
	h := l.rules[e.Rule]
	switch state := h[len(h)-1]; {
	case !state.starts():
		l.breach("%s emits %s, after the rule was paused or deleted at %s", node, e.ID, state.ackedBefore.Sub(l.plan.begin))
	case time.Until(e.At) > earlyMost:
		l.breach("%s emits %s %s early", node, e.ID, time.Until(e.At))
	case l.hasEmitted(e.ID):
		l.breach("%s emits %s again", node, e.ID)
	}
	l.record(node, "emits %s", e.ID)
	l.emitted = append(l.emitted, emission{e, time.Now()})
	return nil
}

// judgeEmissions compares the events of a rule's ticks with the applied ticks. An event without a tick of its own is that of a
// node that did not apply the tick after it: a later tick stands for it, or the rule was changed before.
func (j *judge) judgeEmissions(r orderRule, applied []tick) {
	for _, e := range j.ledger.emitted {
		if e.Rule != r.name {
			continue
		}
		j.count("event of a tick")
		i := slices.IndexFunc(applied, func(t tick) bool { return !t.At.Before(e.At) && !t.first.After(e.At) })
		switch {
		case i >= 0 && applied[i].At.Equal(e.At) && applied[i].resulted:
		case i >= 0 && applied[i].resulted:
			j.count("event of a tick that counts as missed")
		case slices.ContainsFunc(j.ledger.rules[r.name], func(s ruleState) bool { return !s.starts() && s.ackedBefore.After(e.storedAt) }):
			j.count("event of a tick, and the rule was changed before it was applied")
		default:
			j.breach("the event %s has no tick", e.ID)
		}
	}
}
