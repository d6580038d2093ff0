package futurejobs

import (
	"context"
	"errors"
	"maps"
	"slices"
	"strings"
	"time"
)

// How much is read and handed on at a time.
const (
	pageMost  = 4000 // jobs a read returns, over all shards
	pageLeast = 250  // jobs a read returns of one shard, at the least
	chunkMost = 250  // jobs one checker works on at a time
	settlers  = 3
)

// pass is one sweep over the held shards.
type pass struct {
	shards  map[int16]*Shard
	through map[string]Reading // by stream
	belt    *belt
	out     map[Edition]error // whose jobs wait; an error says why their rule cannot be read
	busy    map[Edition]bool  // those of out who wait for a source or a handler
	finds   map[Edition]*gathering
	search  func([]*verdict)
	page    []Job // the last page that was read
}

// err says which versions cannot be read, in one order, so that the same is said once.
func (p pass) err() error {
	var errs []error
	for _, err := range p.out {
		if err != nil {
			errs = append(errs, err)
		}
	}
	slices.SortFunc(errs, func(a, b error) int { return strings.Compare(a.Error(), b.Error()) })
	return errors.Join(errs...)
}

// waitingFor is what jobs wait for: their rule's streams read through to a slot, or the time
// after which nobody waits any more.
type waitingFor struct {
	streams []string
	slot    time.Time
	until   time.Time
}

// over reports whether the streams are read past the slot.
func (w waitingFor) over(through map[string]Reading) bool { return w.behind(through) == "" }

// behind is a stream that is not read past the slot; empty: all are.
func (w waitingFor) behind(through map[string]Reading) string {
	for _, stream := range w.streams {
		if through[stream].Through.Before(w.slot) {
			return stream
		}
	}
	return ""
}

// through is up to when all the streams are read; zero: there is none. The readings are older than the jobs,
// so a job has every event before that instant.
func (w waitingFor) through(all map[string]Reading) (least time.Time) {
	for _, stream := range w.streams {
		least = older(least, all[stream].Through)
	}
	return least
}

// sweep reads all that is due in the held shards and hands it to the checkers. What has to
// wait for its streams, a free lane or a source is left: the oldest slot of it is returned, and
// the next sweep has to begin where this one did.
func (s *Sweeper) sweep(ctx context.Context, belt *belt, search func([]*verdict)) (left time.Time, err error) {
	now := s.clock.Now()
	shards := s.owner.Open()
	if len(shards) == 0 || now.IsZero() {
		s.swept.Store(nil) // a node that holds nothing is behind with nothing
		if len(s.owner.Holding()) == 0 {
			s.fail("settle", nil) // and what it could not settle is another's
			s.fail("rules", nil)
		}
		return left, nil
	}
	if s.stoodStill(now) {
		s.Resuming(ctx)
	}
	if err := s.Listening(ctx); err != nil {
		return left, err
	}
	through, err := s.queue.ReadThrough(ctx)
	if err != nil {
		return left, err
	}
	if revision := s.book.Revision(); revision != s.judged { // they may wait for other streams now
		s.judged = revision
		clear(s.lagging)
	}
	maps.DeleteFunc(s.lagging, func(_ Edition, w waitingFor) bool { return now.After(w.until) || w.over(through) })
	maps.DeleteFunc(s.behindSince, func(stream string, since time.Time) bool { return through[stream].Through.After(since) })

	pass := pass{shards: make(map[int16]*Shard, len(shards)), through: through, belt: belt, search: search, out: map[Edition]error{}, busy: map[Edition]bool{}, finds: map[Edition]*gathering{}}
	belt.coming.Add(1)
	defer belt.passed()
	defer pass.sendOld(time.Time{})
	for e, w := range s.lagging {
		left = older(left, w.slot)
		pass.out[e] = nil
	}
	var own time.Time
	query := DueQuery{Until: now, Limit: max(pageMost/len(shards), pageLeast)}
	for _, sh := range shards {
		pass.shards[sh.Shard] = sh
		query.Walks = append(query.Walks, sh.walk(now))
	}
	left, own, err = s.read(ctx, &pass, query, left)
	if err != nil {
		return left, err
	}
	for _, sh := range shards {
		if left.IsZero() {
			sh.raise(now)
		}
		sh.sweptThrough(now)
	}
	s.last = now
	s.swept.Store(&reach{through: now, left: left, own: own})
	s.fail("rules", pass.err())
	return left, nil
}

// read reads what a query asks for, page by page, and hands it on. Where it finds itself behind,
// it begins again with the jobs of the loud rules: whoever is to be called first need not wait
// for all the others. It returns the oldest slot that had to be left, left among them, and the
// same without what waits for a source or a handler.
func (s *Sweeper) read(ctx context.Context, p *pass, q DueQuery, left time.Time) (_, own time.Time, err error) {
	own = left
	for first := true; len(q.Walks) > 0; first = false {
		for _, sh := range p.shards {
			sh.beginRead()
		}
		q.Not = slices.Collect(maps.Keys(p.out))
		q.Room = p.page
		jobs, err := s.queue.Due(ctx, q)
		if err != nil {
			return left, own, err
		}
		p.page = jobs
		if loud := s.book.Loud(); first && len(q.Of) == 0 && len(loud) > 0 && q.behind(jobs) {
			before := q
			before.Of = loud
			if left, own, err = s.read(ctx, p, before, left); err != nil {
				return left, own, err
			}
			continue // the page is read again: some of it is decided by now
		}
		waits, held, err := s.handOn(ctx, p, jobs)
		if err != nil {
			return left, own, err
		}
		left, own = older(left, older(waits, held)), older(own, waits)
		p.sendOld(s.clock.Now())
		q.Walks = advance(q, jobs)
	}
	return left, own, nil
}

