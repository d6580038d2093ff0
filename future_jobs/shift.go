package futurejobs

import (
	"context"
	"errors"
	"log/slog"
	"slices"
	"sync/atomic"
	"time"

	"deadman/alerts"
	"deadman/checks"
	"deadman/internal/periodic"
)

// Shift moves the jobs of one shard by a step of the database's clock that the engine follows. The duration of a job
// does not depend on the clock. A step has one of three kinds:
//
//   - The clock went back and stays there: the jobs from before go back with it.
//   - The clock went back after it had gone ahead: the jobs written meanwhile go back.
//   - The clock went ahead after it had gone back: the jobs that went back, and those written meanwhile, go ahead.
type Shift struct {
	Step   int32 // number, in the order of adoption
	By     time.Duration
	At     time.Time // the clock's time when the step was adopted
	Undoes int32     // the step that this one undoes; 0: none
	Shard  int16
	LastID int64 // the last job of the shard when the step was adopted
	Before int64 // the last job of the shard when the undone step was adopted
	Jobs   int64 // moved so far
}

// Shiftable is the part of a job that decides whether a shift moves it.
type Shiftable struct {
	VersionRef
	ID        int64
	Rev       int32
	Next      time.Time
	CreatedAt time.Time
	Since     time.Time
	PickedAt  time.Time
	Origin    alerts.Origin
	Shifted   int32 // the last step that moved the job; 0: none
}

// Shifts stores pending shifts. Implementations are safe for concurrent use.
type Shifts interface {
	// Shifts returns the pending shifts, in the order of steps. Only steps that this node has adopted are included:
	// otherwise it would check moved jobs by the time from before.
	Shifts(ctx context.Context) ([]Shift, error)
	// Shiftables returns up to limit pending jobs of a shard after a position, in the order of their slots.
	Shiftables(ctx context.Context, after ShardCursor, limit int) ([]Shiftable, error)
	// ShiftJobs calls move to change the times of jobs, including those in Order, writes them in one transaction, and
	// records the step. It skips a job with a changed Rev, and returns the number of written jobs.
	ShiftJobs(ctx context.Context, s Shift, jobs []Shiftable, move func(*Job)) (int, error)
	// EndShift records that a shift is done.
	EndShift(ctx context.Context, s Shift) error
}

// Tolerances that separate the times before and after a step.
const (
	// shiftSlack is how far the current times of two nodes may differ.
	shiftSlack = 2 * time.Second
	// lateNodes is how long after a step another node may use the time from before it.
	lateNodes = 3 * time.Second
	// lateWrites is how long after a step back a job may be written by the time from before it.
	lateWrites = 10 * time.Second
)

// motion is the effect of a shift on a job.
type motion int

const (
	stays motion = iota
	isMoved
	isMarked // its times are of the new time already
	isPutBack
)

// of returns the effect of the shift on a job of a rule.
//
//  1. Jobs written by a clock that was ahead go back with it: their times are in the future.
//  2. A step back moves every job from before. A job with a heartbeat since then is of the new time.
//  3. A job that was checked by a clock that was ahead keeps its times, except perhaps its next check.
//  4. A step ahead that undoes a step back moves the jobs that were moved back, and those written since.
func (s Shift) of(j Shiftable, r *Rule, now time.Time) motion {
	latest := now.Add(shiftSlack)
	isOfFuture := j.CreatedAt.After(latest) || j.Origin != 0 && !r.NamesSince && j.Since.After(latest) && j.Origin.At().After(latest)
	if r.HeartbeatStreams != nil { // it may have had a heartbeat since
		isOfFuture = j.Since.After(latest)
	}
	switch {
	case s.By < 0 && isOfFuture:
		return isMoved
	case j.Shifted >= s.Step:
		return stays
	case s.By < 0 && s.Undoes == 0 && j.ID <= s.LastID:
		if r.HeartbeatStreams != nil && !j.Since.Before(s.At.Add(-lateNodes)) { // the heartbeat may have been stamped slightly before
			return isMarked
		}
		return isMoved
	case s.By < 0 && s.Undoes != 0 && j.PickedAt.After(latest):
		return isPutBack
	case s.By > 0 && (j.Shifted == s.Undoes || j.ID > s.Before && s.isOfPast(j)):
		return isMoved
	}
	return stays
}

