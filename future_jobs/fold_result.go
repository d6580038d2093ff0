package futurejobs

import "time"

// FoldResult is the net effect of a run of effects.
type FoldResult struct {
	Create          []*Job     // new jobs, without an id
	End             []Decision // jobs that were pending before
	StartedAndEnded []Decision // jobs that began and ended within the run: history only
	Change          []Job      // jobs with changed fields, except immutable ones and those that checks write; rev increases
	Acks            []AckOf    // changed acknowledgements of continuing jobs
	Update          []Job      // jobs with changed State or Members; rev stays

	Reorder []Job // jobs with a changed Order; a job may also be in Change or Update

	Remember       []EarlyEvent // events that arrived before their trigger
	Forget         []Ref        // keys with an EarlyEvent that was used up
	AlreadyPending []int        // indexes of starts by a person for keys with a pending job
	Over           []int        // indexes of starts by a person beyond a quota
	Unbegun        []Unbegun    // jobs refused by a quota
	DeadLetters    []DeadLetter // events that could not be played, and summaries of those beyond the room
	Quotas         []QuotaUse   // the run's use of quotas
	EffectCounts

	quotas Quotas // nil: none
}

// Unbegun is a job that a quota refused. It is remembered, so that an end is remembered, too, if it arrives before
// the dead letter of the job's event is retried.
type Unbegun struct {
	Ref
	At    time.Time // the time of the event
	Until time.Time // remembered until then; zero: not remembered, as no dead letter can be retried
}

// EffectCounts counts effects by result.
type EffectCounts struct {
	Created    int
	Ended      int
	Kept       int // triggers for keys with a pending job
	Missed     int // effects on keys without a pending job
	Restarted  int
	Updated    int // includes members of sets
	Paused     int
	Resumed    int
	Remembered int // ends and members of sets that arrived before the trigger
	Changed    int // by hand: snoozed, moved, acknowledged
	Postponed  int // delayed by a heartbeat, or moved forward
	Coalesced  int // heartbeats that left the job unchanged
	Refused    int
}

// FoldInput has the pending jobs and early events of a run's keys.
type FoldInput struct {
	Pending map[Ref]Job
	Find    func(Ref) *Job // replaces Pending, and returns nil for a key without a pending job; nil: Pending counts
	Early   map[Ref]EarlyEvent
}

// job returns the pending job of a key.
func (k FoldInput) job(ref Ref) (j Job, pending bool) {
	if k.Find == nil {
		j, pending = k.Pending[ref]
		return j, pending
	}
	if found := k.Find(ref); found != nil {
		return *found, true
	}
	return Job{}, false
}

// Use adds the committed use to the quotas.
func (n FoldResult) Use() {
	for _, u := range n.Quotas {
		u.Quota.Settle(u.held, u.Grown, u.Refused)
	}
}

// Release frees the reserved capacity of jobs and alerts that were not committed.
func (n FoldResult) Release() {
	for _, u := range n.Quotas {
		u.Quota.Settle(u.held, 0, 0)
	}
	for i := range n.End {
		n.End[i].dropAlerts(n.quotas)
	}
}
