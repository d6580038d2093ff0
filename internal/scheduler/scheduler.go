// Package scheduler applies the ticks of schedules, each once, across restarts and takeovers.
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

// ScheduleReader provides the rules with schedules. Implementations are safe for concurrent use.
type ScheduleReader interface {
	// Revision returns the revision of the loaded rules. It is called in each round.
	Revision() int64
	// Scheduled returns the rules with schedules, and the revision of their rule set.
	Scheduled() (revision int64, all []futurejobs.TickingRule)
	// Refresh reloads the rules if they changed.
	Refresh(ctx context.Context) error
}

// CursorStore applies ticks to jobs. Each rule with a schedule has a cursor.
type CursorStore interface {
	// Now returns the database's time.
	Now(ctx context.Context) (time.Time, error)
	// TickCursors returns the cursors of all rules, by TickStream.
	TickCursors(ctx context.Context) (map[string]futurejobs.Cursor, error)
	// OpenCursor and Apply are methods of futurejobs.EffectStore.
	OpenCursor(ctx context.Context, c futurejobs.Cursor) error
	Apply(ctx context.Context, b futurejobs.EffectBatch) (futurejobs.ApplyResult, error)
	// HoldTick delays changes of a rule until its ticks are applied, until ReleaseTick, or for futurejobs.HoldTickFor. It
	// returns ErrRulesChanged if the rule has changed since a revision, and
	// futurejobs.ErrHeld while an earlier hold lasts.
	HoldTick(ctx context.Context, ruleID int32, revision int64) error
	// ReleaseTick ends the hold of a rule.
	ReleaseTick(ctx context.Context, ruleID int32) error
	// UnresolvedAlerts returns the alerts of a step that are open until ResolveSystemAlert, each with its Topic and Since.
	UnresolvedAlerts(ctx context.Context, step string) ([]alerts.SystemAlert, error)
	// ResolveSystemAlert writes a Resolved alert, if the alert that it closes was raised and is open. raised is false
	// otherwise.
	ResolveSystemAlert(ctx context.Context, r alerts.SystemAlert) (a alerts.Alert, raised bool, err error)
}

// Shards tells the shards that this node holds. Implementations are safe for concurrent use.
type Shards interface {
	// Holds reports whether this node holds a shard.
	Holds(shard int16) bool
	// Count returns the number of all shards; 0 before it is known.
	Count() int
}

// Emitter publishes the events of ticks.
type Emitter interface {
	// PublishTick publishes an event and returns once a stream has stored it. Several calls with the same id, by any
	// node, store one event; after an error it is unknown whether the event is stored. The event is sent only within
	// held. An error of held is returned.
	PublishTick(ctx context.Context, e futurejobs.Emission, held Held) error
}

// Held calls send while the rule of a tick is unchanged and cannot be changed. isAnswered means that the broker stored or
// refused the event; otherwise the event may still arrive.
type Held func(ctx context.Context, send func(ctx context.Context) (isAnswered bool, err error)) error

// Observer receives the results of ticks, after the commit.
type Observer interface {
	// Ticked counts n ticks of a rule with the same outcome.
	Ticked(rule string, outcome futurejobs.TickOutcome, n int)
	// Alerted receives an alert that was written: a tick restarted a job, or ticks are applied again.
	Alerted(a alerts.Alert)
}

// Options are the parts of a Scheduler. All but Loads and Allow are required.
type Options struct {
	Catalog  ScheduleReader
	Cursors  CursorStore
	Shards   Shards
	Emitter  Emitter
	Now      func() time.Time // the database's time, or slightly before it; zero: not known yet
	Announce func(ctx context.Context, r alerts.SystemAlert) error
	Observer Observer
	Loads    *futurejobs.LoadCounter // counts ticks for the load of past slots; nil: they are not counted
	Log      *slog.Logger
	// Allow counts an event of a rule toward its quotas, or returns how long the event has to wait. nil: no quotas.
	Allow func(rule string, bytes int, now time.Time) (wait time.Duration)
}

// Scheduler waits for ticks and applies them. Rules that emit events have a separate worker: a broker that does not answer
// delays no job.
type Scheduler struct{ starts, emits *worker }

// New returns a scheduler that is not running yet.
func New(o Options) *Scheduler {
	return &Scheduler{starts: newWorker(o, false), emits: newWorker(o, true)}
}

// Wake signals that the shards or the rules changed. It is a hint; the scheduler also polls.
func (t *Scheduler) Wake() {
	t.starts.signal()
	t.emits.signal()
}

// Err returns the reason why ticks cannot be applied at the moment, or nil.
func (t *Scheduler) Err() error { return errors.Join(t.starts.err(), t.emits.err()) }

// Run applies ticks until ctx ends, while the node holds the shard. It retries failures indefinitely; Err returns them.
func (t *Scheduler) Run(ctx context.Context) error {
	var working sync.WaitGroup
	working.Go(func() { t.starts.run(ctx) })
	working.Go(func() { t.emits.run(ctx) })
	working.Wait()
	return nil
}
