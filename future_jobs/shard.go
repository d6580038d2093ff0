package futurejobs

import (
	"cmp"
	"maps"
	"math"
	"math/bits"
	"sync"
	"time"
)

// maxTxDelay is how late a transaction may make a due job appear behind the sweep. The low
// water stays this far behind now.
const maxTxDelay = 10 * time.Second

// fullScanInterval is how often a shard is swept from its very beginning, for rows that
// appeared behind the low water in spite of everything.
const fullScanInterval = 5 * time.Minute

// Shard is a shard that this node holds, with what it is doing there.
type Shard struct {
	HeldShard

	mu       sync.Mutex
	until    time.Time          // by the local clock; counted from before the renewal was sent
	leaving  time.Time          // since when it is to be given back, and nothing new is read; zero: it stays
	lowWater position           // where a round of reads begins: behind it nothing is left but what is parked
	round    round              // the reads since then
	parked   map[int32]*parking // by rule
	swept    time.Time          // through by the last sweep that ended, also of another holder: what was due by then was read
	caughtUp time.Time          // when it was last swept from the beginning; zero: not by this holder
	flights  map[int64]inFlight // the jobs being looked at
	landed   []landing          // decided since the last read; still in flights
	flown    position           // the first of what was forgotten since the walk began and is there still; zero: none
	sweeps   int                // that began
	setBack  map[int64]setback  // jobs that were decided and could not be settled, up to maxSetbacks
}

// maxSetbacks bounds how many jobs of a shard are remembered as not settled. Jobs are read in the order of their slots,
// so that those that are remembered come first.
const maxSetbacks = 1000

// setback is a job that was decided and could not be settled.
type setback struct {
	micros int64 // of its slot, since 1970
	sweep  int   // the last one in which it was found due
	isSlow bool  // its decision took longer than a transaction may, by itself
}

func newShard(l Lease, until time.Time) *Shard {
	return &Shard{
		HeldShard: l.HeldShard, until: until, lowWater: position{at: l.LowWater}, swept: l.Swept,
		flights: map[int64]inFlight{}, parked: map[int32]*parking{}, setBack: map[int64]setback{},
	}
}

// position is a place in the order in which a shard's jobs are due. One with a zero instant is none.
type position struct {
	at time.Time
	id int64
}

// isBefore reports whether a place comes before another one, or there is no other.
func (p position) isBefore(other position) bool {
	return other.at.IsZero() || cmp.Or(p.at.Compare(other.at), cmp.Compare(p.id, other.id)) < 0
}

// first returns the one of two places that comes first.
func first(a, b position) position {
	if a.at.IsZero() || !b.at.IsZero() && cmp.Or(b.at.Compare(a.at), cmp.Compare(b.id, a.id)) < 0 {
		return b
	}
	return a
}

// landing is a job that was decided.
type landing struct {
	id int64
	at time.Time // where it is to be found again; zero: it has ended
}

// inFlight is a job that is being looked at. It holds no pointer, so that the garbage collector need not look
// through the flights.
type inFlight struct {
	micros int64 // of its slot, since 1970
	rule   int32
	asks   bool // a source
	out    bool // it waits for a source, or for a handler that finds out by itself
	landed bool // it is decided, and stays here until the next read begins
	rests  bool // its decision takes too long to settle
}

func (f inFlight) slot() time.Time { return fromMicros(f.micros) }

func fromMicros(micros int64) time.Time { return time.UnixMicro(micros).UTC() }

// nextCursor is what a sweep reads in the shard: first what became due since the low water, or since the round of reads began
// that is open, and then the rest of that round; nil: there is none. Where no round is open it begins one: of all that
// is due by now behind the low water, or from the beginning where that has not been done since the shard's turn, or not
// by this holder. A read from the beginning may pass over very many jobs that wait, so it is never the first.
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

// beginRound begins a round of reads, and reports whether it goes back behind the low water. The shard is locked.
func (s *Shard) beginRound(now time.Time) (isFull bool) {
	if s.lowWater.at.After(now) || s.caughtUp.Sub(now) > maxClockJump { // of a clock that was ahead: what is before it is not known
		s.lowWater, s.caughtUp = position{}, time.Time{}
		clear(s.parked)
	}
	s.flown = position{}
	if s.caughtUp.Before(s.fullScanAt(now)) {
		s.caughtUp = now
		if !s.lowWater.at.IsZero() {
			s.round = round{began: now, recent: s.lowWater}
			return true
		}
	}
	s.round = round{began: now, at: s.lowWater, recent: position{now, math.MaxInt64}}
	return false
}

