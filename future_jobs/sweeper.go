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

// MaxIdle is how long the sweep rests where no rule has a slot earlier.
const MaxIdle = time.Minute

// How soon a sweep follows one that had to leave jobs behind: soon at first, then less and
// less.
const (
	minRetry = 50 * time.Millisecond
	maxRetry = time.Second
	restFor  = 10 * time.Second // until a decision is settled again that took too long by itself
)

// syncEvery is how long the clock goes on without asking the database.
const syncEvery = 5 * time.Second

// unevenFor is how long after a step of the clock the sweep looks every second: what was to wake it at an instant
// wakes it at another one.
const unevenFor = 10 * time.Minute

// Observer is told what was decided. Implementations are safe for concurrent use.
type Observer interface {
	// Checked counts one check; outcome is the job's, or "waiting", "undetermined",
	// "skipped" where it was found too late, or "dropped" where the job or its shard had changed meanwhile.
	Checked(rule, outcome string, took time.Duration)
	// Alerted is told of an alert that was written.
	Alerted(a alerts.Alert)
}

// Sweeper checks every job that is due in the shards that this node holds.
type Sweeper struct {
	queue Queue
	book  Book
	owner *Owner
	clock *Clock
	log   *slog.Logger

	// Observer is told what was decided. Set before Run.
	Observer Observer
	// Resuming is called before the first sweep, and before one that comes late: what was due
	// meanwhile is still as it was. The sweep waits for it. Set before Run.
	BeforeResume func(ctx context.Context)
	// Listening is called before each sweep. Once it returned nil, what the node could not hear
	// of until then is in the database. Set before Run.
	BeforeSweep func(ctx context.Context) error
	// Stepped is called after the clock stepped. The sweep goes on once it returned nil: the instants that were
	// written by the old time, and that would hold something up, are put right. Set before Run.
	Stepped func(ctx context.Context) error

	wake        chan struct{}
	slow        *limiter
	settleMost  atomic.Int64 // decisions that are settled at a time
	rested      atomic.Int64 // the last job whose decision was too slow by itself; 0: something was settled since
	crowded     atomic.Bool  // the line before a source was full, or all lanes were
	loads       loadCounter
	outages     outageCache
	unsettled   answerCache
	unreadable  unreadable
	waiting     map[VersionRef]unready // versions whose jobs wait; used by Run alone
	behindSince map[string]time.Time   // by stream; used by Run alone
	paused      bool                   // the clock is not to be trusted; used by Run alone
	behind      time.Duration          // the last wait for what was left behind; used by Run alone
	isCutShort  bool                   // the last sweep left more to read; used by Run alone
	last        time.Time              // when the last sweep began that came through; used by Run alone
	halvings    int                    // of the pages that are read, as larger ones took too long; used by Run alone
	steps       int64                  // of the clock that the sweep knows of; used by Run alone
	uneven      time.Time              // when the clock stepped last, by the local clock; used by Run alone

	swept        atomic.Pointer[sweepProgress] // by the last sweep; nil: there was none yet
	mu           sync.Mutex
	errs         map[string]error
	failingSince map[string]time.Time // by the local clock, for each of errs
}

// NewSweeper returns a sweeper that runs up to workers checks that wait for something at
// once; those that only compute are not counted.
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
	return s
}

type nopObserver struct{}

func (nopObserver) Checked(string, string, time.Duration) {}
func (nopObserver) Alerted(alerts.Alert)                  {}

// Wake makes the next sweep begin at once: a hint that a stream was read or shards came.
func (s *Sweeper) Wake() {
	select {
	case s.wake <- struct{}{}:
	default: // it is going to wake
	}
}

// capacityFreed has jobs that were left for want of room read again, now that there is some.
func (s *Sweeper) capacityFreed() {
	if s.crowded.Swap(false) {
		s.Wake()
	}
}

