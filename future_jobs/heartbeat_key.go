package futurejobs

import "time"

// HeartbeatState is the state of a key of a heartbeat.
type HeartbeatState int16

// The states of a key, in order of precedence.
const (
	HeartbeatPaused        HeartbeatState = iota // the pause of the document stopped the clock of the job
	HeartbeatLate                                // it has an open alert
	HeartbeatUnknown                             // its last check failed, or is overdue, or its report is overdue or a failure without an alert
	HeartbeatNeverReported                       // it is expected, and nothing was reported yet
	HeartbeatUp                                  // a report came, and the next one is not overdue
	HeartbeatStates        int            = iota // number of states
)

// HeartbeatCounts has the number of keys by state.
type HeartbeatCounts [HeartbeatStates]int64

// HeartbeatRule is a rule whose keys are listed.
type HeartbeatRule struct {
	ID            int32
	OverdueBefore time.Time // the report after a report before this time is overdue; zero: no report is overdue
}

// HeartbeatFilter narrows the list of keys.
type HeartbeatFilter struct {
	Rules     []HeartbeatRule // rules with heartbeats
	State     *HeartbeatState // nil: any
	Key       string          // empty: any
	KeyPrefix string
	Cursor    string // the end of the last page; opaque
	Limit     int    // 1 to MaxLimit; 0: 50
}

// HeartbeatKey is a key of a heartbeat, with its pending job.
type HeartbeatKey struct {
	ListedJob
	State   HeartbeatState
	Excused bool // a check found no report in time and raised no alert, because of a monitoring gap
	Report  HeartbeatReport
}

// HeartbeatReport is the last report of a key. It is zero for a plain success: the job has its time.
type HeartbeatReport struct {
	At        time.Time
	FailedAt  time.Time // when the last failure came; zero: none since the last success
	Failure   string    // why its run failed; empty: none failed since the last success
	NoSuccess bool      // no success came since the job began
	Awaited   bool      // no report came since the job began; At is that of the job before it
}

// ReportedAt returns the time of the last report; the zero time if there was none.
func (k HeartbeatKey) ReportedAt() time.Time {
	switch {
	case k.Report.Awaited:
		return k.Report.At
	case k.Report.At.IsZero():
		return k.Since
	}
	return k.Report.At
}

// HeartbeatPeriod is an ended job of a key: the key was watched from CreatedAt to EndedAt.
type HeartbeatPeriod struct {
	Ref
	CreatedAt time.Time
	LateAt    time.Time // time of the first alert, from which on the key was late; zero: it was not
	EndedAt   time.Time
	Reason    string // why the job ended
}
