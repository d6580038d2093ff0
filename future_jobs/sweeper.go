package futurejobs

import (
	"context"
	"errors"
	"log/slog"
	"runtime"
	"sync"
	"time"

	"deadman/alerts"
)

// MaxIdle is the maximum pause between sweeps if no rule has an earlier slot.
const MaxIdle = time.Minute

// Delays before the sweep that follows one with unhandled jobs: short at first, then longer.
const (
	minRetry = 50 * time.Millisecond
	maxRetry = time.Second
)

// syncEvery is how long the clock runs without an answer of the database.
const syncEvery = 5 * time.Second

// clockStepWindow is how long after a clock step the sweep runs every second: its wake-up times refer to the clock before
// the step.
const clockStepWindow = 10 * time.Minute

// Observer receives decisions. Implementations are safe for concurrent use.
type Observer interface {
	// Checked counts one check; outcome is the job's, or "waiting", "undetermined", "skipped" if it was late, or
	// "dropped" if the job or its shard had changed meanwhile.
	Checked(rule string, kind CheckKind, outcome string, took time.Duration)
	// SettleTried receives the duration and the error of a transaction that settles decisions.
	SettleTried(took time.Duration, err error)
	// Settled counts a decision that is in the database, delay after the slot of its check. trace is the trace of its
	// job; empty: none.
	Settled(delay time.Duration, trace string)
	// Alerted receives an alert that was written.
	Alerted(a alerts.Alert)
}

// Sweeper checks every job that is due in the shards that this node holds.
type Sweeper struct {
	queue   Queue
	catalog RuleReader
	owner   *Owner
	clock   *Clock
	log     *slog.Logger

	// Observer receives the decisions. Set before Run.
	Observer Observer
	// Quotas bounds the bytes of stored alerts; nil: nothing does. Set before Run.
	Quotas Quotas
	// Tracer records traced checks; nil: none is traced. Set before Run.
	Tracer CheckTracer
	// BeforeResume is called before the first sweep, and before a sweep that starts after a stall: jobs that became due
	// meanwhile are unchanged. The sweep waits for it. Set before Run.
	BeforeResume func(ctx context.Context)
	// BeforeSweep is called before each sweep. If it returns nil, all gaps of this node until then are in the
	// database. Set before Run.
	BeforeSweep func(ctx context.Context) error
	// Stepped is called after a clock step. The sweep continues once it returned nil: stored times from before the
	// step that would cause delays are corrected. Set before Run.
	Stepped func(ctx context.Context) error

	wake      chan struct{}
	failures  *failures
	progress  *progress
	admission *admission
	pages     *pageReader
	checker   *checker
	settler   *settler
	outages   *outageTracker

	// The following are used by Run alone.
	paused        bool          // the clock cannot be trusted
	backoff       time.Duration // the last delay because of unhandled jobs
	isCutShort    bool          // the last sweep left more to read
	last          time.Time     // start of the last completed sweep
	steps         int64         // clock steps that the sweep has handled
	lastClockStep time.Time     // time of the last clock step, by the local clock
}

// NewSweeper returns a sweeper that runs up to workers asynchronous checks at once; inline checks are not counted.
func NewSweeper(q Queue, b RuleReader, o *Owner, c *Clock, workers int, log *slog.Logger) *Sweeper {
	s := &Sweeper{
		queue: q, catalog: b, owner: o, clock: c, log: log,
		Observer: nopObserver{}, BeforeResume: func(context.Context) {}, BeforeSweep: func(context.Context) error { return nil },
		Stepped: func(context.Context) error { return nil },
		wake:    make(chan struct{}, 1), failures: newFailures(c.local, log),
		progress: &progress{catalog: b, owner: o, clock: c}, pages: &pageReader{queue: q, log: log},
	}
	turns := newTurns()
	s.admission = &admission{
		catalog: b, turns: turns, putOff: putOff{log: log}, wake: s.Wake,
		waiting: map[VersionRef]waitingVersion{}, behindSince: map[string]time.Time{},
	}
	s.admission.workers = newLimiter(workers, s.admission.capacityFreed)
	s.outages = &outageTracker{queue: q, catalog: b, clock: c, failures: s.failures}
	s.checker = &checker{
		clock: c, log: log, starts: q, workers: s.admission.workers, turns: turns, outages: &s.outages.cache,
		freed: s.admission.capacityFreed, wake: s.Wake,
	}
	s.settler = &settler{
		queue: q, catalog: b, clock: c, log: log, failures: s.failures, outages: s.outages, answers: &s.checker.answers, wake: s.Wake,
	}
	s.settler.batchLimit.Store(maxSettleBatch)
	return s
}

type nopObserver struct{}

func (nopObserver) Checked(string, CheckKind, string, time.Duration) {}
func (nopObserver) SettleTried(time.Duration, error)                 {}
func (nopObserver) Settled(time.Duration, string)                    {}
func (nopObserver) Alerted(alerts.Alert)                             {}

