package futurejobs

import (
	"maps"
	"time"
)

// inFlightJobs holds the jobs of a shard that are being checked, and those that were decided and could not be settled. The
// shard's mutex guards it.
type inFlightJobs struct {
	jobs          map[int64]inFlight
	decided       []decidedJob           // decided since the last read; still in jobs
	firstDecided  position               // first place of a job removed in this round and still pending; zero: none
	sweeps        int                    // number of sweeps begun
	unsettledJobs map[int64]unsettledJob // jobs that were decided and could not be settled, up to maxUnsettled
}

func newInFlightJobs() inFlightJobs {
	return inFlightJobs{jobs: map[int64]inFlight{}, unsettledJobs: map[int64]unsettledJob{}}
}

// maxUnsettled bounds the unsettled jobs that a shard remembers. Jobs are read in the order of their slots, so the
// remembered ones come first.
const maxUnsettled = 1000

// unsettledJob is a job that was decided and could not be settled.
type unsettledJob struct {
	micros int64 // of its slot, since 1970
	sweep  int   // the last sweep that found it due
	isSlow bool  // its decision exceeded the transaction time on its own
}

// decidedJob is a job that was decided.
type decidedJob struct {
	id int64
	at time.Time // its next due time; zero: it has ended
}

// inFlight is a job being checked. It contains no pointer, so the garbage collector need not scan them.
type inFlight struct {
	micros      int64 // of its slot, since 1970
	rule        int32
	needsLookup bool // needs a lookup in a source
	waitsForIO  bool // waits for a source or an asynchronous handler
	queued      bool // waits for the turn of its tenant
	decided     bool // decided; stays here until the next read begins
	rests       bool // its decision takes too long to settle
}

func (f inFlight) slot() time.Time { return fromMicros(f.micros) }

func fromMicros(micros int64) time.Time { return time.UnixMicro(micros).UTC() }

// start marks a job as being checked. A decision without a check may have moved the job already; its row is at
// v.slot.
func (f *inFlightJobs) start(v *task) {
	f.jobs[v.Job.ID] = inFlight{micros: v.slot.UnixMicro(), rule: v.Job.RuleID, needsLookup: v.needsLookup(), waitsForIO: v.waitsForIO(), queued: v.takesTurn()}
	if set, is := f.unsettledJobs[v.Job.ID]; is {
		set.sweep, v.isSlow = f.sweeps, set.isSlow
		f.unsettledJobs[v.Job.ID] = set
	}
}

// answered marks a job as waiting for its settlement only.
func (f *inFlightJobs) answered(id int64) {
	if job, ok := f.jobs[id]; ok {
		job.waitsForIO, job.needsLookup, job.queued = false, false, false
		f.jobs[id] = job
	}
}

// finish marks a job as decided, with its next due time; zero: it has ended.
func (f *inFlightJobs) finish(id int64, at time.Time) {
	f.decided = append(f.decided, decidedJob{id, at})
	if job, ok := f.jobs[id]; ok {
		job.decided = true
		f.jobs[id] = job
	}
}

// rest keeps a job in flight if its decision takes too long to settle.
func (f *inFlightJobs) rest(id int64, slot time.Time) {
	if job, ok := f.jobs[id]; ok {
		job.rests = true
		f.jobs[id] = job
	}
	f.putBack(id, slot, true)
}

// putBack records that a job was decided and not settled.
func (f *inFlightJobs) putBack(id int64, slot time.Time, isSlow bool) {
	if set, is := f.unsettledJobs[id]; is || len(f.unsettledJobs) < maxUnsettled {
		f.unsettledJobs[id] = unsettledJob{micros: slot.UnixMicro(), sweep: f.sweeps, isSlow: isSlow || set.isSlow}
	}
}

// dropFinished removes the decided jobs.
func (f *inFlightJobs) dropFinished() {
	for _, l := range f.decided {
		f.firstDecided = first(f.firstDecided, position{l.at, l.id - 1})
		delete(f.jobs, l.id)
	}
	f.decided = f.decided[:0]
}

// dropStaleUnsettled removes the unsettled jobs that no sweep found due any more: another transaction changed or
// ended the job, or it waits for its stream.
func (f *inFlightJobs) dropStaleUnsettled() {
	maps.DeleteFunc(f.unsettledJobs, func(id int64, set unsettledJob) bool {
		_, ok := f.jobs[id]
		return set.sweep < f.sweeps && !ok
	})
}

// oldest returns the slot of the oldest job that is in flight or could not be settled, and of the oldest that waits
// for no source, no handler and no turn; zero: none.
func (f *inFlightJobs) oldest() (slot, own time.Time) {
	for _, job := range f.jobs {
		if job.decided {
			continue
		}
		slot = earliest(slot, job.slot())
		if !job.waitsForIO && !job.queued {
			own = earliest(own, job.slot())
		}
	}
	for _, set := range f.unsettledJobs { // even while their handlers are called again
		slot, own = earliest(slot, fromMicros(set.micros)), earliest(own, fromMicros(set.micros))
	}
	return slot, own
}

// first returns the position before the first job that is not behind low; a zero low excludes none.
func (f *inFlightJobs) first(low position) (p position) {
	for id, job := range f.jobs {
		if at := (position{job.slot(), id - 1}); low.at.IsZero() || !at.isBefore(low) {
			p = first(p, at)
		}
	}
	return p
}

// unsettled returns the slot of the oldest job due by a time that waits only for its settlement; zero: none. A job of
// the last slot that was not refused before may be settled at this moment: it counts only after a second.
func (f *inFlightJobs) unsettled(by time.Time) (slot time.Time) {
	for _, job := range f.jobs {
		if at := job.slot(); !job.decided && !job.waitsForIO && !job.queued && !at.After(by.Add(-maxRetry)) {
			slot = earliest(slot, at)
		}
	}
	for _, set := range f.unsettledJobs {
		slot = earliest(slot, fromMicros(set.micros))
	}
	return slot
}

// areDecided reports whether all jobs are decided.
func (f *inFlightJobs) areDecided() bool { return len(f.jobs) == len(f.decided) }

// onlyWait reports whether all jobs are decided, wait for a source, or rest.
func (f *inFlightJobs) onlyWait() bool {
	for _, job := range f.jobs {
		if !job.needsLookup && !job.decided && !job.rests {
			return false
		}
	}
	return true
}

// waitsForIO reports whether a job waits for a source or a handler.
func (f *inFlightJobs) waitsForIO() bool {
	for _, job := range f.jobs {
		if job.waitsForIO && !job.decided {
			return true
		}
	}
	return false
}
