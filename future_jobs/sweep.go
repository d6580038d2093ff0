package futurejobs

import (
	"cmp"
	"context"
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
	catalog         RuleReader
	clock           *Clock
	pages           *pageReader
	admission       *admission
	turns           *turns
	ctx             context.Context
	now             time.Time // start of the sweep
	steps           int64     // clock steps that the sweep has handled
	revision        int64     // of the rules at the start
	shards          map[int16]*Shard
	through         map[string]StreamProgress // by stream
	pipeline        *pipeline
	admissionLimits map[VersionRef]admissionLimit // of versions with waiting jobs
	lookups         map[VersionRef]*lookupBatch
	startLookup     func([]*task)
	page            []Job // the last page, reused as a buffer
	isLeaving       bool  // the shards are to be given back: no handler and no source is called any more
	isCutShort      bool  // more jobs are due; the next sweep starts at once

	oldestUnhandled time.Time // the oldest slot that was not handled; zero: none
	oldestOwn       time.Time // the same, without jobs that wait for a source, a handler or a tenants' line
}

// recordUnhandled records the slot of a job that was not handled.
func (p *sweepRun) recordUnhandled(slot time.Time, isBusy bool) {
	p.oldestUnhandled = earliest(p.oldestUnhandled, slot)
	if !isBusy {
		p.oldestOwn = earliest(p.oldestOwn, slot)
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

// cut records cursors that did not reach their end.
func (p *sweepRun) cut(rest []ShardCursor) {
	for _, w := range rest {
		slot := w.At
		if !slot.After(beginning) {
			slot = p.now // nothing of the shard was read yet
		}
		p.isCutShort = true
		p.recordUnhandled(slot, false)
	}
}

// skipWaiting makes a query skip jobs that have to wait, and parks them.
func (p *sweepRun) skipWaiting(q *DueQuery) {
	q.Not = q.Not[:0]
	for made, h := range p.admissionLimits {
		if !h.at.Before(q.Until) || len(q.Of) > 0 && !slices.Contains(q.Of, made.RuleID) {
			continue
		}
		q.Not = append(q.Not, Unready{made, h.at})
		for _, w := range q.Cursors {
			from := position{w.At, w.ID}
			if from.at.Before(h.at) {
				from = position{h.at, math.MaxInt64}
			}
			p.shards[w.Shard].parkFrom(made.RuleID, from)
		}
	}
}

func latest(a, b time.Time) time.Time {
	if a.After(b) {
		return a
	}
	return b
}

// earliest returns the earlier of two slots; a zero time is no slot.
func earliest(a, b time.Time) time.Time {
	if a.IsZero() || !b.IsZero() && b.Before(a) {
		return b
	}
	return a
}

// sweep sweeps one set of shards: those that stay, or those that leave.
func (p *sweepRun) sweep(ctx context.Context, shards []*Shard) error {
	if len(shards) == 0 {
		return nil
	}
	p.shards, p.admissionLimits, p.lookups = make(map[int16]*Shard, len(shards)), map[VersionRef]admissionLimit{}, map[VersionRef]*lookupBatch{}
	defer p.flushOldLookups(time.Time{})
	for _, sh := range shards {
		p.shards[sh.Shard] = sh
		sh.beginSweep()
	}
	p.admission.holdBack(p)
	slot := p.catalog.NextSlot(p.now)
	slotCame := func(DueQuery, []Job) bool { return !slot.IsZero() && !p.clock.Now().Before(slot) }
	if err := p.readParked(ctx, p.admission.refreshLimits(p), nil); err != nil {
		return err
	}
	if err := p.readDue(ctx, shards, slotCame); err != nil {
		return err
	}
	if err := p.readParked(ctx, nil, slotCame); err != nil {
		return err
	}
	for _, sh := range shards {
		sh.sweptThrough(p.now)
	}
	return nil
}

// readDue reads the jobs that became due in each shard, and then the rest of its round of reads. A round that finds
// few ready jobs among many waiting ones continues in the next sweep.
func (p *sweepRun) readDue(ctx context.Context, shards []*Shard, slotCame stopping) error {
	fresh, old := DueQuery{Until: p.now}, DueQuery{Until: p.now}
	isRecent := map[int16]bool{}
	for _, sh := range shards {
		recent, rest := sh.nextCursor(p.now)
		if fresh.Cursors = append(fresh.Cursors, recent); rest != nil {
			old.Cursors, isRecent[sh.Shard] = append(old.Cursors, *rest), true
		}
	}
	stop := func(q DueQuery, page []Job) bool { return slotCame(q, page) && q.foundLittle(page) }
	for _, q := range []DueQuery{fresh, old} {
		begun := q.Cursors
		rest, err := p.read(ctx, q, stop)
		for _, w := range begun {
			sh, r := p.shards[w.Shard], cursorOf(rest, w.Shard)
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

// read reads the jobs of a query, page by page, and dispatches them, until stop ends it after a page. It returns the
// cursors that did not reach their end. If the sweep is behind, it first reads the jobs of the critical rules: they do
// not wait for all the others.
func (p *sweepRun) read(ctx context.Context, q DueQuery, stop stopping) (rest []ShardCursor, err error) {
	limit := maxPage
	for isFirst := true; len(q.Cursors) > 0; isFirst = false {
		for _, sh := range p.shards {
			sh.dropFinished()
		}
		p.skipWaiting(&q)
		q.Room = p.page
		jobs, err := p.pages.read(ctx, &q, limit)
		if err != nil {
			return q.Cursors, err
		}
		if p.clock.Steps() != p.steps {
			return q.Cursors, errStepped
		}
		p.page = jobs
		if critical := p.criticalOf(q); isFirst && len(critical) > 0 && q.behind(jobs) {
			before := q
			before.Of = critical
			if _, err = p.read(ctx, before, func(DueQuery, []Job) bool { return false }); err != nil {
				return q.Cursors, err
			}
			continue // the page is read again: some of it is decided by now
		}
		if err := p.dispatch(ctx, jobs); err != nil {
			return q.Cursors, err
		}
		p.flushOldLookups(p.clock.Now())
		isOver := stop(q, jobs)
		if limit = maxPage; q.foundLittle(jobs) {
			limit = scanMost
		}
		if q.Cursors = q.Advance(jobs); isOver {
			break
		}
	}
	return q.Cursors, nil
}

// criticalOf returns the critical rules of a query; none if the query has no other rules.
func (p *sweepRun) criticalOf(q DueQuery) []int32 {
	critical := p.catalog.CriticalRules()
	if len(q.Of) == 0 {
		return critical
	}
	critical = slices.DeleteFunc(slices.Clone(critical), func(rule int32) bool { return !slices.Contains(q.Of, rule) })
	if len(critical) == len(q.Of) {
		return nil
	}
	return critical
}

// dispatch passes the jobs of one read to the checkers, in chunks, and parks jobs that have to wait.
func (p *sweepRun) dispatch(ctx context.Context, jobs []Job) error {
	picked := p.clock.Now()
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
		v, ok := p.admission.admit(ctx, j, p, now)
		if !ok {
			h := p.admissionLimits[VersionRef{j.RuleID, j.Version}]
			p.recordUnhandled(j.NextCheckAt, h.isBusy || h.isTenants)
			p.admission.noteWaiting(j)
			shard.parkFrom(j.RuleID, position{j.NextCheckAt, j.ID - 1})
			continue
		}
		v.shard = shard
		shard.start(v)
		if v.needsLookup() {
			p.addToLookup(v)
			continue
		}
		if v.takesTurn() {
			p.turns.put(v)
			continue
		}
		chunk, bytes = append(chunk, v), bytes+j.Size()
		if len(chunk) == maxChunk || bytes >= chunkBytes {
			if err := p.pipeline.submit(ctx, chunk); err != nil {
				return err
			}
			chunk, bytes, now = make([]*task, 0, maxChunk), 0, p.clock.Now()
		}
	}
	return p.pipeline.submit(ctx, chunk)
}

// readParked reads the parked jobs that need not wait any more, up to the limit of their rule, until stop ends it,
// or one page if stop is nil; of versions to probe it reads one page.
func (p *sweepRun) readParked(ctx context.Context, probe []int32, stop stopping) error {
	reach, isBusy := map[int32]time.Time{}, map[int32]bool{}
	for made, h := range p.admissionLimits {
		if isBusy[made.RuleID] = isBusy[made.RuleID] || h.isBusy; !h.isBusy {
			reach[made.RuleID] = latest(reach[made.RuleID], h.at)
		}
	}
	groups, waits := map[time.Time][]int32{}, slices.Collect(maps.Keys(reach))
	for rule := range p.parkedRules() {
		until, waits := reach[rule]
		if !waits {
			until = p.now
		}
		if !isBusy[rule] && !slices.Contains(probe, rule) {
			groups[until] = append(groups[until], rule)
		}
	}
	if err := p.readRules(ctx, probe, p.now, false, nil); err != nil {
		return err
	}
	if err := p.readRules(ctx, waits, p.now, true, stop); err != nil {
		return err
	}
	for _, until := range slices.SortedFunc(maps.Keys(groups), func(a, b time.Time) int { return b.Compare(a) }) {
		if err := p.readRules(ctx, groups[until], until, false, stop); err != nil {
			return err
		}
	}
	return nil
}

// readRules reads the parked jobs of some rules that are due by until. With onlyReady, rules without a ready job are
// left out.
func (p *sweepRun) readRules(ctx context.Context, rules []int32, until time.Time, onlyReady bool, stop stopping) error {
	q := DueQuery{Until: until, Of: rules}
	for _, sh := range p.shards {
		if w, ok := sh.beginParked(rules, until, onlyReady); ok {
			q.Cursors = append(q.Cursors, w)
		}
	}
	if len(q.Cursors) == 0 {
		return nil
	}
	slices.SortFunc(q.Cursors, func(a, b ShardCursor) int { return cmp.Compare(a.Shard, b.Shard) })
	begun, more := q.Cursors, stop
	if stop == nil {
		more = func(DueQuery, []Job) bool { return true }
	}
	rest, err := p.read(ctx, q, more)
	for _, w := range begun {
		to := endOf(until, p.now)
		if r := cursorOf(rest, w.Shard); r != nil {
			to = position{r.At, r.ID}
		}
		p.shards[w.Shard].endParked(rules, to)
	}
	if stop != nil {
		p.cut(rest)
	}
	return err
}

// addToLookup adds a job to the lookup batch of its version, and sends a full batch.
func (p *sweepRun) addToLookup(v *task) {
	made := VersionRef{v.rule.ID, v.rule.Version}
	g := p.lookups[made]
	g.jobs, g.bytes = append(g.jobs, v), g.bytes+v.Job.Size()
	if len(g.jobs) == maxLookupBatch || g.bytes >= settleBytes {
		p.flushLookup(made)
	}
}

// flushLookup sends the lookup batch of a version.
func (p *sweepRun) flushLookup(made VersionRef) {
	g := p.lookups[made]
	delete(p.lookups, made)
	p.startLookup(g.jobs)
}

// flushOldLookups sends the batches older than lookupLinger, or all batches if now is zero.
func (p *sweepRun) flushOldLookups(now time.Time) {
	for made, g := range p.lookups {
		if now.IsZero() || now.Sub(g.begun) > lookupLinger {
			p.flushLookup(made)
		}
	}
}
