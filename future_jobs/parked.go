package futurejobs

import (
	"cmp"
	"context"
	"maps"
	"math"
	"slices"
	"time"
)

// round is a series of reads of one shard from its low water, or from its beginning, up to a time. A round that skips
// very many waiting jobs continues in later sweeps, so that newly due jobs need not wait for its end.
type round struct {
	began  time.Time // zero: no round is open
	at     position  // the position of the round
	recent position  // the position of reads of jobs that became due since its start, or since the low water before it
}

func (r round) isOpen() bool { return !r.began.IsZero() }

// parking marks jobs of one rule behind the low water of a shard that have to wait: for their streams, for a source,
// or until their version is readable. A round of reads does not cover them, and they are not listed one by one: jobs
// that wait for a stream are read once the stream is read further, up to that time.
//
// Jobs are parked by rule and not by version, since a change of the rule may give a job another version.
type parking struct {
	from    position // before the first of them
	added   position // before the first job parked since a read of them began; zero: none
	isReady bool     // some of them need not wait, for example an unsettled one
	isRead  bool     // a read of them is running
}

// beginning is before all slots.
var beginning = time.Unix(0, 0).UTC()

// park parks the jobs of a rule after a position. The shard is locked.
func (s *Shard) park(rule int32, from position) *parking {
	if from.at.Before(beginning) {
		from.at = beginning
	}
	p := s.parked[rule]
	if p == nil {
		p = &parking{from: from}
		s.parked[rule] = p
	}
	if from.isBefore(p.from) {
		p.from = from
	}
	if p.added.at.IsZero() || from.isBefore(p.added) {
		p.added = from
	}
	return p
}

// passOver parks the jobs of a rule after a position.
func (s *Shard) passOver(rule int32, from position) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.park(rule, from)
}

// suspend records the position of the round of reads, or of the reads of recently due jobs.
func (s *Shard) suspend(w ShardCursor, isRecent bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if isRecent {
		s.round.recent = position{w.At, w.ID}
	} else {
		s.round.at = position{w.At, w.ID}
	}
}

// roundBegan returns when the round of reads began.
func (s *Shard) roundBegan() time.Time {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.round.began
}

// addParked adds the rules with parked jobs.
func (s *Shard) addParked(rules map[int32]bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for rule := range s.parked {
		rules[rule] = true
	}
}

// beginParked begins a read of the parked jobs of some rules that are due by until. With onlyReady, rules without a
// ready job are left out. ok is false if no job matches.
func (s *Shard) beginParked(rules []int32, until time.Time, onlyReady bool) (w ShardCursor, ok bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	var from position
	for _, rule := range rules {
		p := s.parked[rule]
		if p == nil || onlyReady && !p.isReady || p.from.at.After(until) || !p.from.isBefore(s.lowWater) {
			continue
		}
		from = first(from, p.from)
		p.added, p.isReady, p.isRead = position{}, false, true
	}
	return ShardCursor{Shard: s.Shard, At: from.at, ID: from.id}, !from.at.IsZero()
}

// endParked records the position of a read of parked jobs. Jobs parked meanwhile stay parked.
func (s *Shard) endParked(rules []int32, to position) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, rule := range rules {
		p := s.parked[rule]
		if p == nil || !p.isRead {
			continue
		}
		if p.isRead = false; p.from.isBefore(to) {
			p.from = to
		}
		if p.from = first(p.from, p.added); !p.from.isBefore(s.lowWater) {
			delete(s.parked, rule)
		}
	}
}

// endOf returns the position after all jobs due by a time, as far as no transaction can still add to them.
func endOf(until, now time.Time) position {
	if settled := now.Add(-maxTxDelay); until.After(settled) {
		return position{at: settled}
	}
	return position{at: until, id: math.MaxInt64}
}

// horizon is the time up to which the jobs of a version may be decided.
type horizon struct {
	at     time.Time // later slots have to wait
	err    error     // why the version is unreadable; nil: readable
	isBusy bool      // the jobs wait for a source or a handler, or in its queue
}

// probeEvery is how long a version with waiting jobs is skipped: after that one page of its jobs is read again, to
// check whether any are left.
const probeEvery = time.Minute

// unready describes a version with waiting jobs.
type unready struct {
	slot     time.Time // the oldest one found
	met      time.Time // when the first was found, since the last probe
	revision int64     // of the rules at that time
}

