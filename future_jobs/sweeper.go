package futurejobs

import (
	"context"
	"errors"
	"log/slog"
	"maps"
	"runtime"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"deadman/alerts"
)

// MaxIdle is the maximum pause between sweeps if no rule has an earlier slot.
const MaxIdle = time.Minute

// Delays before the sweep that follows one with unhandled jobs: short at first, then longer.
const (
	minRetry = 50 * time.Millisecond
	maxRetry = time.Second
	restFor  = 10 * time.Second // pause before a decision that was too slow on its own is settled again
)

// syncEvery is how long the clock runs without an answer of the database.
const syncEvery = 5 * time.Second

// unevenFor is how long after a clock step the sweep runs every second: its wake-up times refer to the clock before
// the step.
const unevenFor = 10 * time.Minute

// Observer receives decisions. Implementations are safe for concurrent use.
type Observer interface {
	// Checked counts one check; outcome is the job's, or "waiting", "undetermined", "skipped" if it was late, or
	// "dropped" if the job or its shard had changed meanwhile.
	Checked(rule, outcome string, took time.Duration)
	// Alerted receives an alert that was written.
	Alerted(a alerts.Alert)
}

// Sweeper checks every job that is due in the shards that this node holds.
type Sweeper struct {
	queue Queue
	book  Book
	owner *Owner
	clock *Clock
	log   *slog.Logger

	// Observer receives the decisions. Set before Run.
	Observer Observer
	// BeforeResume is called before the first sweep, and before a late one: jobs that became due meanwhile are
	// unchanged. The sweep waits for it. Set before Run.
	BeforeResume func(ctx context.Context)
	// BeforeSweep is called before each sweep. If it returns nil, all gaps of this node until then are in the
	// database. Set before Run.
	BeforeSweep func(ctx context.Context) error
	// Stepped is called after a clock step. The sweep continues once it returned nil: stored times from before the
	// step that would cause delays are corrected. Set before Run.
	Stepped func(ctx context.Context) error

	wake        chan struct{}
	slow        *limiter
	settleMost  atomic.Int64 // decisions that are settled at a time
	rested      atomic.Int64 // the last job with a decision that was too slow on its own; 0: another decision was settled since
	crowded     atomic.Bool  // the queue of a source was full, or all lanes were taken
	loads       loadCounter
	outages     outageCache
	unsettled   answerCache
	unreadable  unreadable
	turns       *turns
	putOff      putOff
	waiting     map[VersionRef]unready // versions with waiting jobs; used by Run alone
	behindSince map[string]time.Time   // by stream; used by Run alone
	paused      bool                   // the clock cannot be trusted; used by Run alone
	behind      time.Duration          // the last delay because of unhandled jobs; used by Run alone
	isCutShort  bool                   // the last sweep left more to read; used by Run alone
	last        time.Time              // start of the last completed sweep; used by Run alone
	halvings    int                    // of pages, because larger ones took too long; used by Run alone
	steps       int64                  // clock steps that the sweep has handled; used by Run alone
	uneven      time.Time              // time of the last clock step, by the local clock; used by Run alone

	swept        atomic.Pointer[sweepProgress] // by the last sweep; nil: none yet
	mu           sync.Mutex
	errs         map[string]error
	failingSince map[string]time.Time // by the local clock, for each of errs
}

// NewSweeper returns a sweeper that runs up to workers asynchronous checks at once; inline checks are not counted.
func NewSweeper(q Queue, b Book, o *Owner, c *Clock, workers int, log *slog.Logger) *Sweeper {
	s := &Sweeper{
		queue: q, book: b, owner: o, clock: c, log: log,
		Observer: nopObserver{}, BeforeResume: func(context.Context) {}, BeforeSweep: func(context.Context) error { return nil },
		Stepped: func(context.Context) error { return nil },
		wake:    make(chan struct{}, 1),
		waiting: map[VersionRef]unready{}, behindSince: map[string]time.Time{}, errs: map[string]error{}, failingSince: map[string]time.Time{},
	}
	s.settleMost.Store(maxSettleBatch)
	s.slow = newLimiter(workers, s.capacityFreed)
	s.turns, s.putOff.log = newTurns(), log
	return s
}