// fullScanAt is when the last turn of the shard began to be swept from its beginning. An old transaction may have
// the database keep all that was ever there, so the shards take turns, each at a place of its own in
// catchUpEvery: the next of 2ⁿ shards is halfway between two others, with the bits of its number reversed.
func (s *Shard) fullScanAt(now time.Time) time.Time {
	place := fullScanInterval * time.Duration(bits.Reverse16(uint16(s.Shard))) >> 16
	return now.Add(-place).Truncate(fullScanInterval).Add(place)
}

// isInFlight reports whether a job is being looked at.
func (s *Shard) isInFlight(id int64) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	_, flying := s.flights[id]
	return flying
}

// begin marks a job as being looked at. What was decided without asking may have moved the job already; its row
// is at its slot.
func (s *Shard) begin(v *task) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.flights[v.Job.ID] = inFlight{micros: v.slot.UnixMicro(), rule: v.Job.RuleID, asks: v.needsLookup(), out: v.waitsForIO()}
	if set, is := s.setBack[v.Job.ID]; is {
		set.sweep, v.isSlow = s.sweeps, set.isSlow
		s.setBack[v.Job.ID] = set
	}
}

// answered marks a job in flight whose source or handler has answered: from now on it waits for its settlement alone.
func (s *Shard) answered(id int64) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if f, flies := s.flights[id]; flies {
		f.out, f.asks = false, false
		s.flights[id] = f
	}
}

// finish marks a job as decided, whose row is at an instant now: its slot where it was not settled, the next where
// it was and goes on, and zero where it has ended. It stays among the flights until the next read begins, because
// one that is under way may show the job as it was. A job behind the low water is parked, or no read would find it.
func (s *Shard) finish(id int64, at time.Time) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.landLocked(id, at)
	delete(s.setBack, id)
}

func (s *Shard) landLocked(id int64, at time.Time) {
	if p := (position{at, id - 1}); !at.IsZero() && !s.lowWater.at.IsZero() && p.isBefore(s.lowWater) {
		s.park(s.flights[id].rule, p).isReady = true
	}
	s.landed = append(s.landed, landing{id, at})
	if f, flies := s.flights[id]; flies {
		f.landed = true
		s.flights[id] = f
	}
}

// landUnsettled is land for a job that was decided and could not be settled. At no moment is it neither in flight nor
// set back: the shard would seem to be settled.
func (s *Shard) landUnsettled(id int64, slot time.Time) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.landLocked(id, slot)
	s.putBack(id, slot, false)
}

// rest keeps a job in flight whose decision takes too long to settle.
func (s *Shard) rest(id int64, slot time.Time) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if f, flies := s.flights[id]; flies {
		f.rests = true
		s.flights[id] = f
	}
	s.putBack(id, slot, true)
}

// putBack notes that a job was decided and not settled. The shard is locked.
func (s *Shard) putBack(id int64, slot time.Time, isSlow bool) {
	if set, is := s.setBack[id]; is || len(s.setBack) < maxSetbacks {
		s.setBack[id] = setback{micros: slot.UnixMicro(), sweep: s.sweeps, isSlow: isSlow || set.isSlow}
	}
}

// dropFinished forgets the jobs that have landed: a read that begins now shows them as they are.
func (s *Shard) dropFinished() {
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, l := range s.landed {
		s.flown = first(s.flown, position{l.at, l.id - 1})
		delete(s.flights, l.id)
	}
	s.landed = s.landed[:0]
}

// oldest is the slot of the oldest job that is in flight or could not be settled, and of the oldest that waits for
// no source and no handler; zero where there is none.
func (s *Shard) oldest() (slot, own time.Time) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, f := range s.flights {
		if f.landed {
			continue
		}
		slot = earliest(slot, f.slot())
		if !f.out {
			own = earliest(own, f.slot())
		}
	}
	for _, set := range s.setBack { // also while their handlers are asked again
		slot, own = earliest(slot, fromMicros(set.micros)), earliest(own, fromMicros(set.micros))
	}
	return slot, own
}

// raiseLowWater moves the low water up after a round of reads that began at now: to then less what a slow transaction may
// take, but never past a job that is in flight, or was and may be due behind what was read since: it could not be
// settled, or took so long that its next slot is over. And never down: what is in flight from behind the low water
// is parked when it lands. Parked jobs ahead of the low water are no longer parked: each round reads them.
func (s *Shard) raiseLowWater(now time.Time) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.round = round{}
	low := position{at: now.Add(-maxTxDelay)}
	for _, p := range []position{s.flown, s.firstInFlight()} {
		if !p.at.IsZero() && !p.isBefore(s.lowWater) || s.lowWater.at.IsZero() {
			low = first(low, p)
		}
	}
	if s.lowWater.at.IsZero() || first(s.lowWater, low) == s.lowWater {
		s.lowWater = low
	}
	maps.DeleteFunc(s.parked, func(_ int32, p *parking) bool { return !p.from.isBefore(s.lowWater) })
}

