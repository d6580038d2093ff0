package pings

import (
	"context"
	"errors"
	"fmt"
	"time"

	futurejobs "deadman/future_jobs"
)

// Limits of receiving pings.
const (
	maxBatch     = 2000                 // pings of one transaction
	batchLinger  = 2 * time.Millisecond // maximum time that a ping waits for others to share its transaction
	waiting      = 8 * maxBatch         // queued pings; further pings are refused
	ruleTries    = 5                    // maximum number of times pings are matched again after rule changes
	drainTimeout = 5 * time.Second      // time a stopping node has for its queued pings
)

// Ping is a received ping.
type Ping struct {
	Target
	Signal
	Run      string // a UUID; empty: none given
	Agent    string
	Body     string // at most MaxBody
	BodySize int    // bytes sent
}

// MaxBody is the maximum number of bytes of a ping's body that are kept.
const MaxBody = 10_000

// Observer is notified of applied pings, after the commit.
type Observer interface {
	// Pinged is called with the result of a batch of pings.
	Pinged(done futurejobs.ApplyResult)
}

// Receiver applies pings as heartbeats of their rules, many in one transaction. It is safe for concurrent use.
type Receiver struct {
	Catalog  RuleFinder
	Effects  EffectStore
	Shards   int              // number of shards that jobs are hashed to
	Now      func() time.Time // the database's time, or slightly earlier
	Observer Observer
	Log      *LogWriter

	queue chan *pendingPing
	ended chan struct{} // closed when no more pings are applied
}

// NewReceiver returns a receiver that applies no pings until Run is called.
func NewReceiver(t Receiver) *Receiver {
	t.queue, t.ended = make(chan *pendingPing, waiting), make(chan struct{})
	return &t
}

// pendingPing is a queued ping.
type pendingPing struct {
	Ping
	at   time.Time
	done chan error // buffered for the one answer
}

// Receive applies a ping. If it returns nil, the ping is committed.
//
// It returns ErrBusy, ErrUnknown, the errors of rules.Rule.HeartbeatEffect and of the Ledger, and the error of ctx. After the
// latter it is unknown whether the ping is committed.
func (t *Receiver) Receive(ctx context.Context, p Ping) error {
	one := &pendingPing{Ping: p, at: t.Now(), done: make(chan error, 1)}
	select {
	case <-t.ended:
		return ErrBusy
	default:
	}
	select {
	case t.queue <- one:
	default:
		return ErrBusy
	}
	select {
	case err := <-one.done:
		return err
	case <-ctx.Done():
		return ctx.Err()
	case <-t.ended:
	}
	select {
	case err := <-one.done:
		return err
	default:
		return ErrBusy
	}
}

// Run applies pings until ctx ends, and then applies the queued ones.
func (t *Receiver) Run(ctx context.Context) error {
	defer close(t.ended)
	working := context.WithoutCancel(ctx) // a batch that has begun is completed
	for ctx.Err() == nil {
		select {
		case first := <-t.queue:
			t.take(working, t.collect(first))
		case <-ctx.Done():
		}
	}
	t.finish(working)
	return nil
}

// finish applies the queued pings when the node stops.
func (t *Receiver) finish(ctx context.Context) {
	ctx, cancel := context.WithTimeout(ctx, drainTimeout)
	defer cancel()
	for {
		select {
		case first := <-t.queue:
			t.take(ctx, t.collect(first))
		default:
			return
		}
	}
}

// collect waits briefly for further pings.
func (t *Receiver) collect(first *pendingPing) []*pendingPing {
	all := []*pendingPing{first}
	enough := time.NewTimer(batchLinger)
	defer enough.Stop()
	for len(all) < maxBatch {
		select {
		case next := <-t.queue:
			all = append(all, next)
		case <-enough.C:
			return all
		}
	}
	return all
}

// take applies a batch and answers its senders.
func (t *Receiver) take(ctx context.Context, all []*pendingPing) {
	left, err := t.apply(ctx, all)
	if errors.Is(err, futurejobs.ErrRefused) && len(left) > 1 {
		half := len(left) / 2 // so that one of them does not fail the others
		t.take(ctx, left[:half])
		t.take(ctx, left[half:])
		return
	}
	for _, one := range left {
		one.done <- err
	}
}

// apply commits a batch and returns the pings that are not answered yet: all except those refused by their rules.
//
//  1. The pings are matched to rules at one revision.
//  2. If a rule refuses a ping, the rule may have changed: the rules are refreshed and matched again.
//  3. The effects are committed at that revision, or not at all. A ping whose job a quota refuses is refused.
func (t *Receiver) apply(ctx context.Context, all []*pendingPing) (left []*pendingPing, err error) {
	left = all
	for range ruleTries {
		revision := t.Catalog.Revision()
		b := t.batch(left)
		if len(b.refused) > 0 {
			if err := t.Catalog.Refresh(ctx); err != nil {
				return left, err
			}
			if t.Catalog.Revision() != revision {
				continue
			}
			left = b.refuse()
		}
		if len(left) == 0 {
			return nil, nil
		}
		done, err := t.Effects.Apply(ctx, futurejobs.EffectBatch{RuleSet: revision, Effects: b.effects})
		if !errors.Is(err, futurejobs.ErrRulesChanged) {
			if err == nil {
				left = b.split(done.Over)
				t.observe(left, done)
			}
			return left, err
		}
		if err := t.Catalog.Refresh(ctx); err != nil {
			return left, err
		}
	}
	return left, fmt.Errorf("apply pings: %w, %d times in a row", futurejobs.ErrRulesChanged, ruleTries)
}

// observe records the committed pings.
func (t *Receiver) observe(all []*pendingPing, done futurejobs.ApplyResult) {
	for _, one := range all {
		t.Log.Add(one.Target, Entry{
			RuleID: one.RuleID, Key: one.Key, At: one.at, Signal: one.Signal, Run: one.Run,
			Agent: one.Agent, Body: one.Body, BodySize: one.BodySize,
		})
	}
	t.Observer.Pinged(done)
}