type nopObserver struct{}

func (nopObserver) Checked(string, string, time.Duration) {}
func (nopObserver) Alerted(alerts.Alert)                  {}

// Wake makes the next sweep begin at once, because a stream was read or shards were taken.
func (s *Sweeper) Wake() {
	select {
	case s.wake <- struct{}{}:
	default: // a wake-up is pending
	}
}

// capacityFreed wakes the sweep if it skipped jobs because all workers or a source's queue were busy.
func (s *Sweeper) capacityFreed() {
	if s.crowded.Swap(false) {
		s.Wake()
	}
}

// Run sweeps at every slot until ctx ends; then it settles the running checks and returns. drain bounds that: when it
// ends, running handlers are cancelled.
func (s *Sweeper) Run(ctx, drain context.Context) error {
	belt := newPipeline()
	batches := make(chan []*task)

	var checkers, searches, writers sync.WaitGroup
	writers.Go(func() { belt.batches(batches) })
	var one sync.Mutex
	alone := func(settle func()) {
		writers.Go(func() {
			one.Lock()
			defer one.Unlock()
			settle()
		})
	}
	for range settlers {
		writers.Go(func() {
			for batch := range batches {
				s.settleBatch(drain, batch, alone)
			}
		})
	}
	for range max(2, runtime.GOMAXPROCS(0)) {
		checkers.Go(func() {
			for chunk := range belt.due {
				s.check(drain, chunk, belt.decided)
				belt.done()
			}
		})
	}

	checkers.Go(func() { s.checkInTurns(ctx, belt) })

	writers.Go(func() { s.closeOutages(ctx) })
	search := func(batch []*task) { searches.Go(func() { s.lookUp(ctx, batch, belt.decided) }) }

	s.loop(ctx, belt, search)
	close(belt.due)
	s.turns.close()
	checkers.Wait()
	searches.Wait()
	s.slow.wait()
	close(belt.decided)
	writers.Wait()
	return nil
}

// loop sweeps at each slot of any rule, and sooner if jobs were not handled.
func (s *Sweeper) loop(ctx context.Context, belt *pipeline, search func([]*task)) {
	timer := time.NewTimer(0)
	defer timer.Stop()
	for {
		select {
		case <-ctx.Done():
			return
		case <-timer.C:
		case <-s.wake:
		}
		wait := s.step(ctx, belt, search)
		if ctx.Err() != nil {
			return
		}
		timer.Reset(wait)
	}
}

// followClock synchronizes the clock, and reports whether the sweep may continue. After a step it returns false once:
// other nodes have to detect the step, too.
func (s *Sweeper) followClock(ctx context.Context) bool {
	if s.paused || s.clock.Stale(syncEvery) || s.clock.Err() != nil {
		err := s.clock.Sync(ctx)
		if errors.As(err, new(ClockJumpError)) {
			err = nil // the elapsed time is known
		}
		s.setErr("clock", err)
		if s.paused = err != nil; s.paused {
			return false
		}
	}
	steps := s.clock.Steps()
	if steps == s.steps {
		return true
	}
	err := s.Stepped(ctx)
	s.setErr("step", err)
	if err == nil {
		s.startAnew(steps)
	}
	return false
}

// errStepped ends a sweep that began before a clock step: jobs moved by the step may seem to be due.
var errStepped = errors.New("the database's clock stepped during the sweep; what is due is read again")

// startAnew resets the state that depends on the time from before a clock step.
func (s *Sweeper) startAnew(steps int64) {
	s.steps, s.uneven = steps, s.clock.local()
	s.last, s.behind = time.Time{}, 0
	clear(s.waiting)
	clear(s.behindSince)
	s.swept.Store(nil)
	for _, sh := range s.owner.all() {
		sh.forget()
	}
}