// firstInFlight is the place before the first job in flight that is not behind the low water.
func (s *Shard) firstInFlight() (p position) {
	for id, f := range s.flights {
		if at := (position{f.slot(), id - 1}); s.lowWater.at.IsZero() || !at.isBefore(s.lowWater) {
			p = first(p, at)
		}
	}
	return p
}

// forget forgets how far the shard is swept, since the clock stepped: the next sweep begins at its beginning.
func (s *Shard) forget() {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.lowWater, s.caughtUp, s.swept, s.round = position{}, time.Time{}, time.Time{}, round{}
	clear(s.parked)
}

// beginSweep counts a sweep that begins, so that it is known which jobs it finds.
func (s *Shard) beginSweep() {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.sweeps++
}

// sweptThrough notes that a sweep of the shard came through, which began at now. A job that could not be settled and
// was not found due any more is forgotten: another transaction changed or ended it, or it waits for its stream.
func (s *Shard) sweptThrough(now time.Time) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.swept = now
	maps.DeleteFunc(s.setBack, func(id int64, set setback) bool {
		_, flies := s.flights[id]
		return set.sweep < s.sweeps && !flies && !s.round.isOpen()
	})
}

// lease is the shard as the lease table should have it. Its low water is that of all jobs, also of those that are
// parked or in flight.
func (s *Shard) lease() Lease {
	settled := s.settledThrough()
	s.mu.Lock()
	defer s.mu.Unlock()
	low := s.lowWater
	if !low.at.IsZero() {
		for _, p := range s.parked {
			low = first(low, p.from)
		}
		for id, f := range s.flights {
			low = first(low, position{f.slot(), id - 1})
		}
	}
	return Lease{HeldShard: s.HeldShard, LowWater: low.at, Swept: settled}
}

// settledThrough is how far the shard is swept: what was due by then was read, and settled unless it waits for its
// stream, for a source or for a handler. It may go back, where a job appears late or a round of reads is still open.
//
// A job of the slot that was just swept, which was not refused before, may be settled this very moment: it counts after a
// second.
func (s *Shard) settledThrough() time.Time {
	s.mu.Lock()
	defer s.mu.Unlock()
	through := s.swept
	if s.round.isOpen() && !through.IsZero() {
		through = earliest(through, latest(s.round.at.at, s.lowWater.at))
	}
	var left time.Time
	for _, f := range s.flights {
		if slot := f.slot(); !f.landed && !f.out && !slot.After(through.Add(-maxRetry)) {
			left = earliest(left, slot)
		}
	}
	for _, set := range s.setBack {
		left = earliest(left, fromMicros(set.micros))
	}
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

// maxRelease is how long a shard that is to be given back waits for sources, and that of an unfit node for handlers.
const maxRelease = 10 * time.Second

// startRelease begins to give the shard back, and reports whether it can go: nothing is in flight any
// more, or for too long nothing but jobs that ask a source, or rest. The next holder looks at
// them again; meanwhile all other jobs of the shard would wait.
// An unfit node waits no longer for anything: it may be unable to settle what its handlers answer.
func (s *Shard) startRelease(now time.Time, unfit bool) (free bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.leaving.IsZero() {
		s.leaving = now
	}
	if len(s.flights) == len(s.landed) {
		return true
	}
	if now.Sub(s.leaving) < maxRelease {
		return false
	}
	if unfit {
		return true
	}
	for _, f := range s.flights {
		if !f.asks && !f.landed && !f.rests {
			return false
		}
	}
	return true
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

// computes reports whether jobs of the shard may be read and decided at the local time now whose rules only compute. It
// is to be given back, and waits for a handler or a source, which may take minutes. Once that has answered, nothing
// more is read, so that the shard can go.
func (s *Shard) computes(now time.Time) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.leaving.IsZero() || !now.Before(s.until) {
		return false
	}
	for _, f := range s.flights {
		if f.out && !f.landed {
			return true
		}
	}
	return false
}

// valid reports whether the lease still stands at the local time now.
func (s *Shard) valid(now time.Time) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	return now.Before(s.until)
}
