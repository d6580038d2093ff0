package futurejobs

import (
	"cmp"
	"maps"
	"math"
	"math/bits"
	"sync"
	"time"
)

// maxTxDelay is how late a transaction may make a due job visible behind the sweep. The low water stays this far
// behind now.
const maxTxDelay = 10 * time.Second

// fullScanInterval is how often a shard is swept from its beginning, for rows that appeared behind the low water
// nevertheless.
const fullScanInterval = 5 * time.Minute

// Shard is a shard that this node holds, with the state of its sweeps.
type Shard struct {
	HeldShard

	mu       sync.Mutex
	until    time.Time    // end of the lease, by the local clock; counted from before the renewal was sent
	leaving  time.Time    // since then the shard is to be given back, and nothing new is read; zero: it stays
	lowWater position     // start of a round of reads: behind it are only parked jobs
	round    round        // the current round of reads
	parked   parkings     // jobs that wait behind the low water
	swept    time.Time    // all jobs due by then were read by the last completed sweep, also of another holder
	caughtUp time.Time    // the last sweep from the beginning; zero: not by this holder
	inFlight inFlightJobs // the jobs being checked
}

func newShard(l Lease, until time.Time) *Shard {
	return &Shard{
		HeldShard: l.HeldShard, until: until, lowWater: position{at: l.LowWater}, swept: l.Swept,
		inFlight: newInFlightJobs(), parked: parkings{},
	}
}

// position is a place in the order of a shard's due jobs. A zero time means no place.
type position struct {
	at time.Time
	id int64
}

// isBefore reports whether p comes before other, or other is zero.
func (p position) isBefore(other position) bool {
	return other.at.IsZero() || cmp.Or(p.at.Compare(other.at), cmp.Compare(p.id, other.id)) < 0
}

// first returns the earlier of two positions; a zero position is no place.
func first(a, b position) position {
	if a.at.IsZero() || !b.at.IsZero() && cmp.Or(b.at.Compare(a.at), cmp.Compare(b.id, a.id)) < 0 {
		return b
	}
	return a
}

// nextCursor returns the reads of a sweep in the shard: first the jobs that became due since the low water, or since
// the open round of reads began, and then the rest of that round; nil: none. Without an open round it begins one: of
// all jobs due by now from the low water, or from the beginning if that has not been done since the shard's turn, or
// not by this holder. A read from the beginning may skip very many waiting jobs, so it is never the first.
func (s *Shard) nextCursor(now time.Time) (recent ShardCursor, rest *ShardCursor) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if !s.round.isOpen() && !s.beginRound(now) {
		return s.walkFrom(s.lowWater), nil
	}
	old := s.walkFrom(s.round.at)
	return s.walkFrom(s.round.recent), &old
}

func (s *Shard) walkFrom(p position) ShardCursor {
	return ShardCursor{Shard: s.Shard, At: p.at, ID: p.id}
}

// beginRound begins a round of reads, and reports whether it starts before the low water. The shard is locked.
func (s *Shard) beginRound(now time.Time) (isFull bool) {
	if s.lowWater.at.After(now) || s.caughtUp.Sub(now) > maxClockJump { // set by a clock that was ahead
		s.lowWater, s.caughtUp = position{}, time.Time{}
		clear(s.parked)
	}
	s.inFlight.firstDecided = position{}
	if s.caughtUp.Before(s.fullScanAt(now)) {
		s.caughtUp = now
		if !s.lowWater.at.IsZero() {
			s.round = round{startedAt: now, recent: s.lowWater}
			return true
		}
	}
	s.round = round{startedAt: now, at: s.lowWater, recent: position{now, math.MaxInt64}}
	return false
}

// fullScanAt returns the start of the shard's last turn for a full scan. An old transaction may keep the database
// from removing dead rows, so the shards take turns, spread over fullScanInterval: the next of 2ⁿ shards is halfway
// between two others, by reversing the bits of its number.
func (s *Shard) fullScanAt(now time.Time) time.Time {
	place := fullScanInterval * time.Duration(bits.Reverse16(uint16(s.Shard))) >> 16
	return now.Add(-place).Truncate(fullScanInterval).Add(place)
}

// parkFrom parks the jobs of a rule after a position.
func (s *Shard) parkFrom(rule int32, from position) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.parked.park(rule, from)
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
	from := s.parked.beginRead(rules, until, onlyReady, s.lowWater)
	return s.walkFrom(from), !from.at.IsZero()
}

// endParked records the position of a read of parked jobs. Jobs parked meanwhile stay parked.
func (s *Shard) endParked(rules []int32, to position) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.parked.endRead(rules, to, s.lowWater)
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
	return s.round.startedAt
}

// isInFlight reports whether a job is being checked.
func (s *Shard) isInFlight(id int64) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	_, flying := s.inFlight.jobs[id]
	return flying
}

// start marks a job as being checked. A decision without a check may have moved the job already; its row is at
// v.slot.
func (s *Shard) start(v *task) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.inFlight.start(v)
}

// answered marks the source or handler of a job in flight as having answered, or its turn as over: the job now waits
// for its settlement only.
func (s *Shard) answered(id int64) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.inFlight.answered(id)
}

// finish marks a job as decided. Its row is now at the given time: its slot if it was not settled, its next slot if
// it continues, and zero if it ended. The job stays in flight until the next read begins, because a running read may
// return its old row. A job behind the low water is parked; otherwise no read would find it.
func (s *Shard) finish(id int64, at time.Time) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.finishLocked(id, at)
	delete(s.inFlight.unsettledJobs, id)
}