// soon returns the maximum pause until the next sweep, as far as it depends on the clock.
func (s *Sweeper) soon() time.Duration {
	switch {
	case s.clock.Err() != nil:
		return confirmEvery
	case !s.uneven.IsZero() && s.clock.local().Sub(s.uneven) < unevenFor:
		return maxRetry
	}
	return MaxIdle
}

// step synchronizes the clock, sweeps, and returns the pause until the next sweep.
func (s *Sweeper) step(ctx context.Context, belt *pipeline, search func([]*task)) time.Duration {
	if !s.followClock(ctx) {
		return maxClockJump
	}
	began := s.clock.Now()
	left, err := s.sweep(ctx, belt, search)
	s.setErr("sweep", err)
	wait := s.soon()
	if slot := s.book.NextSlot(began); !slot.IsZero() { // includes a slot during the sweep, as the sweep did not read it
		wait = min(wait, slot.Sub(s.clock.Now()))
	}
	switch {
	case err == nil && s.isCutShort:
		return time.Millisecond // more jobs are due
	case err == nil && left.IsZero():
		s.behind = 0
	default: // no other node is delayed at the next slot
		s.behind = min(max(2*s.behind, minRetry), maxRetry)
		wait = min(wait, s.behind)
	}
	return max(wait, time.Millisecond)
}

// Err returns the errors that block the sweep.
func (s *Sweeper) Err() error {
	s.mu.Lock()
	defer s.mu.Unlock()
	return errors.Join(slices.Collect(maps.Values(s.errs))...)
}

// Unfit returns why another node should hold this node's shards: due jobs could not be read, or decided jobs not be
// settled, for d or longer. It is a sentence without secrets; empty: the node is fit.
func (s *Sweeper) Unfit(d time.Duration) (reason string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, failing := range []struct{ doing, reason string }{
		{"settle", "decided jobs cannot be settled"},
		{"sweep", "due jobs cannot be read"},
	} {
		if s.errs[failing.doing] != nil && s.clock.local().Sub(s.failingSince[failing.doing]) >= d {
			return failing.reason
		}
	}
	return ""
}

// SweptThrough returns when the last completed sweep began: all jobs due by then were read. It is zero while the node
// holds no shards, or has not swept yet.
func (s *Sweeper) SweptThrough() time.Time {
	if swept := s.swept.Load(); swept != nil {
		return swept.through
	}
	return time.Time{}
}

// Lag returns how far the sweep is behind: the age of the oldest due slot that is not decided.
func (s *Sweeper) Lag() time.Duration {
	lag, _ := s.lags()
	return lag
}

// OwnLag is Lag without jobs that wait for a source or a handler: another node would be no faster.
func (s *Sweeper) OwnLag() time.Duration {
	_, own := s.lags()
	return own
}

func (s *Sweeper) lags() (lag, own time.Duration) {
	swept := s.swept.Load()
	if swept == nil {
		return 0, 0
	}
	next := s.book.NextSlot(swept.through)
	oldest, oldestOwn := earliest(swept.left, next), earliest(swept.own, next)
	for _, sh := range s.owner.Open() {
		slot, ownSlot := sh.oldest()
		oldest, oldestOwn = earliest(oldest, slot), earliest(oldestOwn, ownSlot)
	}
	return s.since(oldest), s.since(oldestOwn)
}

// since returns the age of a slot; 0 for a zero or future slot.
func (s *Sweeper) since(slot time.Time) time.Duration {
	if slot.IsZero() {
		return 0
	}
	return max(s.clock.Now().Sub(slot), 0)
}

// Abandoned returns the number of handlers that ignored their timeout and have not returned.
func (s *Sweeper) Abandoned() int { return s.slow.abandoned() }

// RunningJSON describes up to 20 running checks, as JSON.
func (s *Sweeper) RunningJSON() string { return s.slow.runningJSON() }