// isOfPast reports whether a job was written by the time that a step ahead ends, or by an event of that time.
func (s Shift) isOfPast(j Shiftable) bool {
	if j.CreatedAt.Before(s.At.Add(-s.By / 2)) {
		return true
	}
	age := s.At.Add(-s.By).Sub(j.Origin.At())
	return j.Origin != 0 && j.CreatedAt.Before(s.At.Add(lateWrites)) && age > -shiftSlack && age < lateWrites
}

// span returns by how much a job is moved. A job that would still be in the future, because another step wrote it,
// began now.
func (s Shift) span(j *Job, r *Rule, now time.Time) time.Duration {
	startedAt := j.CreatedAt
	switch {
	case r.HeartbeatStreams != nil:
		startedAt = j.Since
	case j.Origin != 0 && !r.NamesSince:
		startedAt = latest(startedAt, j.Since)
	}
	if s.By < 0 && startedAt.Add(s.By).Sub(now) > shiftSlack {
		return now.Sub(startedAt)
	}
	return s.By
}

// apply moves the times of a job of a rule.
func (s Shift) apply(r *Rule, j *Job, how motion, now time.Time) {
	if how == isPutBack {
		if r.Upcoming == nil || !r.afterSnooze(*j, r.Upcoming(*j, now)).Equal(j.due()) {
			j.reschedule(r.notBeforeNextSlot(r.afterSnooze(*j, r.Grid.Up(j.due().Add(s.By))), now))
		}
		return
	}
	if how == isMarked && s.By < 0 && j.CreatedAt.After(now) {
		j.CreatedAt = j.CreatedAt.Add(s.By)
	}
	if how != isMoved {
		return
	}
	span := s.span(j, r, now)
	by := func(t *time.Time) {
		if !t.IsZero() && !t.Equal(checks.Forever) {
			*t = t.Add(span)
		}
	}
	if s.By > 0 || j.ID <= s.LastID || j.CreatedAt.After(now) {
		by(&j.CreatedAt)
	}
	if !r.NamesSince {
		by(&j.Since)
		by(&j.FirstCheckAt)
		j.FirstCheckAt = r.Grid.Up(j.FirstCheckAt)
	}
	j.Pauses = shifted(j.Pauses, by)
	if o := j.Order; o != nil {
		by(&o.At)
		by(&o.Resumed)
		for i := range o.Kept {
			k := &o.Kept[i]
			by(&k.At)
			if !r.NamesSince {
				by(&k.Since)
				by(&k.First)
				by(&k.Next)
				k.First, k.Next = r.Grid.Up(k.First), r.Grid.Up(k.Next)
			}
			by(&k.PausedNext)
			k.Pauses = shifted(k.Pauses, by)
		}
	}
	if r.ShiftState != nil {
		j.State = r.ShiftState(j.State, span)
	}
	next := r.Grid.Up(j.due().Add(span))
	if r.NamesTimes && r.Upcoming != nil {
		if upcoming := r.Upcoming(*j, now); !upcoming.IsZero() {
			next = upcoming
		}
	}
	if !j.due().Equal(FarFuture) {
		j.reschedule(r.notBeforeNextSlot(r.afterSnooze(*j, next), now))
	}
}

func shifted(pauses []checks.Pause, by func(*time.Time)) []checks.Pause {
	pauses = slices.Clone(pauses)
	for i := range pauses {
		by(&pauses[i].From)
		by(&pauses[i].To)
	}
	return pauses
}

// ErrShifting means that the jobs of a shard have times from before a clock step, and seem to be due.
var ErrShifting = errors.New("jobs are moved by the step of the database's clock")

// Interval and page sizes of a shifter.
const (
	shiftEvery = time.Second
	shiftPage  = 1000 // jobs read at a time
	shiftMost  = 100  // jobs moved at a time
)

// Shifter moves the jobs of the shards that this node holds by the clock steps that the engine adopts. Several nodes
// may move the jobs of a shard: each job is moved once.
type Shifter struct {
	shifts  Shifts
	catalog RuleReader
	owner   *Owner
	clock   *Clock
	log     *slog.Logger

	// OnShifted is called when jobs of a shard were moved. Set before Run.
	OnShifted func()

	open atomic.Pointer[[]Shift] // pending, of all shards
}

