package futurejobs

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"time"

	"deadman/alerts"
	"deadman/checks"
	"deadman/internal/failpoints"
)

// task is a job on its way through the sweep, from its read to its settlement, with the held shard and the revision
// of the rule set that the decision is based on.
type task struct {
	shard   *Shard
	rule    *Rule
	ruleSet int64
	slot    time.Time // the slot being checked
	heard   time.Time // start of the gap-free period of the rule's heartbeats; zero: no gap matters
	through time.Time // all streams that can change the job were read up to this time before the job was read; zero: no such stream
	Decision
	unasked bool // the handler was not called

	isGivenUp bool // the database refused the decision, and this one replaces it
	isSlow    bool // an earlier decision about this job exceeded the transaction time on its own
}

// decideWithoutCheck decides jobs that need no call of their handler.
func (v *task) decideWithoutCheck(now time.Time) {
	v.unasked = v.skipIfLate(v.rule, now)
}

// question returns the check that is passed to the handler at the time now.
func (v *task) question(now time.Time) checks.Check {
	c := v.rule.checkOf(&v.Job, now)
	c.ReceivingSince, c.ReadThrough = v.heard, v.through
	return c
}

// needsLookup reports whether the check needs a lookup in a source.
func (v *task) needsLookup() bool { return !v.unasked && v.rule.Finder != nil }

// dueAfter returns the job's next due time after its decision was settled, or was not; zero: never.
func (v *task) dueAfter(settled bool) time.Time {
	switch {
	case !settled:
		return v.slot
	case v.Ends():
		return time.Time{}
	}
	return v.Job.NextCheckAt
}

// waitsForIO reports whether the check waits for a source or for a handler that does I/O.
func (v *task) waitsForIO() bool { return !v.unasked && (v.rule.Finder != nil || !isInline(v.rule)) }

