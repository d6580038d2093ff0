package futurejobs

import (
	"context"
	"maps"
	"sync/atomic"
	"time"
)

// admission decides which due jobs may be checked now. The others wait for their rule, their streams, a worker, the queue
// of a source, or the allowance and the queue of their tenant. Its methods except capacityFreed are used by the sweep
// alone.
type admission struct {
	catalog     RuleReader
	workers     *limiter
	turns       *turns
	putOff      putOff
	unreadable  unreadable
	waiting     map[VersionRef]waitingVersion // versions with waiting jobs
	behindSince map[string]time.Time          // by stream
	crowded     atomic.Bool                   // the queue of a source or a tenant was full, or all workers were busy
	wake        func()                        // begins a sweep
}

// admissionLimit is the time up to which the jobs of a version may be decided.
type admissionLimit struct {
	at     time.Time // later slots have to wait
	err    error     // why the version is unreadable; nil: readable
	isBusy bool      // the jobs wait for a source or a handler, or in its queue

	isTenants bool // the jobs wait for a tenants' line: the tenants are at fault, and no node
}

// probeEvery is how long a version with waiting jobs is skipped: after that one page of its jobs is read again, to
// check whether any are left.
const probeEvery = time.Minute

// waitingVersion describes a version with waiting jobs.
type waitingVersion struct {
	slot      time.Time // the oldest one found
	firstSeen time.Time // when the first was found, since the last probe
	revision  int64     // of the rules at that time
}

// reset forgets the times from before a clock step.
func (a *admission) reset() {
	clear(a.waiting)
	clear(a.behindSince)
}

// noteRead forgets the streams that are read further than when they were behind.
func (a *admission) noteRead(through map[string]StreamProgress) {
	maps.DeleteFunc(a.behindSince, func(stream string, since time.Time) bool { return through[stream].Through.After(since) })
}

// capacityFreed wakes the sweep if it skipped jobs because all workers or a queue were busy.
func (a *admission) capacityFreed() {
	if a.crowded.Swap(false) {
		a.wake()
	}
}

// admit prepares the task of a job. ok is false if the job has to wait for its rule, its streams or a worker; jobs of
// its version with later slots are then skipped in this sweep. An admitted job has its worker.
func (a *admission) admit(ctx context.Context, j *Job, p *sweepRun, now time.Time) (v *task, ok bool) {
	made := VersionRef{j.RuleID, j.Version}
	if h, known := p.admissionLimits[made]; known && j.NextCheckAt.After(h.at) {
		return nil, false
	}
	ruleSet := a.catalog.Revision()
	rule, err := a.catalog.Rule(ctx, j.RuleID, j.Version)
	if err != nil {
		a.wait(p, j, admissionLimit{err: err})
		a.unreadable.note(made, j.NextCheckAt, err)
		return nil, false
	}
	v = &task{rule: rule, ruleSet: ruleSet, slot: j.NextCheckAt, receiving: rule.receivingSince(p.through), Decision: Decision{Job: *j}}
	if at, stream := a.limitOf(rule, p.through, p.now); j.NextCheckAt.After(at) {
		a.streamBehindSince(stream, now)
		a.wait(p, j, admissionLimit{at: at, isTenants: IsTenantsLine(stream)})
		return nil, false
	} else if !rule.Deleted && stream != "" && p.through[stream].Through.Before(j.NextCheckAt) {
		v.streamTimedOut(rule, stream, now)
		v.handlerSkipped = true
		return v, true
	}
	v.through = rule.readThrough(p.through)
	if v.handlerSkipped = v.decideLateOrDeleted(rule, now); v.handlerSkipped {
		return v, true
	}
	if p.isLeaving && v.waitsForIO() {
		p.admissionLimits[made] = admissionLimit{isBusy: true}
		return nil, false
	}
	if !a.mayCheck(p, v, now) {
		return nil, false
	}
	if v.needsLookup() {
		return v, a.reserveLookup(p, rule, now)
	}
	if !isInline(rule) && !a.workers.acquire(rule.ID) {
		a.crowded.Store(true)
		p.admissionLimits[made] = admissionLimit{isBusy: true}
		return nil, false
	}
	return v, true
}

// wait records that jobs of a version with slots after its limit have to wait.
func (a *admission) wait(p *sweepRun, j *Job, h admissionLimit) {
	made := VersionRef{j.RuleID, j.Version}
	p.admissionLimits[made] = h
	a.waiting[made] = waitingVersion{slot: j.NextCheckAt, firstSeen: p.now, revision: p.revision}
}

