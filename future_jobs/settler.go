package futurejobs

import (
	"cmp"
	"context"
	"errors"
	"log/slog"
	"maps"
	"slices"
	"sync/atomic"
	"time"

	"deadman/alerts"
	"deadman/internal/failpoints"
)

// restFor is the pause before a decision that was too slow on its own is settled again.
const restFor = 10 * time.Second

// settler writes decisions in batches.
type settler struct {
	queue    Queue
	catalog  RuleReader
	clock    *Clock
	log      *slog.Logger
	observer Observer
	quotas   Quotas      // nil: none
	tracer   CheckTracer // nil: checks are not traced
	failures *failures
	outages  *outageTracker
	answers  *answerCache
	wake     func() // begins a sweep

	loads      LoadCounter
	batchLimit atomic.Int64 // decisions that are settled at a time
	rested     atomic.Int64 // the last job with a decision that was too slow on its own; 0: another decision was settled since
}

// settleBatch settles one batch, in parts as large as the database can write at a time. Decisions about jobs that
// were too slow on their own before are passed to alone, to be settled one after the other, beside the settlers.
func (s *settler) settleBatch(ctx context.Context, batch []*task, alone func(settle func())) {
	for _, v := range batch {
		if v.waitsForIO() || v.takesTurn() {
			v.shard.answered(v.Job.ID)
		}
	}
	var slow []*task
	quick := slices.DeleteFunc(batch, func(v *task) bool {
		if v.isSlow {
			slow = append(slow, v)
			v.shard.rest(v.Job.ID, v.slot)
		}
		return v.isSlow
	})
	for _, part := range splitByEpoch(quick) {
		s.writePart(ctx, part)
	}
	if len(slow) > 0 {
		alone(func() {
			for i := range slow {
				s.writePart(ctx, slow[i:i+1])
			}
		})
	}
}

// writePart settles one part of a batch.
//
//  1. If the database takes too long, the part is halved, down to one decision. Later batches are smaller, too, until
//     the database is fast again.
//  2. A single decision that takes too long rests. After a second one in a row the database is slow for all.
//  3. If the database refuses a decision, bisection finds it, and its job ends without the refused data.
//  4. Decisions that are not settled are checked again by a later sweep; their rows are unchanged.
func (s *settler) writePart(ctx context.Context, part []*task) {
	hasRested := false
	for len(part) > 0 {
		n := s.fitting(part)
		err := s.settle(ctx, part[:n])
		switch {
		case errors.Is(err, ErrTooSlow) && n > 1:
			s.batchLimit.Store(int64(n / 2)) //nolint:gosec // it is small
			s.log.Warn("settle took too long, settling fewer decisions at a time", "decisions", n, "err", err)
			continue
		case errors.Is(err, ErrTooSlow) && !hasRested:
			hasRested = true
			s.rest(part[0], err)
		case errors.Is(err, ErrRefused) && n > 1:
			s.writePart(ctx, part[:n/2])
			s.writePart(ctx, part[n/2:n])
		case errors.Is(err, ErrRefused) && !part[0].isGivenUp:
			part[0].giveUp(err, s.clock.Now())
			alerts.TracedLog(s.log, part[0].Job.Order.trace()).Error("the database refuses a decision, the job ends without it", "rule", part[0].rule.Name, "key", part[0].Job.Key, "err", err)
			continue
		case errors.Is(err, ErrRefused):
			s.unsettle(ctx, part[:n], err)
		case err != nil:
			s.unsettle(ctx, part, err) // the other decisions would fail as well
			return
		default:
			hasRested = false
			s.batchLimit.Store(min(2*max(s.batchLimit.Load(), 1), maxSettleBatch))
		}
		part = part[n:]
	}
}

// fitting returns how many decisions to settle at a time: as many as the database was fast enough for, within
// settleBytes, but at least one. A source may return more bytes than the bodies of its jobs have.
func (s *settler) fitting(part []*task) int {
	limit, bytes := min(len(part), int(s.batchLimit.Load())), 0
	for n := range limit {
		if bytes += bytesOf(part[n : n+1]); bytes > settleBytes && n > 0 {
			return n
		}
	}
	return limit
}

// settle settles decisions in one transaction, and reports them to the Observer.
func (s *settler) settle(ctx context.Context, part []*task) error {
	failpoints.Point("settle.write")
	st := settlement(part)
	for _, d := range st.Decisions {
		d.keepAlerts(s.quotas)
	}
	settled := s.trace(ctx, part)
	var got Settled
	err := s.outages.record(ctx, part, st.Held)
	if err == nil {
		beganAt := s.clock.local()
		got, err = s.queue.Settle(ctx, st)
		s.observer.SettleTried(s.clock.local().Sub(beganAt), err)
		if failed := failpoints.PointErr("settle.written"); failed != nil {
			err = cmp.Or(err, failed)
		}
	}
	settled(got, err)
	for _, d := range st.Decisions {
		if err != nil || !got.Jobs[d.Job.ID] {
			d.dropAlerts(s.quotas)
		}
	}
	if err != nil {
		return err
	}
	s.rested.Store(0)
	s.observe(part, got)
	s.wakeForNext(part)
	if len(got.ChangedRules) > 0 {
		err = s.catalog.Refresh(ctx)
		time.AfterFunc(minRetry, s.wake)
	}
	s.failures.set("settle", err)
	for _, v := range part {
		v.shard.finish(v.Job.ID, v.dueAfter(got.Jobs[v.Job.ID]))
	}
	return nil
}