// settleBatch settles one batch, in parts as large as the database can write at a time. Decisions about jobs that
// were too slow on their own before are passed to alone, to be settled one after the other, beside the settlers.
func (s *Sweeper) settleBatch(ctx context.Context, batch []*task, alone func(settle func())) {
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
	for _, part := range splitByFence(quick) {
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
func (s *Sweeper) writePart(ctx context.Context, part []*task) {
	hasRested := false
	for len(part) > 0 {
		n := s.fitting(part)
		err := s.settle(ctx, part[:n])
		switch {
		case errors.Is(err, ErrTooSlow) && n > 1:
			s.settleMost.Store(int64(n / 2)) //nolint:gosec // it is small
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
			s.log.Error("the database refuses a decision, the job ends without it", "rule", part[0].rule.Name, "key", part[0].Job.Key, "err", err)
			continue
		case errors.Is(err, ErrRefused):
			s.unsettle(ctx, part[:n], err)
		case err != nil:
			s.unsettle(ctx, part, err) // the other decisions would fail as well
			return
		default:
			hasRested = false
			s.settleMost.Store(min(2*max(s.settleMost.Load(), 1), maxSettleBatch))
		}
		part = part[n:]
	}
}

// fitting returns how many decisions to settle at a time: as many as the database was fast enough for, within
// settleBytes, but at least one. A source may return more bytes than the bodies of its jobs have.
func (s *Sweeper) fitting(part []*task) int {
	most, bytes := min(len(part), int(s.settleMost.Load())), 0
	for n := range most {
		if bytes += bytesOf(part[n : n+1]); bytes > settleBytes && n > 0 {
			return n
		}
	}
	return most
}

// settle settles decisions in one transaction, and reports them to the Observer.
func (s *Sweeper) settle(ctx context.Context, part []*task) error {
	failpoints.Point("settle.write")
	st := settlement(part)
	var got Settled
	err := s.recordOutages(ctx, part, st.Held)
	if err == nil {
		got, err = s.queue.Settle(ctx, st)
		if failed := failpoints.PointErr("settle.written"); failed != nil {
			err = cmp.Or(err, failed)
		}
	}
	if err != nil {
		return err
	}
	s.rested.Store(0)
	s.observe(part, got)
	s.wakeForNext(part)
	if len(got.Moved) > 0 {
		err = s.book.Refresh(ctx)
		time.AfterFunc(minRetry, s.Wake)
	}
	s.setErr("settle", err)
	for _, v := range part {
		v.shard.finish(v.Job.ID, v.dueAfter(got.Jobs[v.Job.ID]))
	}
	return nil
}

// unsettle schedules another check of jobs with unsettled decisions.
func (s *Sweeper) unsettle(ctx context.Context, part []*task, err error) {
	soon := maxRetry // until they are checked again
	if errors.Is(err, ErrRulesChanged) {
		err, soon = s.book.Refresh(ctx), minRetry
	}
	s.setErr("settle", err)
	for _, v := range part {
		v.shard.landUnsettled(v.Job.ID, v.slot)
	}
	time.AfterFunc(soon, s.Wake)
}

// rest delays the next check of a job if its decision, though alone, exceeded the transaction time: another
// transaction may have locked its row. The job stays in flight until then, so that it does not count as settled, and
// its next decision is settled alone, so that it delays no other job. If several jobs rest and no decision is settled
// in between, the database is at fault.
func (s *Sweeper) rest(v *task, err error) {
	s.log.Error("a decision takes too long to settle, though it is alone; looking at the job again", "rule", v.rule.Name, "key", v.Job.Key, "in", restFor, "err", err)
	if before := s.rested.Swap(v.Job.ID); before != 0 && before != v.Job.ID {
		s.setErr("settle", err)
	}
	v.shard.rest(v.Job.ID, v.slot)
	time.AfterFunc(restFor, func() {
		v.shard.landUnsettled(v.Job.ID, v.slot)
		s.Wake()
	})
}

// giveUp replaces a decision that the database refuses by the end of its job, with an alert. The alert contains
// nothing of the job but its key: any other part may be the refused one.
func (v *task) giveUp(refused error, now time.Time) {
	j := v.Job
	j.Alerts = j.Alerts[:max(len(j.Alerts)-len(v.Alerts), 0)]
	j.Event, j.State, j.Trail, j.Undecided = nil, nil, "", 0
	d := Decision{Job: j}
	reason := clip("the decision cannot be stored: " + refused.Error())
	said := jobAlerts{v.rule, &j}.gaveUp(reason)
	said.Labels = nil
	d.end(v.rule, checks.Undetermined, reason, v.slot, time.Time{}, now, []alerts.Draft{said})
	v.Decision, v.isGivenUp = d, true
}

// splitByFence splits a batch if a shard was lost and taken again meanwhile: the epoch of a decision has to be the
// one it was made in. In nearly all cases it returns one part.
func splitByFence(batch []*task) [][]*task {
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

// wakeForNext schedules a sweep for jobs that are due before the sweep would wake by itself.
func (s *Sweeper) wakeForNext(batch []*task) {
	var next time.Time
	for _, v := range batch {
		if v.Outcome == "" && !v.rule.Grid.Up(v.Job.NextCheckAt).Equal(v.Job.NextCheckAt) {
			next = earliest(next, v.Job.NextCheckAt)
		}
	}
	if !next.IsZero() {
		time.AfterFunc(next.Sub(s.clock.Now()), s.Wake)
	}
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

func (s *Sweeper) observe(batch []*task, got Settled) {
	s.loads.count(batch, got, s.clock.Now())
	for _, v := range batch {
		if got.Jobs[v.Job.ID] && isAtMostOnce(v.rule) {
			s.unsettled.forget(v.Job.ID)
		}
		if !got.Jobs[v.Job.ID] {
			s.Observer.Checked(v.rule.Name, "dropped", v.Job.Last.Duration())
			continue
		}
		outcome := string(v.Outcome)
		switch {
		case outcome != "":
		case !v.Job.Last.FailedAt.IsZero():
			outcome = "undetermined"
		case v.unasked:
			outcome = "skipped"
		default:
			outcome = "waiting"
		}
		s.Observer.Checked(v.rule.Name, outcome, v.Job.Last.Duration())
		for _, a := range v.Alerts {
			s.Observer.Alerted(a)
		}
	}
	for _, shard := range got.Lost {
		s.log.Warn("outcomes are not written: the lease of the shard is over, or another node holds it", "shard", shard)
	}
}

// setErr records a failure for Err, or its end if err is nil, and logs changes.
func (s *Sweeper) setErr(doing string, err error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	was := s.errs[doing]
	if err != nil && was == nil {
		s.failingSince[doing] = s.clock.local()
	}
	switch {
	case err == nil && was != nil:
		s.log.Info("goes on", "doing", doing)
		delete(s.errs, doing)
		delete(s.failingSince, doing)
	case err != nil:
		err = fmt.Errorf("%s: %w", doing, err)
		if was == nil || was.Error() != err.Error() {
			s.log.Error("cannot go on; trying again", "err", err)
		}
		s.errs[doing] = err
	}
}