// noteWaiting records the slot of a waiting job, if its version is in waiting.
func (a *admission) noteWaiting(j *Job) {
	made := VersionRef{j.RuleID, j.Version}
	if w, known := a.waiting[made]; known {
		w.slot = earliest(w.slot, j.NextCheckAt)
		a.waiting[made] = w
	}
}

// mayCheck reports whether the allowance and the queue of a rule's tenant admit a check. If not, later jobs of the
// version are skipped in this sweep. A handler that does I/O evaluates no conditions.
func (a *admission) mayCheck(p *sweepRun, v *task, now time.Time) bool {
	allowance := v.rule.Allowance
	switch {
	case allowance == nil || !isInline(v.rule):
		return true
	case allowance.IsUsedUp(now):
		a.putOff.note(v.rule, v.slot, now)
	case v.takesTurn() && !a.turns.hasRoom(allowance.Tenant()):
		a.crowded.Store(true)
	default:
		return true
	}
	p.admissionLimits[VersionRef{v.rule.ID, v.rule.Version}] = admissionLimit{isBusy: true}
	return false
}

// reserveLookup makes sure that a version has an open lookup batch. It returns false if the queue of the source is
// full; no more jobs of the version are read in this sweep then.
func (a *admission) reserveLookup(p *sweepRun, rule *Rule, now time.Time) bool {
	made := VersionRef{rule.ID, rule.Version}
	if p.lookups[made] != nil {
		return true
	}
	if !rule.Finder.Enter() {
		a.crowded.Store(true)
		p.admissionLimits[made] = admissionLimit{isBusy: true}
		return false
	}
	p.lookups[made] = &lookupBatch{begun: now}
	return true
}

// holdBack has the sweep skip the jobs of versions whose checks are put off, until the allowance of their tenant has
// recovered. Each is read at once then.
func (a *admission) holdBack(p *sweepRun) {
	for made, slot := range a.putOff.held() {
		rule, err := a.catalog.Rule(p.ctx, made.RuleID, made.Version)
		if err != nil || rule.Deleted || rule.Allowance == nil || rule.Allowance.HasRecovered(p.now) {
			a.putOff.resume(made)
			continue
		}
		p.admissionLimits[made] = admissionLimit{isBusy: true}
		p.recordUnhandled(slot, true)
	}
}

// refreshLimits sets the limits of versions with waiting jobs. Versions with jobs that need not wait any more are
// removed, and so are those to probe: their rules are returned. A version is probed each minute, and after a change
// of its rule, since its jobs may have another version now.
func (a *admission) refreshLimits(p *sweepRun) (probe []int32) {
	for made, w := range a.waiting {
		rule, err := a.catalog.Rule(p.ctx, made.RuleID, made.Version)
		h, oldest := admissionLimit{err: err}, w.slot
		if err == nil {
			var stream string
			h.at, stream = a.limitOf(rule, p.through, p.now)
			if oldest = latest(oldest, rule.Grid.After(h.at)); oldest.After(p.now) { // no slot between the limit and now
				delete(a.waiting, made)
				continue
			}
			a.streamBehindSince(stream, p.now)
			h.isTenants = IsTenantsLine(stream)
		}
		if a.catalog.RuleChangedAt(made.RuleID) > w.revision || p.now.Sub(w.firstSeen) >= probeEvery {
			delete(a.waiting, made)
			probe = append(probe, made.RuleID)
			continue
		}
		p.admissionLimits[made] = h
		p.recordUnhandled(oldest, h.isTenants)
	}
	return probe
}

// limitOf returns the time up to which the jobs of a rule may be decided: the time up to which all of its streams
// are read, or the slots that have waited for them long enough. It also returns the stream that is furthest behind.
func (a *admission) limitOf(rule *Rule, through map[string]StreamProgress, now time.Time) (at time.Time, stream string) {
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
	patient := rule.CatchUp.streamTimeout()
	if since, known := a.behindSince[stream]; known && now.Sub(since) > patient {
		at = latest(at, now.Add(-patient-time.Microsecond))
	}
	return at, stream
}

// streamBehindSince records since when this node has seen a stream behind a job's slot. Before that, the node itself
// may have been down.
func (a *admission) streamBehindSince(stream string, now time.Time) {
	if _, known := a.behindSince[stream]; !known {
		a.behindSince[stream] = now
	}
}
