package pings

import (
	"context"
	"errors"
	"fmt"
	"time"

	futurejobs "deadman/future_jobs"
)

// How pings are taken in.
const (
	maxBatch     = 2000                 // pings of one transaction
	batchLinger  = 2 * time.Millisecond // the longest that a ping waits for others to come along
	waiting      = 8 * maxBatch         // pings that wait; what comes beyond is refused
	ruleTries    = 5                    // how often pings are matched again because the rules changed meanwhile
	drainTimeout = 5 * time.Second      // what a node that stops gives the pings that it has
)

// Ping is a ping that is to be taken in.
type Ping struct {
	Target
	Signal
	Run      string // a UUID; empty: it names none
	Agent    string
	Body     string // at most MaxBody
	BodySize int    // bytes that were sent
}

// MaxBody is how much of what a ping says beside is kept, in bytes.
const MaxBody = 10_000

// Observer is told what was taken in, after the commit.
type Observer interface {
	// Beaten is told what a batch of pings came to.
	Beaten(done futurejobs.ApplyResult)
}

// Receiver takes pings in: each as a beat of its rule, many in one transaction. It is safe for
// concurrent use.
type Receiver struct {
	Book     Book
	Ledger   Ledger
	Shards   int              // how many jobs are hashed into
	Now      func() time.Time // the database's time, or a little before it
	Observer Observer
	Log      *LogWriter

	queue chan *pendingPing
	ended chan struct{} // closed once nothing is taken in any more
}

// NewTaker returns a taker that takes nothing in until it runs.
func NewTaker(t Receiver) *Receiver {
	t.queue, t.ended = make(chan *pendingPing, waiting), make(chan struct{})
	return &t
}

// pendingPing is a ping on its way into the database.
type pendingPing struct {
	Ping
	at   time.Time
	done chan error // with room for the one answer
}

// Receive takes a ping in. Where it returns nil, what the ping says is committed.
//
// It returns ErrBusy and ErrUnknown, the errors of rules.Rule.Beat and those of the ledger; and
// that of ctx, after which nobody knows what became of the ping.
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

// Run takes in what comes until ctx ends, and then what waits still.
func (t *Receiver) Run(ctx context.Context) error {
	defer close(t.ended)
	working := context.WithoutCancel(ctx) // what began is brought to its end
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

// finish takes in what waits when the node stops.
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

// collect waits a moment for others that come along.
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

// take takes in a batch, and answers those who sent it.
func (t *Receiver) take(ctx context.Context, all []*pendingPing) {
	left, err := t.apply(ctx, all)
	if errors.Is(err, futurejobs.ErrRefused) && len(left) > 1 {
		for _, one := range left { // so that one of them does not refuse the others
			t.take(ctx, []*pendingPing{one})
		}
		return
	}
	for _, one := range left {
		one.done <- err
	}
}

// apply commits a batch, and returns those of it that are not answered yet: all but the pings that
// their rules do not take.
//
//  1. The rules are asked what the pings mean, at one revision.
//  2. Where a rule does not take one, it may have changed: the rules are looked at, and asked again.
//  3. What they ask for is committed, at that revision or not at all.
func (t *Receiver) apply(ctx context.Context, all []*pendingPing) (left []*pendingPing, err error) {
	left = all
	for range ruleTries {
		revision := t.Book.Revision()
		b := t.batch(left)
		if len(b.refused) > 0 {
			if err := t.Book.Refresh(ctx); err != nil {
				return left, err
			}
			if t.Book.Revision() != revision {
				continue
			}
			left = b.refuse()
		}
		if len(left) == 0 {
			return nil, nil
		}
		done, err := t.Ledger.Apply(ctx, futurejobs.EffectBatch{RuleSet: revision, Effects: b.effects})
		if !errors.Is(err, futurejobs.ErrRulesChanged) {
			if err == nil {
				t.observe(left, done)
			}
			return left, err
		}
		if err := t.Book.Refresh(ctx); err != nil {
			return left, err
		}
	}
	return left, fmt.Errorf("take in pings: %w, %d times in a row", futurejobs.ErrRulesChanged, ruleTries)
}

// observe notes what is committed.
func (t *Receiver) observe(all []*pendingPing, done futurejobs.ApplyResult) {
	for _, one := range all {
		t.Log.Add(one.Target, Entry{
			RuleID: one.RuleID, Key: one.Key, At: one.at, Signal: one.Signal, Run: one.Run,
			Agent: one.Agent, Body: one.Body, BodySize: one.BodySize,
		})
	}
	t.Observer.Beaten(done)
}
