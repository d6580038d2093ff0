package futurejobs

import "time"

// FoldResult is what a run of effects comes to.
type FoldResult struct {
	Create          []*Job     // new jobs, without an id
	End             []Decision // of jobs that were pending before
	StartedAndEnded []Decision // of jobs that began and ended within the run: history only
	Change          []Job      // that go on otherwise, in anything but what never changes and what a look writes; rev grows
	Acks            []AckOf    // of jobs that go on: what is acknowledged of them now
	Update          []Job      // of which more is known: State, Members; rev stays

	Reorder []Job // that go on and remember something else of the order of events; each may be in Change or Update, too

	Remember       []EarlyEvent // what happened before anybody waited for it
	Forget         []Ref        // whose Early somebody waited for
	AlreadyPending []int        // places of the starts that a person asked for, of keys that were waited for already
	Over           []int        // places of the starts that a person asked for, and that a quota has no room for
	Unbegun        []Unbegun    // jobs that did not begin, as a quota had no room for them
	DeadLetters    []DeadLetter // events that could not be played
	Quotas         []QuotaUse   // what the run comes to for quotas
	EffectCounts
}

// Unbegun is a job that did not begin for want of room. It is remembered that it did not, so that an end that comes before the dead
// letter of its event is retried is remembered, too.
type Unbegun struct {
	Ref
	At    time.Time // when the event came
	Until time.Time // how long that is remembered; zero: a person asked for the job, and it is not
}

// EffectCounts counts what became of effects.
type EffectCounts struct {
	Created    int
	Ended      int
	Kept       int // triggers for keys that were waited for already
	Missed     int // effects on keys that nobody waited for
	Restarted  int
	Updated    int // and gathered
	Paused     int
	Resumed    int
	Remembered int // ends, and members of sets, that came before anybody waited
	Changed    int // by hand: snoozed, moved, acknowledged
	Beaten     int // put off by a beat, or brought forward
	Coalesced  int // beats that left the job as it was
	Refused    int
}

// FoldInput is what a run of effects finds: the jobs and what is remembered, of its refs.
type FoldInput struct {
	Pending map[Ref]Job
	Early   map[Ref]EarlyEvent
}
