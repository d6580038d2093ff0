package events

import (
	"context"
	"log/slog"
	"slices"
	"strings"
	"sync"
	"time"

	"deadman/alerts"
	futurejobs "deadman/future_jobs"
)

// assignEvery is the interval at which a node determines the streams to read.
const assignEvery = time.Second

// Shards knows the shards held by this node. It is safe for concurrent use.
type Shards interface {
	Holds(shard int16) bool
	// Count returns the number of all shards.
	Count() int
}

// The outcomes reported to an Observer. They count events unless noted otherwise.
const (
	Created    = "created"         // jobs
	Ended      = "ended"           // jobs
	Kept       = "already_pending" // triggers for keys with a pending job
	Restarted  = "restarted"       // triggers that restarted a job
	Postponed  = "postponed"       // heartbeats that moved the next check
	Coalesced  = "coalesced"       // heartbeats that did not move it, or were older than the last one
	Updated    = "updated"         // updates, and members of sets
	Paused     = "paused"          // jobs
	Resumed    = "resumed"         // jobs
	Remembered = "stored_early"    // resolves that may precede their trigger
	Unmatched  = "unmatched"       // events for keys without a job
	Ignored    = "ignored"         // events without an effect
	DeadLetter = "dead_letter"     // rejections
	Lost       = "lost"            // by the stream before they were read; an upper bound if it has other subjects
)

// Outcomes are all outcomes.
var Outcomes = []string{
	Created, Ended, Kept, Restarted, Postponed, Coalesced, Updated, Paused, Resumed, Remembered, Unmatched, Ignored, DeadLetter, Lost,
}

// Observer counts ingested events. It is called after the commit, by several goroutines.
type Observer interface {
	Ingested(outcome string, n int)
	// Summarized receives the number of a batch's rejections that have no dead letter of their own. They are also
	// counted as DeadLetter.
	Summarized(n int64)
	// Alerted receives an alert written because its job has ended.
	Alerted(a alerts.Alert)
}

// EventTracer records the receipt of events.
type EventTracer interface {
	// Received sets the Trace of the traced events of effects. The function returned takes the result of the application.
	Received(effects []futurejobs.Effect) (applied func(error))
}

// Announce raises a system alert. Repeated calls raise it once.
type Announce func(ctx context.Context, r alerts.SystemAlert) error

// Options configure an Intake. All fields are required unless noted otherwise.
type Options struct {
	Streams  Streams
	Catalog  Matcher
	Store    futurejobs.EffectStore
	Shards   Shards
	Now      func() time.Time // the database's time, or slightly earlier; zero: unknown yet
	Announce Announce         // for streams that lost events
	// Place converts the broker's time of an event to the engine's; nil: they are the same.
	Place func(at time.Time) time.Time
	// BrokerUptime returns the time for which the streams have received messages without a gap, as far as this node
	// knows; nil: always.
	BrokerUptime func() time.Duration
	Observer     Observer    // may be nil
	Tracer       EventTracer // nil: events are not traced
	Log          *slog.Logger
}

// Intake reads the rules' streams that are assigned to this node, the holder of a stream's shard. If two nodes
// briefly read one stream, the cursor lets only one of them apply its events.
type Intake struct {
	Options
	wake chan struct{}

	mu      sync.Mutex
	readers map[string]*streamReader // by line
	failed  error
	all     sync.WaitGroup
	turn    sync.Mutex // of the tenants' lines: one at a time matches events
}

// NewIntake returns an intake. Run starts it.
func NewIntake(o Options) *Intake {
	return &Intake{Options: o, wake: make(chan struct{}, 1), readers: make(map[string]*streamReader)}
}

// Wake signals a change of the shards or the rules. It is only a hint, as the intake also polls.
func (in *Intake) Wake() {
	select {
	case in.wake <- struct{}{}:
	default:
	}
}

// Run reads until ctx ends, and returns after the last batch is applied. It retries failures indefinitely; Status
// reports them.
func (in *Intake) Run(ctx context.Context) error {
	ticker := time.NewTicker(assignEvery)
	defer ticker.Stop()
	defer in.all.Wait()
	for {
		in.refreshAndAssign(ctx)
		select {
		case <-ctx.Done():
			return nil
		case <-ticker.C:
		case <-in.wake:
		}
	}
}

// refreshAndAssign refreshes the rules, as other nodes may have changed them, and assigns the streams. If the refresh
// fails, it continues with the current rules.
func (in *Intake) refreshAndAssign(ctx context.Context) {
	err := in.Catalog.Refresh(ctx)
	if ctx.Err() != nil {
		return
	}
	in.mu.Lock()
	before := in.failed
	in.failed = err
	in.mu.Unlock()
	switch {
	case err != nil && before == nil:
		in.Log.Warn("the rules cannot be refreshed; trying again", "err", err)
	case err == nil && before != nil:
		in.Log.Info("the rules are refreshed again")
	}
	in.assign(ctx)
}

// Err returns the error of the last refresh of the rules, or nil.
func (in *Intake) Err() error {
	in.mu.Lock()
	defer in.mu.Unlock()
	return in.failed
}

// assign stops readers of lines that are no longer assigned, and starts readers of new ones. A stopping reader is
// replaced only after it has stopped.
func (in *Intake) assign(ctx context.Context) {
	mine := in.assignedStreams()
	in.mu.Lock()
	defer in.mu.Unlock()
	for stream, t := range in.readers {
		if t.stopped() {
			delete(in.readers, stream)
		} else if !mine[stream] {
			t.stop()
		}
	}
	for stream := range mine {
		if in.readers[stream] == nil && ctx.Err() == nil {
			in.readers[stream] = in.open(ctx, stream)
		}
	}
}

// assignedStreams returns the lines of streams assigned to this node: each is assigned by itself.
func (in *Intake) assignedStreams() map[string]bool {
	mine := make(map[string]bool)
	n := in.Shards.Count()
	if n <= 0 {
		return mine
	}
	for stream := range in.Catalog.SubjectsByStream() {
		if in.Shards.Holds(futurejobs.ShardOf("stream", stream, n)) {
			mine[stream] = true
		}
	}
	return mine
}

// open starts reading a line of a stream.
func (in *Intake) open(ctx context.Context, stream string) *streamReader {
	ctx, stop := context.WithCancel(ctx)
	t := newStreamReader(in, stream)
	t.stop = stop
	in.all.Go(func() {
		defer close(t.done)
		defer stop()
		t.run(ctx)
	})
	return t
}

// Status returns the states of the lines read by this node, sorted by name.
func (in *Intake) Status() []Status {
	in.mu.Lock()
	defer in.mu.Unlock()
	all := make([]Status, 0, len(in.readers))
	for _, t := range in.readers {
		if !t.stopped() {
			all = append(all, t.status.get())
		}
	}
	slices.SortFunc(all, func(a, b Status) int { return strings.Compare(a.Line, b.Line) })
	return all
}