// horizonOf returns the time up to which the jobs of a rule may be decided: the time up to which all of its streams
// are read, or the slots that have waited for them long enough. It also returns the stream that is furthest behind.
func (s *Sweeper) horizonOf(rule *Rule, through map[string]StreamProgress, now time.Time) (at time.Time, stream string) {
	at = now
	if rule.Deleted {
		return at, ""
	}
	for i, name := range rule.Streams {
		if read := through[name].Through; i == 0 || read.Before(through[stream].Through) {
			stream = name
		}
		if read := through[name].Through; read.Before(at) {
			at = read
		}
	}
	if !at.Before(now) {
		return now, stream
	}
	patient := rule.streamTimeout()
	if since, known := s.behindSince[stream]; known && now.Sub(since) > patient {
		at = latest(at, now.Add(-patient-time.Microsecond))
	}
	return at, stream
}

// horizons sets the horizons of versions with waiting jobs. Versions with jobs that need not wait any more are
// removed, and so are those to probe: their rules are returned. A version is probed each minute, and after a change
// of its rule, since its jobs may have another version now.
func (s *Sweeper) horizons(p *sweepRun) (probe []int32) {
	for made, w := range s.waiting {
		rule, err := s.book.Rule(p.ctx, made.RuleID, made.Version)
		h, oldest := horizon{err: err}, w.slot
		if err == nil {
			var stream string
			h.at, stream = s.horizonOf(rule, p.through, p.now)
			if oldest = latest(oldest, rule.Grid.After(h.at)); oldest.After(p.now) { // no slot since the horizon
				delete(s.waiting, made)
				continue
			}
			s.streamBehindSince(stream, p.now)
		}
		if s.book.RuleChangedAt(made.RuleID) > w.revision || p.now.Sub(w.met) >= probeEvery {
			delete(s.waiting, made)
			probe = append(probe, made.RuleID)
			continue
		}
		p.horizons[made] = h
		p.leave(oldest, false)
	}
	return probe
}

// readParked reads the parked jobs that need not wait any more, up to the horizon of their rule, until stop ends it,
// or one page if stop is nil; of versions to probe it reads one page.
func (s *Sweeper) readParked(ctx context.Context, p *sweepRun, probe []int32, stop stopping) error {
	reach, isBusy := map[int32]time.Time{}, map[int32]bool{}
	for made, h := range p.horizons {
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
	if err := s.readRules(ctx, p, probe, p.now, false, nil); err != nil {
		return err
	}
	if err := s.readRules(ctx, p, waits, p.now, true, stop); err != nil {
		return err
	}
	for _, until := range slices.SortedFunc(maps.Keys(groups), func(a, b time.Time) int { return b.Compare(a) }) {
		if err := s.readRules(ctx, p, groups[until], until, false, stop); err != nil {
			return err
		}
	}
	return nil
}

// readRules reads the parked jobs of some rules that are due by until. With onlyReady, rules without a ready job are
// left out.
func (s *Sweeper) readRules(ctx context.Context, p *sweepRun, rules []int32, until time.Time, onlyReady bool, stop stopping) error {
	q := DueQuery{Until: until, Of: rules}
	for _, sh := range p.shards {
		if w, ok := sh.beginParked(rules, until, onlyReady); ok {
			q.Walks = append(q.Walks, w)
		}
	}
	if len(q.Walks) == 0 {
		return nil
	}
	slices.SortFunc(q.Walks, func(a, b ShardCursor) int { return cmp.Compare(a.Shard, b.Shard) })
	begun, more := q.Walks, stop
	if stop == nil {
		more = func(DueQuery, []Job) bool { return true }
	}
	rest, err := s.read(ctx, p, q, more)
	for _, w := range begun {
		to := endOf(until, p.now)
		if r := walkOf(rest, w.Shard); r != nil {
			to = position{r.At, r.ID}
		}
		p.shards[w.Shard].endParked(rules, to)
	}
	if stop != nil {
		p.cut(rest)
	}
	return err
}

// walkOf returns the walk of a shard; nil: it reached its end.
func walkOf(walks []ShardCursor, shard int16) *ShardCursor {
	for i := range walks {
		if walks[i].Shard == shard {
			return &walks[i]
		}
	}
	return nil
}