// Run sweeps at every slot until ctx ends; then it settles what is in hand and returns.
// drain bounds that: handlers still running when it ends are cut off.
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

	writers.Go(func() { s.closeOutages(ctx) })
	search := func(batch []*task) { searches.Go(func() { s.lookUp(ctx, batch, belt.decided) }) }

	s.loop(ctx, belt, search)
	close(belt.due)
	checkers.Wait()
	searches.Wait()
	s.slow.wait()
	close(belt.decided)
	writers.Wait()
	return nil
}

// loop sweeps at each slot of any rule, and sooner when jobs were left behind.
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

// followClock looks at the clock, and reports whether the sweep may go on. One that stepped is waited for a little: others
// have to notice it, too.
func (s *Sweeper) followClock(ctx context.Context) bool {
	if s.paused || s.clock.Stale(syncEvery) || s.clock.Err() != nil {
		err := s.clock.Sync(ctx)
		if errors.As(err, new(ClockJumpError)) {
			err = nil // the time that passed is known
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

// errStepped ends a sweep that began by the time from before a step: jobs that were moved by the step may seem to be due.
var errStepped = errors.New("the database's clock stepped during the sweep; what is due is read again")

// startAnew forgets all that was found out by the time from before a step.
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

// soon is how long the next round may be away because of the clock.
func (s *Sweeper) soon() time.Duration {
	switch {
	case s.clock.Err() != nil:
		return confirmEvery
	case !s.uneven.IsZero() && s.clock.local().Sub(s.uneven) < unevenFor:
		return maxRetry
	}
	return MaxIdle
}

// step looks at the clock, sweeps by it, and says how long to wait for the next round.
func (s *Sweeper) step(ctx context.Context, belt *pipeline, search func([]*task)) time.Duration {
	if !s.followClock(ctx) {
		return maxClockJump
	}
	began := s.clock.Now()
	left, err := s.sweep(ctx, belt, search)
	s.setErr("sweep", err)
	wait := s.soon()
	if slot := s.book.NextSlot(began); !slot.IsZero() { // also one that came during the sweep, which did not read it
		wait = min(wait, slot.Sub(s.clock.Now()))
	}
	switch {
	case err == nil && s.isCutShort:
		return time.Millisecond // there is more to read
	case err == nil && left.IsZero():
		s.behind = 0
	default: // it delays no other node at the next slot
		s.behind = min(max(2*s.behind, minRetry), maxRetry)
		wait = min(wait, s.behind)
	}
	return max(wait, time.Millisecond)
}

// Err is what stands in the sweep's way.
func (s *Sweeper) Err() error {
	s.mu.Lock()
	defer s.mu.Unlock()
	return errors.Join(slices.Collect(maps.Values(s.errs))...)
}

// Unfit says why another node should hold this node's shards: due jobs could not be read, or decided jobs not be settled,
// for d or longer. It is a sentence without secrets; empty: there is no reason.
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

// SweptThrough is when the last sweep began that came through: what was due by then was read. It is
// zero while the node holds nothing, or has not swept yet.
func (s *Sweeper) SweptThrough() time.Time {
	if swept := s.swept.Load(); swept != nil {
		return swept.through
	}
	return time.Time{}
}

// Lag is how far the sweep is behind: the age of the oldest due slot that is not decided.
func (s *Sweeper) Lag() time.Duration {
	lag, _ := s.lags()
	return lag
}

// OwnLag is Lag but for what waits for a source or a handler: another node would do no better.
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

// since is how long ago a slot was; 0 for none, and for one that is yet to come.
func (s *Sweeper) since(slot time.Time) time.Duration {
	if slot.IsZero() {
		return 0
	}
	return max(s.clock.Now().Sub(slot), 0)
}

// Abandoned is how many handlers ignored their timeout and have not returned.
func (s *Sweeper) Abandoned() int { return s.slow.abandoned() }

// RunningJSON describes up to 20 checks that are running, as JSON.
func (s *Sweeper) RunningJSON() string { return s.slow.runningJSON() }