// behindBy is how late a job is found by a sweep that is behind.
const behindBy = time.Minute

// behind reports whether there is more than a page to read, and some of it is late.
func (q DueQuery) behind(jobs []Job) bool {
	return len(advance(q, jobs)) > 0 && slices.ContainsFunc(jobs, func(j Job) bool { return q.Until.Sub(j.NextCheckAt) > behindBy })
}

// stoodStill reports whether slots went by since the last sweep that came through, so many
// that somebody may want to know before it goes on.
func (s *Sweeper) stoodStill(now time.Time) bool {
	if s.last.IsZero() {
		return true
	}
	slot := s.book.NextSlot(s.last)
	return !slot.IsZero() && now.Sub(slot) > settleIn
}

// behindStream is since when this node has found a stream behind a job's slot. Before that it may
// have been the node that was away.
func (s *Sweeper) behindStream(stream string, now time.Time) time.Time {
	since, known := s.behindSince[stream]
	if !known {
		since = now
		s.behindSince[stream] = now
	}
	return since
}

func later(a, b time.Time) time.Time {
	if a.After(b) {
		return a
	}
	return b
}

// reach is how far a sweep came.
type reach struct {
	through time.Time // it read what was due by then
	left    time.Time // the oldest slot that it had to leave; zero: none
	own     time.Time // the same, without what waits for a source or a handler
}

// older returns the older of two slots, where the zero time is none.
func older(a, b time.Time) time.Time {
	if a.IsZero() || !b.IsZero() && b.Before(a) {
		return b
	}
	return a
}

// handOn hands the jobs of one read to the checkers, in chunks. It returns the oldest slot
// of those that could not go: of those held by a source or a handler, and of the others.
func (s *Sweeper) handOn(ctx context.Context, p *pass, jobs []Job) (left, held time.Time, err error) {
	picked := s.clock.Now()
	now := picked
	chunk := make([]*verdict, 0, min(chunkMost, len(jobs)))
	for i := range jobs {
		j := &jobs[i]
		shard := p.shards[j.Shard]
		if shard.flying(j.ID) {
			continue
		}
		j.Last = Look{PickedAt: picked}
		v, ok := s.pick(ctx, j, p, now)
		if !ok && p.busy[Edition{j.RuleID, j.Version}] {
			held = older(held, j.NextCheckAt)
			continue
		}
		if !ok {
			left = older(left, j.NextCheckAt)
			continue
		}
		v.shard = shard
		shard.takeOff(v)
		if v.asks() {
			p.gather(v)
			continue
		}
		if chunk = append(chunk, v); len(chunk) == chunkMost {
			if err := p.belt.hand(ctx, chunk); err != nil {
				return left, held, err
			}
			chunk, now = make([]*verdict, 0, chunkMost), s.clock.Now()
		}
	}
	return left, held, p.belt.hand(ctx, chunk)
}

// pick finds out who is to look at a job; ok is false for one that has to wait, for its
// rule, its streams or a lane, and no more of its version is read in this pass. One that
// need not wait has its lane.
func (s *Sweeper) pick(ctx context.Context, j *Job, p *pass, now time.Time) (v *verdict, ok bool) {
	made := Edition{j.RuleID, j.Version}
	if _, out := p.out[made]; out {
		return nil, false
	}
	ruleSet := s.book.Revision()
	rule, err := s.book.Rule(ctx, j.RuleID, j.Version)
	if err != nil {
		p.out[made] = err
		return nil, false
	}
	v = &verdict{rule: rule, ruleSet: ruleSet, slot: j.NextCheckAt, heard: rule.heardSince(p.through), Decision: Decision{Job: *j}}
	if rule.Deleted {
		v.forgo(now)
		return v, true
	}
	w := waitingFor{streams: rule.Streams, slot: j.NextCheckAt}
	if stream := w.behind(p.through); stream != "" {
		w.until = later(j.NextCheckAt, s.behindStream(stream, now)).Add(rule.patient())
		if now.After(w.until) {
			rule.unread(&v.Decision, stream, now)
			v.unasked = true
			return v, true
		}
		s.lagging[made], p.out[made] = w, nil
		return nil, false
	}
	v.through = w.through(p.through)
	if v.forgo(now); v.unasked {
		return v, true
	}
	if v.asks() {
		return v, s.enter(p, rule, now)
	}
	if !prompt(rule) && !s.slow.enter(rule.ID) {
		s.crowded.Store(true)
		p.out[made], p.busy[made] = nil, true
		return nil, false
	}
	return v, true
}

// advance moves each walk to its last job; a shard that gave less than the limit is done.
func advance(q DueQuery, jobs []Job) []Walk {
	counts := map[int16]int{}
	last := map[int16]Job{}
	for _, j := range jobs {
		counts[j.Shard]++
		last[j.Shard] = j
	}
	var walks []Walk
	for _, w := range q.Walks {
		if counts[w.Shard] == q.Limit {
			j := last[w.Shard]
			walks = append(walks, Walk{Shard: w.Shard, At: j.NextCheckAt, ID: j.ID})
		}
	}
	return walks
}
