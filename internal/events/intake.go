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

// assignEvery is how often it is looked up which streams are this node's to read.
const assignEvery = time.Second

// Shards says which shards this node holds. It is safe for concurrent use.
type Shards interface {
	Holds(shard int16) bool
	// Count is the number of all shards.
	Count() int
}

// The outcomes that an Observer is told of: of events but where it says otherwise.
const (
	Created    = "created"     // jobs
	Ended      = "ended"       // jobs
	Kept       = "kept"        // triggers for keys that were waited for already
	Restarted  = "restarted"   // triggers that began a wait anew
	Beaten     = "beaten"      // beats that moved the next look
	Coalesced  = "coalesced"   // beats that left it where it was, or were older than one that came
	Updated    = "updated"     // updates, and members of sets
	Paused     = "paused"      // jobs
	Resumed    = "resumed"     // jobs
	Remembered = "remembered"  // resolves that may have come before their trigger
	Unmatched  = "unmatched"   // what is for keys that nobody waits for
	Ignored    = "ignored"     // no rule asked for anything
	DeadLetter = "dead_letter" // refusals
	Lost       = "lost"        // by the stream before they were read; an upper bound where it has other subjects
)

// Observer counts what was taken in. It is called after the commit, by several goroutines.
type Observer interface {
	Taken(outcome string, n int)
	// Alerted is told of an alert that was written, because what it is about has ended.
	Alerted(a alerts.Alert)
}

// Announce says what people have to know, once however often it is called.
type Announce func(ctx context.Context, r alerts.SystemAlert) error

// Options are the parts of an Intake. All but Observer are needed.
type Options struct {
	Streams  Streams
	Book     Book
	Store    futurejobs.EffectStore
	Shards   Shards
	Now      func() time.Time // the database's time, or a little before it; zero: not known yet
	Announce Announce         // of streams that lost events
	// Place is when an event happened that the broker says happened at an instant. nil: the broker is right.
	Place func(at time.Time) time.Time
	// Up is for how long the streams have taken in whatever came, without a gap, as far as this node
	// can know. nil: for ever.
	BrokerUptime func() time.Duration
	Observer     Observer // may be nil
	Log          *slog.Logger
}

// Intake reads the streams that the rules listen to, as far as they are this node's: the
// holder of a stream's shard reads it. Were two nodes to read one stream for a moment, the
// cursor lets only one of them apply what it read.
type Intake struct {
	Options
	wake chan struct{}

	mu     sync.Mutex
	taps   map[string]*streamReader
	failed error
	all    sync.WaitGroup
}

// NewIntake returns an intake that is not running yet.
func NewIntake(o Options) *Intake {
	return &Intake{Options: o, wake: make(chan struct{}, 1), taps: make(map[string]*streamReader)}
}

// Wake says that the shards or the rules changed. It is a hint; intake looks by itself too.
func (in *Intake) Wake() {
	select {
	case in.wake <- struct{}{}:
	default:
	}
}

// Run reads until ctx ends, and returns once nothing is being applied any more. What fails
// is tried again for ever; Status says so.
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

// refreshAndAssign refreshes the rules, which another node may have changed, and assigns the streams. It
// goes on with the rules it has when those cannot be had.
func (in *Intake) refreshAndAssign(ctx context.Context) {
	err := in.Book.Refresh(ctx)
	if ctx.Err() != nil {
		return
	}
	in.mu.Lock()
	before := in.failed
	in.failed = err
	in.mu.Unlock()
	switch {
	case err != nil && before == nil:
		in.Log.Warn("the rules cannot be read anew; trying again", "err", err)
	case err == nil && before != nil:
		in.Log.Info("the rules are read again")
	}
	in.assign(ctx)
}

// Err returns why the rules cannot be read at the moment, or nil.
func (in *Intake) Err() error {
	in.mu.Lock()
	defer in.mu.Unlock()
	return in.failed
}

// assign stops reading what is no longer this node's, and starts what became so. A stream
// whose reading is about to stop is started again only after it did.
func (in *Intake) assign(ctx context.Context) {
	mine := in.assignedStreams()
	in.mu.Lock()
	defer in.mu.Unlock()
	for stream, t := range in.taps {
		if t.stopped() {
			delete(in.taps, stream)
		} else if !mine[stream] {
			t.stop()
		}
	}
	for stream := range mine {
		if in.taps[stream] == nil && ctx.Err() == nil {
			in.taps[stream] = in.open(ctx, stream)
		}
	}
}

// assignedStreams are the streams that this node is to read.
func (in *Intake) assignedStreams() map[string]bool {
	mine := make(map[string]bool)
	n := in.Shards.Count()
	if n <= 0 {
		return mine
	}
	for stream := range in.Book.SubjectsByStream() {
		if in.Shards.Holds(futurejobs.ShardOf("stream", stream, n)) {
			mine[stream] = true
		}
	}
	return mine
}

// open starts reading a stream.
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

// Status is how one stream is doing that this node reads.
type Status struct {
	Stream   string
	Seq      uint64    // the last sequence applied
	MarkedAt time.Time // the database time up to which nothing is known to be pending
	CaughtUp time.Time // the database time through which it was read; the stream's, while it is behind
	Left     uint64    // events for the rules that were known to follow when the last one came
	Risk     string    // why the stream's settings may have it lose single events before they are read; empty: they do not
	Err      error     // why reading does not get on; nil: it does
}

// Status returns the streams that this node reads, by name.
func (in *Intake) Status() []Status {
	in.mu.Lock()
	defer in.mu.Unlock()
	all := make([]Status, 0, len(in.taps))
	for _, t := range in.taps {
		if !t.stopped() {
			all = append(all, t.status())
		}
	}
	slices.SortFunc(all, func(a, b Status) int { return strings.Compare(a.Stream, b.Stream) })
	return all
}
