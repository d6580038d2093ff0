package futurejobs

import (
	"errors"
	"time"

	"deadman/alerts"
	"deadman/checks"
)

// ErrNotFound means that there is no such job, alert, rule or letter.
var ErrNotFound = errors.New("not found")

// ErrExists means that a key is waited for already.
var ErrExists = errors.New("there is a pending job for this rule and key already")

// ErrPaused means that time stands still for a job.
var ErrPaused = errors.New("the job is paused: time stands still for it until an event lets it go on")

// ErrBadCursor means that a cursor was not made by the list it is given to.
var ErrBadCursor = errors.New("the cursor is not one of this list; leave it out to begin at the start")

// MaxLimit is the most that one page of a list holds.
const MaxLimit = 500

// ListedMost is how many bytes the event and the state of an item of a list have at the most, together with what else is
// kept beside them. An item that has more is listed without them, and marked.
const ListedMost = 16 << 10

// Filter narrows a list. Zero values narrow nothing.
type Filter struct {
	Rule       string
	RulePrefix string // what the names of rules begin with
	Entity     string
	Key        string
	KeyPrefix  string    // jobs only: what keys begin with
	DueAfter   time.Time // jobs only, inclusive
	DueBefore  time.Time // jobs only, exclusive

	After    time.Time       // history and alerts: ended or decided then or later
	Before   time.Time       // history and alerts: ended or decided before
	Outcome  checks.Outcome  // history only
	Status   alerts.Status   // alerts only
	Severity alerts.Severity // alerts only
	Open     bool            // alerts only: the newest of each pending job that said something, and of each open outage
	Subject  string          // dead letters only
	Reason   string          // dead letters only

	Cursor string // where the last page ended; opaque
	Limit  int    // 1 to MaxLimit; 0: 50
}

// Page is a part of a list.
type Page[T any] struct {
	Items []T
	Next  string // empty: that was all
}

// ListedJob is a pending job as people see it.
type ListedJob struct {
	Job
	Rule    string
	Entity  string
	Ack     *Ack // nil: nobody acknowledged what was said
	Omitted bool // what it carries is left out, because it is large
}

// EndedJob is a job in history.
type EndedJob struct {
	ListedJob
	Outcome checks.Outcome
	Reason  string
	EndedAt time.Time
}

// ListedAlert is an alert with what became of it.
type ListedAlert struct {
	alerts.Alert
	Published bool // it is in the stream
	Withheld  bool // a quota had no room for it in the stream
	Ack       *Ack // of a list of open ones only: who acknowledged what its job said; nil: nobody
	Omitted   bool // the event and the state are left out: they are larger than ListedMost
}

// RuleJobs is how many jobs of a rule are waited for, and how they do.
type RuleJobs struct {
	Waiting      int64     // all that are pending
	Alerting     int64     // about which something was said
	Undetermined int64     // of which the last look could not find out
	GaveUp       int64     // ended by a guard, whose slot was in the last 24 hours
	NextCheckAt  time.Time // zero: time stands still for all of them, or there are none
}

// OutcomeCount is how many jobs of one rule ended in one hour, in one way.
type OutcomeCount struct {
	Hour    time.Time // when it begins
	Rule    string
	Entity  string
	Outcome checks.Outcome
	Jobs    int64
}

// ListedOutage is an outage as people see it.
type ListedOutage struct {
	Outage
	ID       int64
	Rule     string
	ClosedAt time.Time // zero: it is not over
}