// NewShifter returns a shifter.
func NewShifter(s Shifts, b RuleReader, o *Owner, c *Clock, log *slog.Logger) *Shifter {
	f := &Shifter{shifts: s, catalog: b, owner: o, clock: c, log: log, OnShifted: func() {}}
	f.open.Store(&[]Shift{})
	return f
}

// Run moves jobs until ctx ends.
func (f *Shifter) Run(ctx context.Context) error {
	status := periodic.NewStatus(f.log, slog.LevelError, "move of jobs by a step of the database's clock")
	return status.Run(ctx, shiftEvery, f.step)
}

// step runs the pending shifts of this node's shards.
func (f *Shifter) step(ctx context.Context) error {
	if err := f.Refresh(ctx); err != nil {
		return err
	}
	f.clock.await()
	for _, s := range *f.open.Load() {
		if !f.owner.Holds(s.Shard) {
			continue
		}
		if err := f.run(ctx, s); err != nil {
			return err
		}
	}
	return f.Refresh(ctx)
}

// Refresh reads the pending shifts.
func (f *Shifter) Refresh(ctx context.Context) error {
	open, err := f.shifts.Shifts(ctx)
	if err == nil {
		f.open.Store(&open)
	}
	return err
}

// Open returns the pending shifts of all shards.
func (f *Shifter) Open() []Shift { return *f.open.Load() }

// Ready returns ErrShifting while jobs of a shard that this node holds seem to be due and are not.
func (f *Shifter) Ready() error {
	for _, s := range *f.open.Load() {
		if s.By > 0 && f.owner.Holds(s.Shard) {
			return ErrShifting
		}
	}
	return nil
}

// run moves the jobs of a shard, soonest first, until a pass through all of them finds none, and no node can still
// write one by the old time.
func (f *Shifter) run(ctx context.Context, s Shift) error {
	left := true
	for left {
		n, more, err := f.walk(ctx, s)
		if err != nil {
			return err
		}
		if left = more; n > 0 {
			f.OnShifted()
		}
	}
	settled := lateNodes
	if s.By < 0 {
		settled = lateWrites
	}
	if f.clock.Now().Sub(s.At) < settled {
		return nil
	}
	if err := f.shifts.EndShift(ctx, s); err != nil {
		return err
	}
	f.OnShifted()
	return nil
}

// walk moves the jobs of a shard in one pass. more: it found jobs to move.
func (f *Shifter) walk(ctx context.Context, s Shift) (n int, more bool, err error) {
	after := ShardCursor{Shard: s.Shard, At: beginning}
	for {
		page, err := f.shifts.Shiftables(ctx, after, shiftPage)
		if err != nil {
			return n, more, err
		}
		now, motions := f.clock.Now(), make(map[int64]motion)
		moving := slices.DeleteFunc(slices.Clone(page), func(j Shiftable) bool {
			motions[j.ID] = s.of(j, f.ruleOf(ctx, j.VersionRef), now)
			return motions[j.ID] == stays
		})
		more = more || len(moving) > 0
		for chunk := range slices.Chunk(moving, shiftMost) {
			moved, err := f.shifts.ShiftJobs(ctx, s, chunk, func(j *Job) {
				s.apply(f.ruleOf(ctx, VersionRef{j.RuleID, j.Version}), j, motions[j.ID], now)
			})
			if n += moved; err != nil {
				return n, more, err
			}
		}
		if len(page) < shiftPage || !f.owner.Holds(s.Shard) {
			return n, more && f.owner.Holds(s.Shard), nil
		}
		last := page[len(page)-1]
		after.At, after.ID = last.Next, last.ID
	}
}

// ruleOf returns a version of a rule, or a placeholder if it is unreadable.
func (f *Shifter) ruleOf(ctx context.Context, made VersionRef) *Rule {
	r, err := f.catalog.Rule(ctx, made.RuleID, made.Version)
	if err != nil {
		return &Rule{ID: made.RuleID, Version: made.Version, Grid: second}
	}
	return r
}