// finishLocked marks a job as decided, and parks it if it is behind the low water. The shard is locked.
func (s *Shard) finishLocked(id int64, at time.Time) {
	if p := (position{at, id - 1}); !at.IsZero() && !s.lowWater.at.IsZero() && p.isBefore(s.lowWater) {
		s.parked.park(s.inFlight.jobs[id].rule, p).isReady = true
	}
	s.inFlight.finish(id, at)
}

// finishUnsettled is finish for a job that was decided and could not be settled. The jobs in flight and the unsettled ones
// change under one lock: otherwise the shard would seem settled for a moment.
func (s *Shard) finishUnsettled(id int64, slot time.Time) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.finishLocked(id, slot)
	s.inFlight.putBack(id, slot, false)
}

// rest keeps a job in flight if its decision takes too long to settle.
func (s *Shard) rest(id int64, slot time.Time) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.inFlight.rest(id, slot)
}

// dropFinished removes the decided jobs from those in flight: a read that begins now returns their current rows.
func (s *Shard) dropFinished() {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.inFlight.dropFinished()
}

// oldest returns the slot of the oldest job that is in flight or could not be settled, and of the oldest that waits
// for no source, no handler and no turn; zero: none.
func (s *Shard) oldest() (slot, own time.Time) {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.inFlight.oldest()
}

// raiseLowWater moves the low water up after a round of reads that began at now: to now less maxTxDelay, but never
// past a job that is in flight, or that was in flight and may be due behind the reads since: it could not be settled,
// or took so long that its next slot has passed. It never moves down: a job in flight from behind the low water is
// parked when it lands. Parked jobs ahead of the low water are unparked: each round reads them.
func (s *Shard) raiseLowWater(now time.Time) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.round = round{}
	low := position{at: now.Add(-maxTxDelay)}
	for _, p := range []position{s.inFlight.firstDecided, s.inFlight.first(s.lowWater)} {
		if !p.at.IsZero() && !p.isBefore(s.lowWater) || s.lowWater.at.IsZero() {
			low = first(low, p)
		}
	}
	if s.lowWater.at.IsZero() || first(s.lowWater, low) == s.lowWater {
		s.lowWater = low
	}
	maps.DeleteFunc(s.parked, func(_ int32, p *parking) bool { return !p.from.isBefore(s.lowWater) })
}

// forget resets the sweep progress of the shard after a clock step: the next sweep starts at the beginning.
func (s *Shard) forget() {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.lowWater, s.caughtUp, s.swept, s.round = position{}, time.Time{}, time.Time{}, round{}
	clear(s.parked)
}

// beginSweep counts a sweep, so that an unsettled job records the last sweep that found it.
func (s *Shard) beginSweep() {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.inFlight.sweeps++
}

// sweptThrough records that a sweep of the shard, begun at now, completed. An unsettled job that was no longer found due is
// removed: another transaction changed or ended the job, or it waits for its stream.
func (s *Shard) sweptThrough(now time.Time) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.swept = now
	if !s.round.isOpen() {
		s.inFlight.dropStaleUnsettled()
	}
}

// lease returns the shard's row for the lease table. Its low water covers all jobs, including parked ones and those
// in flight.
func (s *Shard) lease() Lease {
	settled := s.settledThrough()
	s.mu.Lock()
	defer s.mu.Unlock()
	low := s.lowWater
	if !low.at.IsZero() {
		low = first(s.parked.first(low), s.inFlight.first(position{}))
	}
	return Lease{HeldShard: s.HeldShard, LowWater: low.at, Swept: settled}
}

// settledThrough returns the sweep progress of the shard: all jobs due by then were read, and settled unless they
// wait for a stream, a source, a handler or a turn. It may go back if a job appears late or a round of reads is still open.
func (s *Shard) settledThrough() time.Time {
	s.mu.Lock()
	defer s.mu.Unlock()
	through := s.swept
	if s.round.isOpen() && !through.IsZero() {
		through = earliest(through, latest(s.round.at.at, s.lowWater.at))
	}
	left := s.inFlight.unsettled(through)
	if through.IsZero() || left.IsZero() || left.After(through) {
		return through
	}
	return left.Add(-time.Microsecond)
}

func (s *Shard) renew(until time.Time) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.until = until
}

// maxRelease bounds the wait of a shard that is being released: for sources, and on an unfit node for handlers.
const maxRelease = 10 * time.Second

// startRelease begins to give the shard back, and reports whether it can be released: nothing is in flight, or for
// longer than maxRelease only jobs that wait for a source, or rest. The next holder checks these again; meanwhile all
// other jobs of the shard would be delayed. An unfit node waits no longer for anything: it may be unable to settle
// the answers of its handlers.
func (s *Shard) startRelease(now time.Time, unfit bool) (free bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.leaving.IsZero() {
		s.leaving = now
	}
	switch {
	case s.inFlight.areDecided():
		return true
	case now.Sub(s.leaving) < maxRelease:
		return false
	}
	return unfit || s.inFlight.onlyWait()
}

func (s *Shard) cancelRelease() {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.leaving = time.Time{}
}

// open reports whether jobs of the shard may be read and decided at the local time now.
func (s *Shard) open(now time.Time) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.leaving.IsZero() && now.Before(s.until)
}

// computes reports whether, at the local time now, jobs of inline rules may still be read and decided in a shard that
// is to be given back and waits for a handler or a source, perhaps for minutes. After the answer nothing more is
// read, so that the shard can be released.
func (s *Shard) computes(now time.Time) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	return !s.leaving.IsZero() && now.Before(s.until) && s.inFlight.waitsForIO()
}

// valid reports whether the lease is still held at the local time now.
func (s *Shard) valid(now time.Time) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	return now.Before(s.until)
}