// unsettle schedules another check of jobs with unsettled decisions.
func (s *settler) unsettle(ctx context.Context, part []*task, err error) {
	soon := maxRetry // until they are checked again
	if errors.Is(err, ErrRulesChanged) {
		err, soon = s.catalog.Refresh(ctx), minRetry
	}
	s.failures.set("settle", err)
	for _, v := range part {
		v.shard.finishUnsettled(v.Job.ID, v.slot)
	}
	time.AfterFunc(soon, s.wake)
}

// rest delays the next check of a job if its decision, though alone, exceeded the transaction time: another
// transaction may have locked its row. The job stays in flight until then, so that it does not count as settled, and
// its next decision is settled alone, so that it delays no other job. If several jobs rest and no decision is settled
// in between, the database is at fault.
func (s *settler) rest(v *task, err error) {
	alerts.TracedLog(s.log, v.Job.Order.trace()).Error("a single decision takes too long to settle, retrying", "rule", v.rule.Name, "key", v.Job.Key, "in", restFor, "err", err)
	if before := s.rested.Swap(v.Job.ID); before != 0 && before != v.Job.ID {
		s.failures.set("settle", err)
	}
	v.shard.rest(v.Job.ID, v.slot)
	time.AfterFunc(restFor, func() {
		v.shard.finishUnsettled(v.Job.ID, v.slot)
		s.wake()
	})
}

// wakeForNext schedules a sweep for jobs that are due before the sweep would wake by itself.
func (s *settler) wakeForNext(batch []*task) {
	var next time.Time
	for _, v := range batch {
		if v.Outcome == "" && !v.rule.Grid.Up(v.Job.NextCheckAt).Equal(v.Job.NextCheckAt) {
			next = earliest(next, v.Job.NextCheckAt)
		}
	}
	if !next.IsZero() {
		time.AfterFunc(next.Sub(s.clock.Now()), s.wake)
	}
}

func (s *settler) observe(batch []*task, got Settled) {
	now := s.clock.Now()
	s.loads.count(batch, got, now)
	for _, v := range batch {
		if got.Jobs[v.Job.ID] && isAtMostOnce(v.rule) {
			s.answers.forget(v.Job.ID)
		}
		if !got.Jobs[v.Job.ID] {
			s.observer.Checked(v.rule.Name, v.rule.checkKind(), "dropped", v.Job.Last.Duration())
			continue
		}
		s.observer.Settled(now.Sub(v.slot), v.Job.Order.trace())
		s.observer.Checked(v.rule.Name, v.rule.checkKind(), v.result(), v.Job.Last.Duration())
		for _, a := range v.Alerts {
			s.observer.Alerted(a)
		}
	}
	for _, shard := range got.Lost {
		s.log.Warn("lease lost, decisions dropped", "shard", shard)
	}
}

// splitByEpoch splits a batch if a shard was lost and taken again meanwhile: the epoch of a decision has to be the
// one it was made in. In nearly all cases it returns one part.
func splitByEpoch(batch []*task) [][]*task {
	if len(batch) == 0 {
		return nil
	}
	terms := map[int16][]*Shard{}
	parts := map[int][]*task{}
	of := make([]int, len(batch)) // the term of the shard, counted within the batch
	for i := range batch {
		v := batch[i]
		term := slices.Index(terms[v.shard.Shard], v.shard)
		if term < 0 {
			term = len(terms[v.shard.Shard])
			terms[v.shard.Shard] = append(terms[v.shard.Shard], v.shard)
		}
		of[i] = term
	}
	if slices.Max(of) == 0 {
		return [][]*task{batch}
	}
	for i, term := range of {
		parts[term] = append(parts[term], batch[i])
	}
	return slices.Collect(maps.Values(parts))
}

func settlement(batch []*task) Settlement {
	st := Settlement{RuleSet: batch[0].ruleSet, Decisions: make([]*Decision, len(batch))}
	held := map[HeldShard]bool{}
	for i, v := range batch {
		st.RuleSet = min(st.RuleSet, v.ruleSet)
		st.Decisions[i] = &v.Decision
		if !held[v.shard.HeldShard] {
			held[v.shard.HeldShard] = true
			st.Held = append(st.Held, v.shard.HeldShard)
		}
	}
	return st
}
