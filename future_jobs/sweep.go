package futurejobs

import (
	"context"
	"errors"
	"maps"
	"math"
	"slices"
	"time"
)

// Sizes of reads and chunks.
const (
	maxPage      = 4000     // rows that a read examines, over all shards
	minShardPage = 250      // minimum for one shard
	pageBytes    = 16 << 20 // of bodies that a read returns
	scanMost     = 2_000    // rows that a read examines if it skips most of them
	maxChunk     = 250      // jobs passed to a checker at a time
	settlers     = 3
)

// sweepRun is one sweep over the held shards.
type sweepRun struct {
	ctx        context.Context
	now        time.Time // start of the sweep
	revision   int64     // of the rules at the start
	shards     map[int16]*Shard
	through    map[string]StreamProgress // by stream
	belt       *pipeline
	horizons   map[VersionRef]horizon // of versions with waiting jobs
	finds      map[VersionRef]*lookupBatch
	search     func([]*task)
	page       []Job // the last page, reused as a buffer
	isLeaving  bool  // the shards are to be given back: no handler and no source is called any more
	isCutShort bool  // more jobs are due; the next sweep starts at once

	left time.Time // the oldest slot that was not handled; zero: none
	own  time.Time // the same, without jobs that wait for a source or a handler
}

// leave records the slot of a job that was not handled.
func (p *sweepRun) leave(slot time.Time, isBusy bool) {
	p.left = earliest(p.left, slot)
	if !isBusy {
		p.own = earliest(p.own, slot)
	}
}

// parkedRules returns the rules with parked jobs.
func (p *sweepRun) parkedRules() map[int32]bool {
	rules := map[int32]bool{}
	for _, sh := range p.shards {
		sh.addParked(rules)
	}
	return rules
}

// stopping reports whether a read stops after a page although more is due.
type stopping func(q DueQuery, page []Job) bool

// cut records walks that did not reach their end.
func (p *sweepRun) cut(rest []ShardCursor) {
	for _, w := range rest {
		slot := w.At
		if !slot.After(beginning) {
			slot = p.now // nothing of the shard was read yet
		}
		p.isCutShort = true
		p.leave(slot, false)
	}
}

// passOver makes a query skip jobs that have to wait, and parks them.
func (p *sweepRun) passOver(q *DueQuery) {
	q.Not = q.Not[:0]
	for made, h := range p.horizons {
		if !h.at.Before(q.Until) || len(q.Of) > 0 && !slices.Contains(q.Of, made.RuleID) {
			continue
		}
		q.Not = append(q.Not, Unready{made, h.at})
		for _, w := range q.Walks {
			from := position{w.At, w.ID}
			if from.at.Before(h.at) {
				from = position{h.at, math.MaxInt64}
			}
			p.shards[w.Shard].passOver(made.RuleID, from)
		}
	}
}

// sweep reads all due jobs of the held shards and passes them to the checkers. Jobs that wait for their streams, a
// free lane or a source are parked for a later sweep; left is the oldest slot of these.
//
//  1. Read one page of parked jobs that need not wait any more. Otherwise newer jobs would always be first.
//  2. Read the jobs that became due since the last sweep, and the rest of a round of reads that is still open.
//  3. Read parked jobs on, until the next slot: jobs that become due need not wait for them.
//
// Checks of tenants' rules are queued by tenant. Jobs of a tenant with a full queue or a used-up allowance are parked.
func (s *Sweeper) sweep(ctx context.Context, belt *pipeline, search func([]*task)) (left time.Time, err error) {
	now := s.clock.Now()
	shards, leaving := s.owner.Open(), s.owner.Leaving()
	if len(shards)+len(leaving) == 0 || now.IsZero() {
		s.swept.Store(nil) // a node without shards is never behind
		if len(s.owner.Holding()) == 0 {
			s.setErr("settle", nil) // its unsettled jobs belong to another node now
			s.setErr("rules", nil)
			s.unreadable.clear()
		}
		return left, nil
	}
	if s.stalled(now) {
		s.BeforeResume(ctx)
	}
	if err := s.BeforeSweep(ctx); err != nil {
		return left, err
	}
	through, err := s.queue.ReadThrough(ctx)
	if err != nil {
		return left, err
	}
	present(through, now)
	maps.DeleteFunc(s.behindSince, func(stream string, since time.Time) bool { return through[stream].Through.After(since) })

	belt.coming.Add(1)
	defer belt.done()
	pass := &sweepRun{ctx: ctx, now: now, revision: s.book.Revision(), through: through, belt: belt, search: search}
	leavingPass := *pass
	leavingPass.isLeaving = true
	if err := s.sweepShards(ctx, pass, shards); err != nil {
		return pass.left, err
	}
	if err := s.sweepShards(ctx, &leavingPass, leaving); err != nil {
		return earliest(pass.left, leavingPass.left), err
	}
	left = earliest(pass.left, leavingPass.own) // jobs that leave with their shard are not waited for
	s.last = now
	s.isCutShort = pass.isCutShort || leavingPass.isCutShort
	s.swept.Store(&sweepProgress{through: now, left: left, own: earliest(pass.own, leavingPass.own)})
	s.unreadable.recheck(ctx, s.book)
	s.setErr("rules", s.unreadable.err())
	return left, nil
}

