package futurejobs

import (
	"maps"
	"time"
)

// flights holds the jobs of a shard that are being checked, and those that were decided and could not be settled. The
// shard's mutex guards it.
type flights struct {
	jobs    map[int64]inFlight
	landed  []landing         // decided since the last read; still in jobs
	flown   position          // first place of a job removed in this round and still pending; zero: none
	sweeps  int               // number of sweeps begun
	setBack map[int64]setback // jobs that were decided and could not be settled, up to maxSetbacks
}

func newFlights() flights {
	return flights{jobs: map[int64]inFlight{}, setBack: map[int64]setback{}}
}

// maxSetbacks bounds the unsettled jobs that a shard remembers. Jobs are read in the order of their slots, so the
// remembered ones come first.
const maxSetbacks = 1000

// setback is a job that was decided and could not be settled.
type setback struct {
	micros int64 // of its slot, since 1970
	sweep  int   // the last sweep that found it due
	isSlow bool  // its decision exceeded the transaction time on its own
}

// landing is a job that was decided.
type landing struct {
	id int64
	at time.Time // its next due time; zero: it has ended
}

// inFlight is a job being checked. It contains no pointer, so the garbage collector need not scan the flights.
type inFlight struct {
	micros int64 // of its slot, since 1970
	rule   int32
	asks   bool // needs a lookup in a source
	out    bool // waits for a source or an asynchronous handler
	queued bool // waits for the turn of its tenant
	landed bool // decided; stays here until the next read begins
	rests  bool // its decision takes too long to settle
}

func (f inFlight) slot() time.Time { return fromMicros(f.micros) }

func fromMicros(micros int64) time.Time { return time.UnixMicro(micros).UTC() }

// begin marks a job as being checked. A decision without a check may have moved the job already; its row is at
// v.slot.
func (f *flights) begin(v *task) {
	f.jobs[v.Job.ID] = inFlight{micros: v.slot.UnixMicro(), rule: v.Job.RuleID, asks: v.needsLookup(), out: v.waitsForIO(), queued: v.takesTurn()}
	if set, is := f.setBack[v.Job.ID]; is {
		set.sweep, v.isSlow = f.sweeps, set.isSlow
		f.setBack[v.Job.ID] = set
	}
}

// answered marks a job as waiting for its settlement only.
func (f *flights) answered(id int64) {
	if job, flies := f.jobs[id]; flies {
		job.out, job.asks, job.queued = false, false, false
		f.jobs[id] = job
	}
}

// land marks a job as decided, with its next due time; zero: it has ended.
func (f *flights) land(id int64, at time.Time) {
	f.landed = append(f.landed, landing{id, at})
	if job, flies := f.jobs[id]; flies {
		job.landed = true
		f.jobs[id] = job
	}
}

// rest keeps a job in flight if its decision takes too long to settle.
func (f *flights) rest(id int64, slot time.Time) {
	if job, flies := f.jobs[id]; flies {
		job.rests = true
		f.jobs[id] = job
	}
	f.putBack(id, slot, true)
}

// putBack records that a job was decided and not settled.
func (f *flights) putBack(id int64, slot time.Time, isSlow bool) {
	if set, is := f.setBack[id]; is || len(f.setBack) < maxSetbacks {
		f.setBack[id] = setback{micros: slot.UnixMicro(), sweep: f.sweeps, isSlow: isSlow || set.isSlow}
	}
}

// dropFinished removes the decided jobs.
func (f *flights) dropFinished() {
	for _, l := range f.landed {
		f.flown = first(f.flown, position{l.at, l.id - 1})
		delete(f.jobs, l.id)
	}
	f.landed = f.landed[:0]
}

// dropSetbacks removes the setbacks that no sweep found due any more: another transaction changed or ended the job, or
// it waits for its stream.
func (f *flights) dropSetbacks() {
	maps.DeleteFunc(f.setBack, func(id int64, set setback) bool {
		_, flies := f.jobs[id]
		return set.sweep < f.sweeps && !flies
	})
}

// oldest returns the slot of the oldest job that is in flight or could not be settled, and of the oldest that waits
// for no source, no handler and no turn; zero: none.
func (f *flights) oldest() (slot, own time.Time) {
	for _, job := range f.jobs {
		if job.landed {
			continue
		}
		slot = earliest(slot, job.slot())
		if !job.out && !job.queued {
			own = earliest(own, job.slot())
		}
	}
	for _, set := range f.setBack { // even while their handlers are called again
		slot, own = earliest(slot, fromMicros(set.micros)), earliest(own, fromMicros(set.micros))
	}
	return slot, own
}

// first returns the position before the first job that is not behind low; a zero low excludes none.
func (f *flights) first(low position) (p position) {
	for id, job := range f.jobs {
		if at := (position{job.slot(), id - 1}); low.at.IsZero() || !at.isBefore(low) {
			p = first(p, at)
		}
	}
	return p
}

// unsettled returns the slot of the oldest job due by a time that waits only for its settlement; zero: none. A job of
// the last slot that was not refused before may be settled at this moment: it counts only after a second.
func (f *flights) unsettled(by time.Time) (slot time.Time) {
	for _, job := range f.jobs {
		if at := job.slot(); !job.landed && !job.out && !job.queued && !at.After(by.Add(-maxRetry)) {
			slot = earliest(slot, at)
		}
	}
	for _, set := range f.setBack {
		slot = earliest(slot, fromMicros(set.micros))
	}
	return slot
}

// areDecided reports whether all jobs are decided.
func (f *flights) areDecided() bool { return len(f.jobs) == len(f.landed) }

// onlyWait reports whether all jobs are decided, wait for a source, or rest.
func (f *flights) onlyWait() bool {
	for _, job := range f.jobs {
		if !job.asks && !job.landed && !job.rests {
			return false
		}
	}
	return true
}

// waitsForIO reports whether a job waits for a source or a handler.
func (f *flights) waitsForIO() bool {
	for _, job := range f.jobs {
		if job.out && !job.landed {
			return true
		}
	}
	return false
}