// Wake makes the next sweep begin at once, because a stream was read or shards were taken.
func (s *Sweeper) Wake() {
	select {
	case s.wake <- struct{}{}:
	default: // a wake-up is pending
	}
}

// Run sweeps at every slot until ctx ends; then it settles the running checks and returns. drain bounds that: when it
// ends, running handlers are cancelled.
func (s *Sweeper) Run(ctx, drain context.Context) error {
	s.settler.observer, s.outages.observer = s.Observer, s.Observer
	s.settler.quotas, s.settler.tracer = s.Quotas, s.Tracer
	pipe := newPipeline()
	batches := make(chan []*task)

	var checkers, searches, writers sync.WaitGroup
	writers.Go(func() { pipe.batches(batches) })
	one := make(chan struct{}, 1) // taken by the running settlement
	alone := func(settle func()) {
		writers.Go(func() {
			one <- struct{}{}
			defer func() { <-one }()
			settle()
		})
	}
	for range settlers {
		writers.Go(func() {
			for batch := range batches {
				s.settler.settleBatch(drain, batch, alone)
			}
		})
	}
	for range max(2, runtime.GOMAXPROCS(0)) {
		checkers.Go(func() {
			for chunk := range pipe.due {
				s.checker.check(drain, chunk, pipe.decided)
				pipe.done()
			}
		})
	}

	checkers.Go(func() { s.checker.checkInTurns(ctx, pipe) })

	writers.Go(func() { s.outages.run(ctx) })
	startLookup := func(batch []*task) { searches.Go(func() { s.checker.lookUp(ctx, batch, pipe.decided) }) }

	s.loop(ctx, pipe, startLookup)
	close(pipe.due)
	s.admission.turns.close()
	checkers.Wait()
	searches.Wait()
	s.admission.workers.wait()
	close(pipe.decided)
	writers.Wait()
	return nil
}

// loop sweeps at each slot of any rule, and sooner if jobs were not handled.
func (s *Sweeper) loop(ctx context.Context, pipe *pipeline, startLookup func([]*task)) {
	timer := time.NewTimer(0)
	defer timer.Stop()
	for {
		select {
		case <-ctx.Done():
			return
		case <-timer.C:
		case <-s.wake:
		}
		wait := s.step(ctx, pipe, startLookup)
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
		s.failures.set("clock", err)
		if s.paused = err != nil; s.paused {
			return false
		}
	}
	steps := s.clock.Steps()
	if steps == s.steps {
		return true
	}
	err := s.Stepped(ctx)
	s.failures.set("step", err)
	if err == nil {
		s.startAnew(steps)
	}
	return false
}

// errStepped ends a sweep that began before a clock step: jobs moved by the step may seem to be due.
var errStepped = errors.New("the database's clock stepped during the sweep; due jobs are read again")

// startAnew resets the state that depends on the time from before a clock step.
func (s *Sweeper) startAnew(steps int64) {
	s.steps, s.lastClockStep = steps, s.clock.local()
	s.last, s.backoff = time.Time{}, 0
	s.admission.reset()
	s.progress.swept.Store(nil)
	for _, sh := range s.owner.all() {
		sh.forget()
	}
}

// soon returns the maximum pause until the next sweep, as far as it depends on the clock.
func (s *Sweeper) soon() time.Duration {
	switch {
	case s.clock.Err() != nil:
		return confirmEvery
	case !s.lastClockStep.IsZero() && s.clock.local().Sub(s.lastClockStep) < clockStepWindow:
		return maxRetry
	}
	return MaxIdle
}

// step synchronizes the clock, sweeps, and returns the pause until the next sweep.
func (s *Sweeper) step(ctx context.Context, pipe *pipeline, startLookup func([]*task)) time.Duration {
	if !s.followClock(ctx) {
		return maxClockJump
	}
	startedAt := s.clock.Now()
	unhandled, err := s.sweep(ctx, pipe, startLookup)
	if ctx.Err() == nil { // the end of the node cuts a sweep off, which is no failure
		s.failures.set("sweep", err)
	}
	wait := s.soon()
	if slot := s.catalog.NextSlot(startedAt); !slot.IsZero() { // includes a slot during the sweep, as the sweep did not read it
		wait = min(wait, slot.Sub(s.clock.Now()))
	}
	switch {
	case err == nil && s.isCutShort:
		return time.Millisecond // more jobs are due
	case err == nil && unhandled.IsZero():
		s.backoff = 0
	default: // no other node is delayed at the next slot
		s.backoff = min(max(2*s.backoff, minRetry), maxRetry)
		wait = min(wait, s.backoff)
	}
	return max(wait, time.Millisecond)
}

// Err returns the errors that block the sweep.
func (s *Sweeper) Err() error { return s.failures.err() }