// sweepShards sweeps one set of shards: those that stay, or those that leave.
func (s *Sweeper) sweepShards(ctx context.Context, p *sweepRun, shards []*Shard) error {
	if len(shards) == 0 {
		return nil
	}
	p.shards, p.horizons, p.finds = make(map[int16]*Shard, len(shards)), map[VersionRef]horizon{}, map[VersionRef]*lookupBatch{}
	defer p.flushOldLookups(time.Time{})
	for _, sh := range shards {
		p.shards[sh.Shard] = sh
		sh.beginSweep()
	}
	s.holdBack(p)
	slot := s.book.NextSlot(p.now)
	slotCame := func(DueQuery, []Job) bool { return !slot.IsZero() && !s.clock.Now().Before(slot) }
	if err := s.readParked(ctx, p, s.horizons(p), nil); err != nil {
		return err
	}
	if err := s.readDue(ctx, p, shards, slotCame); err != nil {
		return err
	}
	if err := s.readParked(ctx, p, nil, slotCame); err != nil {
		return err
	}
	for _, sh := range shards {
		sh.sweptThrough(p.now)
	}
	return nil
}

// readDue reads the jobs that became due in each shard, and then the rest of its round of reads. A round that finds
// few ready jobs among many waiting ones continues in the next sweep.
func (s *Sweeper) readDue(ctx context.Context, p *sweepRun, shards []*Shard, slotCame stopping) error {
	fresh, old := DueQuery{Until: p.now}, DueQuery{Until: p.now}
	isRecent := map[int16]bool{}
	for _, sh := range shards {
		recent, rest := sh.nextCursor(p.now)
		if fresh.Walks = append(fresh.Walks, recent); rest != nil {
			old.Walks, isRecent[sh.Shard] = append(old.Walks, *rest), true
		}
	}
	stop := func(q DueQuery, page []Job) bool { return slotCame(q, page) && q.foundLittle(page) }
	for _, q := range []DueQuery{fresh, old} {
		begun := q.Walks
		rest, err := s.read(ctx, p, q, stop)
		for _, w := range begun {
			sh, r := p.shards[w.Shard], walkOf(rest, w.Shard)
			switch {
			case r != nil:
				sh.suspend(*r, isRecent[w.Shard])
			case isRecent[w.Shard]:
				sh.suspend(ShardCursor{At: p.now, ID: math.MaxInt64}, true)
			default:
				sh.raiseLowWater(sh.roundBegan())
			}
		}
		p.cut(rest)
		if err != nil {
			return err
		}
		clear(isRecent)
	}
	return nil
}

// foundLittle reports whether a read skipped most of the rows that it examined.
func (q DueQuery) foundLittle(page []Job) bool {
	return q.isFiltered() && 2*len(page) < q.Limit*len(q.Walks)
}

