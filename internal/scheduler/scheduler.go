// Package scheduler applies the ticks of schedules: each once, by whichever node comes first, over
// restarts and changes of who does it.
package scheduler

import (
	"context"
	"errors"
	"log/slog"
	"sync"
	"time"

	"deadman/alerts"
	futurejobs "deadman/future_jobs"
)

// Book knows the rules that tick. Implementations are safe for concurrent use.
type Book interface {
	// Revision is the revision of the rule set as it is known. It is asked for at each round.
	Revision() int64
	// Scheduled returns the rules that tick, and the revision of the rule set that they are of.
	Scheduled() (revision int64, all []futurejobs.TickingRule)
	// Refresh reads the rules anew if they changed.
	Refresh(ctx context.Context) error
}

// CursorStore is where ticks become jobs: each rule that ticks has a cursor of its own.
type CursorStore interface {
	// TickCursors returns where the ticks of all rules stand, by TickStream.
	TickCursors(ctx context.Context) (map[string]futurejobs.Cursor, error)
	// OpenCursor is that of futurejobs.EffectStore, and so is Apply.
	OpenCursor(ctx context.Context, c futurejobs.Cursor) error
	Apply(ctx context.Context, b futurejobs.EffectBatch) (futurejobs.ApplyResult, error)
	// HoldTick keeps the rule of a tick from being changed until its ticks are applied, or ReleaseTick, or for
	// futurejobs.HoldTickFor. It returns ErrRulesChanged if the rule has changed since a revision, and
	// futurejobs.ErrHeld while an earlier hold lasts.
	HoldTick(ctx context.Context, ruleID int32, revision int64) error
	ReleaseTick(ctx context.Context, ruleID int32) error
	// ResolveSystemAlert writes the alert of a Resolved remark, if the one that it closes was said and this
	// was not.
	ResolveSystemAlert(ctx context.Context, r alerts.SystemAlert) (a alerts.Alert, said bool, err error)
}

// Shards says which shards this node holds. It is safe for concurrent use.
type Shards interface {
	Holds(shard int16) bool
}

// Emitter publishes what ticks emit.
type Emitter interface {
	// PublishTick has a stream take in an event, and returns once it is there. However often it is
	// called for the same id, and by whomever, the stream has one; an error leaves open whether
	// it has it. The event is sent within held alone, whose error ends Emit.
	PublishTick(ctx context.Context, e futurejobs.Emission, held Held) error
}

// Held calls send while the rule of a tick stands and cannot be changed. isAnswered says that the broker has taken
// the event or refused it; otherwise the event may still arrive.
type Held func(ctx context.Context, send func(ctx context.Context) (isAnswered bool, err error)) error

// Observer is told what became of ticks, after the commit.
type Observer interface {
	// Ticked counts n ticks of a rule of which the same became.
	Ticked(rule string, outcome futurejobs.TickOutcome, n int)
	// Alerted is told of an alert that was written, because a tick began a wait anew or ticks are
	// applied again.
	Alerted(a alerts.Alert)
}

// Options are the parts of a Ticker. All but Allow are needed.
type Options struct {
	Book     Book
	Cursors  CursorStore
	Shards   Shards
	Emitter  Emitter
	Now      func() time.Time // the database's time, or a little before it; zero: not known yet
	Announce func(ctx context.Context, r alerts.SystemAlert) error
	Observer Observer
	Log      *slog.Logger
	// Allow takes an event of so many bytes off those that a rule may emit, or returns when it may be tried again. nil: all are emitted.
	Allow func(rule string, bytes int, now time.Time) (wait time.Duration)
}

// Scheduler waits for ticks and applies them. Rules that emit have a worker of their own: a broker that
// does not answer holds up nobody who waits.
type Scheduler struct{ waits, emits *worker }

// New returns a ticker that is not running yet.
func New(o Options) *Scheduler {
	return &Scheduler{waits: newWorker(o, false), emits: newWorker(o, true)}
}

// Wake says that the shards or the rules changed. It is a hint; the ticker looks by itself too.
func (t *Scheduler) Wake() {
	t.waits.wakeUp()
	t.emits.wakeUp()
}

// Err is why ticks cannot be applied at the moment, or nil.
func (t *Scheduler) Err() error { return errors.Join(t.waits.err(), t.emits.err()) }

// Run applies ticks until ctx ends, while the node holds the shard. What fails is tried again for
// ever; Err says so.
func (t *Scheduler) Run(ctx context.Context) error {
	var working sync.WaitGroup
	working.Go(func() { t.waits.run(ctx) })
	working.Go(func() { t.emits.run(ctx) })
	working.Wait()
	return nil
}