// Unfit returns why another node should hold this node's shards: due jobs could not be read, or decided jobs not be
// settled, for d or longer. It is a sentence without secrets; empty: the node is fit.
func (s *Sweeper) Unfit(d time.Duration) (reason string) { return s.failures.unfit(d) }

// SweptThrough returns when the last completed sweep began: all jobs due by then were read. It is zero while the node
// holds no shards, or has not swept yet.
func (s *Sweeper) SweptThrough() time.Time { return s.progress.through() }

// Lag returns how far the sweep is behind: the age of the oldest due slot that is not decided.
func (s *Sweeper) Lag() time.Duration {
	lag, _ := s.progress.lags()
	return lag
}

// OwnLag is Lag without jobs that wait for a source or a handler: another node would be no faster.
func (s *Sweeper) OwnLag() time.Duration {
	_, own := s.progress.lags()
	return own
}

// Abandoned returns the number of handlers that ignored their timeout and have not returned.
func (s *Sweeper) Abandoned() int { return s.admission.workers.abandoned() }

// RunningJSON describes up to 20 running checks, as JSON.
func (s *Sweeper) RunningJSON() string { return s.admission.workers.runningJSON() }

// sweep reads all due jobs of the held shards and passes them to the checkers. Jobs that wait for their streams, a
// free worker or a source are parked for a later sweep; unhandled is the oldest slot of these.
//
//  1. Read one page of parked jobs that need not wait any more. Otherwise newer jobs would always be first.
//  2. Read the jobs that became due since the last sweep, and the rest of a round of reads that is still open.
//  3. Read parked jobs on, until the next slot: jobs that become due need not wait for them.
//
// Checks of tenants' rules are queued by tenant. Jobs of a tenant with a full queue or a used-up allowance are parked.
func (s *Sweeper) sweep(ctx context.Context, pipe *pipeline, startLookup func([]*task)) (unhandled time.Time, err error) {
	now := s.clock.Now()
	s.isCutShort = false
	shards, leaving := s.owner.Open(), s.owner.Leaving()
	if len(shards)+len(leaving) == 0 || now.IsZero() {
		s.progress.swept.Store(nil) // a node without shards is never behind
		if len(s.owner.Holding()) == 0 {
			s.failures.set("settle", nil) // its unsettled jobs belong to another node now
			s.failures.set("rules", nil)
			s.admission.unreadable.clear()
		}
		return unhandled, nil
	}
	if s.stalled(now) {
		s.BeforeResume(ctx)
	}
	if err := s.BeforeSweep(ctx); err != nil {
		return unhandled, err
	}
	through, err := s.queue.ReadThrough(ctx)
	if err != nil {
		return unhandled, err
	}
	clampToNow(through, now)
	s.admission.noteRead(through)

	pipe.undecidedChunks.Add(1)
	defer pipe.done()
	pass := &sweepRun{
		catalog: s.catalog, clock: s.clock, pages: s.pages, admission: s.admission, turns: s.admission.turns, steps: s.steps,
		ctx: ctx, now: now, revision: s.catalog.Revision(), through: through, pipeline: pipe, startLookup: startLookup,
	}
	leavingPass := *pass
	leavingPass.isLeaving = true
	if err := pass.sweep(ctx, shards); err != nil {
		return pass.oldestUnhandled, err
	}
	if err := leavingPass.sweep(ctx, leaving); err != nil {
		return earliest(pass.oldestUnhandled, leavingPass.oldestUnhandled), err
	}
	unhandled = earliest(pass.oldestUnhandled, leavingPass.oldestOwn) // jobs that leave with their shard are not waited for
	s.last = now
	s.isCutShort = pass.isCutShort || leavingPass.isCutShort
	s.progress.swept.Store(&sweepProgress{through: now, oldestUnhandled: unhandled, oldestOwn: earliest(pass.oldestOwn, leavingPass.oldestOwn)})
	s.admission.unreadable.recheck(ctx, s.catalog)
	s.failures.set("rules", s.admission.unreadable.err())
	return unhandled, nil
}

// stalled reports whether slots have passed since the last completed sweep by more than maxTxDelay, so that
// BeforeResume is called.
func (s *Sweeper) stalled(now time.Time) bool {
	if s.last.IsZero() {
		return true
	}
	slot := s.catalog.NextSlot(s.last)
	return !slot.IsZero() && now.Sub(slot) > maxTxDelay
}

// Loads returns the counter of the sweeper's checks.
func (s *Sweeper) Loads() *LoadCounter { return &s.settler.loads }

// PutOff returns the versions of rules with due checks in this node's shards that wait because the allowance of their
// tenant is used up.
func (s *Sweeper) PutOff() []PutOff { return s.admission.putOff.list(s.clock.Now()) }

// Unreadable returns the versions of rules that this node cannot read although jobs of them are due in its shards.
func (s *Sweeper) Unreadable() []Unreadable { return s.admission.unreadable.list() }