// read reads the jobs of a query, page by page, and dispatches them, until stop ends it after a page. It returns the
// walks that did not reach their end. If the sweep is behind, it first reads the jobs of the critical rules: they do
// not wait for all the others.
func (s *Sweeper) read(ctx context.Context, p *sweepRun, q DueQuery, stop stopping) (rest []ShardCursor, err error) {
	most := maxPage
	for isFirst := true; len(q.Walks) > 0; isFirst = false {
		for _, sh := range p.shards {
			sh.dropFinished()
		}
		p.passOver(&q)
		q.Room = p.page
		jobs, err := s.readPage(ctx, &q, most)
		if err != nil {
			return q.Walks, err
		}
		if s.clock.Steps() != s.steps {
			return q.Walks, errStepped
		}
		p.page = jobs
		if loud := s.loudOf(q); isFirst && len(loud) > 0 && q.behind(jobs) {
			before := q
			before.Of = loud
			if _, err = s.read(ctx, p, before, func(DueQuery, []Job) bool { return false }); err != nil {
				return q.Walks, err
			}
			continue // the page is read again: some of it is decided by now
		}
		if err := s.dispatch(ctx, p, jobs); err != nil {
			return q.Walks, err
		}
		p.flushOldLookups(s.clock.Now())
		isOver := stop(q, jobs)
		if most = maxPage; q.foundLittle(jobs) {
			most = scanMost
		}
		if q.Walks = q.Advance(jobs); isOver {
			break
		}
	}
	return q.Walks, nil
}

// pageHalvings is the maximum number of halvings of a page: it has the bytes of one large job then.
const pageHalvings = 6

// readPage reads a page. If the database does not send it in time, for example over a slow link, the page is halved
// and read again. Later pages stay small until one contains all due jobs.
func (s *Sweeper) readPage(ctx context.Context, q *DueQuery, most int) ([]Job, error) {
	for {
		q.Limit = max(1, max(most/len(q.Walks), minShardPage)>>s.halvings)
		q.Bytes = pageBytes >> s.halvings
		jobs, err := s.queue.Due(ctx, *q)
		switch {
		case errors.Is(err, ErrTooSlow) && s.halvings < pageHalvings:
			s.halvings++
			s.log.Warn("a page of due jobs took too long to read; it is read in halves", "bytes", pageBytes>>s.halvings, "err", err)
			continue
		case err == nil && s.halvings > 0 && len(q.Advance(jobs)) == 0:
			s.halvings = 0
		}
		return jobs, err
	}
}

// loudOf returns the critical rules of a query; none if the query has no other rules.
func (s *Sweeper) loudOf(q DueQuery) []int32 {
	loud := s.book.CriticalRules()
	if len(q.Of) == 0 {
		return loud
	}
	loud = slices.DeleteFunc(slices.Clone(loud), func(rule int32) bool { return !slices.Contains(q.Of, rule) })
	if len(loud) == len(q.Of) {
		return nil
	}
	return loud
}

// behindThreshold is the lateness of a job that makes a sweep count as behind.
const behindThreshold = time.Minute

// behind reports whether more than a page is due, and some of it is late.
func (q DueQuery) behind(jobs []Job) bool {
	return len(q.Advance(jobs)) > 0 && slices.ContainsFunc(jobs, func(j Job) bool { return q.Until.Sub(j.NextCheckAt) > behindThreshold })
}

// stalled reports whether slots have passed since the last completed sweep by more than maxTxDelay, so that
// BeforeResume is called.
func (s *Sweeper) stalled(now time.Time) bool {
	if s.last.IsZero() {
		return true
	}
	slot := s.book.NextSlot(s.last)
	return !slot.IsZero() && now.Sub(slot) > maxTxDelay
}

// streamBehindSince records since when this node has seen a stream behind a job's slot. Before that, the node itself
// may have been down.
func (s *Sweeper) streamBehindSince(stream string, now time.Time) {
	if _, known := s.behindSince[stream]; !known {
		s.behindSince[stream] = now
	}
}

func latest(a, b time.Time) time.Time {
	if a.After(b) {
		return a
	}
	return b
}

// sweepProgress is the progress of a completed sweep.
type sweepProgress struct {
	through time.Time // all jobs due by then were read
	left    time.Time // the oldest slot that was not handled; zero: none
	own     time.Time // the same, without jobs that wait for a source or a handler
}

// earliest returns the earlier of two slots; a zero time is no slot.
func earliest(a, b time.Time) time.Time {
	if a.IsZero() || !b.IsZero() && b.Before(a) {
		return b
	}
	return a
}

// dispatch passes the jobs of one read to the checkers, in chunks, and parks jobs that have to wait.
func (s *Sweeper) dispatch(ctx context.Context, p *sweepRun, jobs []Job) error {
	picked := s.clock.Now()
	now := picked
	chunk := make([]*task, 0, min(maxChunk, len(jobs)))
	bytes := 0
	for i := range jobs {
		j := &jobs[i]
		shard := p.shards[j.Shard]
		if shard.isInFlight(j.ID) {
			continue
		}
		j.Last = CheckTimes{PickedAt: picked}
		v, ok := s.admit(ctx, j, p, now)
		if !ok {
			p.leave(j.NextCheckAt, p.horizons[VersionRef{j.RuleID, j.Version}].isBusy)
			s.met(j)
			shard.passOver(j.RuleID, position{j.NextCheckAt, j.ID - 1})
			continue
		}
		v.shard = shard
		shard.begin(v)
		if v.needsLookup() {
			p.addToLookup(v)
			continue
		}
		if v.takesTurn() {
			s.turns.put(v)
			continue
		}
		chunk, bytes = append(chunk, v), bytes+j.Size()
		if len(chunk) == maxChunk || bytes >= chunkBytes {
			if err := p.belt.submit(ctx, chunk); err != nil {
				return err
			}
			chunk, bytes, now = make([]*task, 0, maxChunk), 0, s.clock.Now()
		}
	}
	return p.belt.submit(ctx, chunk)
}

// admit prepares the task of a job. ok is false if the job has to wait for its rule, its streams or a lane; jobs of
// its version with later slots are then skipped in this sweep. An admitted job has its lane.
func (s *Sweeper) admit(ctx context.Context, j *Job, p *sweepRun, now time.Time) (v *task, ok bool) {
	made := VersionRef{j.RuleID, j.Version}
	if h, known := p.horizons[made]; known && j.NextCheckAt.After(h.at) {
		return nil, false
	}
	ruleSet := s.book.Revision()
	rule, err := s.book.Rule(ctx, j.RuleID, j.Version)
	if err != nil {
		s.wait(p, j, horizon{err: err})
		s.unreadable.note(made, j.NextCheckAt, err)
		return nil, false
	}
	v = &task{rule: rule, ruleSet: ruleSet, slot: j.NextCheckAt, heard: rule.receivingSince(p.through), Decision: Decision{Job: *j}}
	if at, stream := s.horizonOf(rule, p.through, p.now); j.NextCheckAt.After(at) {
		s.streamBehindSince(stream, now)
		s.wait(p, j, horizon{at: at})
		return nil, false
	} else if !rule.Deleted && stream != "" && p.through[stream].Through.Before(j.NextCheckAt) {
		v.streamTimedOut(rule, stream, now)
		v.unasked = true
		return v, true
	}
	v.through = rule.readThrough(p.through)
	if v.decideWithoutCheck(now); v.unasked {
		return v, true
	}
	if p.isLeaving && v.waitsForIO() {
		p.horizons[made] = horizon{isBusy: true}
		return nil, false
	}
	if !s.mayCheck(p, v, now) {
		return nil, false
	}
	if v.needsLookup() {
		return v, s.reserveLookup(p, rule, now)
	}
	if !isInline(rule) && !s.slow.acquire(rule.ID) {
		s.crowded.Store(true)
		p.horizons[made] = horizon{isBusy: true}
		return nil, false
	}
	return v, true
}

// wait records that jobs of a version with slots after its horizon have to wait.
func (s *Sweeper) wait(p *sweepRun, j *Job, h horizon) {
	made := VersionRef{j.RuleID, j.Version}
	p.horizons[made] = h
	s.waiting[made] = unready{slot: j.NextCheckAt, met: p.now, revision: p.revision}
}

// met records the slot of a waiting job, if its version is in waiting.
func (s *Sweeper) met(j *Job) {
	made := VersionRef{j.RuleID, j.Version}
	if w, known := s.waiting[made]; known {
		w.slot = earliest(w.slot, j.NextCheckAt)
		s.waiting[made] = w
	}
}
