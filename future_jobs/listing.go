package futurejobs

import (
	"errors"
	"time"

	"deadman/alerts"
	"deadman/checks"
)

// ErrNotFound means that the job, alert, rule or dead letter does not exist.
var ErrNotFound = errors.New("not found")

// ErrExists means that a job is already pending for the rule and key.
var ErrExists = errors.New("a job of this rule and key is already pending")

// ErrPaused means that a job is paused.
var ErrPaused = errors.New("the job is paused until an event resumes it")

// ErrBadCursor means that a cursor belongs to another list.
var ErrBadCursor = errors.New("the cursor belongs to another list; leave it out to start at the beginning")

// MaxLimit is the maximum number of items of a page.
const MaxLimit = 500

// ListedMost bounds the bytes of the event, the state and further data of a listed item. A larger item is listed
// without them, and marked.
const ListedMost = 16 << 10

// Filter narrows a list. Zero values have no effect.
type Filter struct {
	Rule       string
	RulePrefix string // prefix of rule names
	Entity     string
	Key        string
	KeyPrefix  string    // jobs only: prefix of keys
	DueAfter   time.Time // jobs only, inclusive
	DueBefore  time.Time // jobs only, exclusive

	After    time.Time       // history and alerts: ended or decided at this time or later
	Before   time.Time       // history and alerts: ended or decided before
	Outcome  checks.Outcome  // history only
	Status   alerts.Status   // alerts only
	Severity alerts.Severity // alerts only
	PartID   string          // alerts that are not selected by Open only: the beginning or the end of the id (alerts.IsPartialID)
	Open     bool            // alerts only: the newest alert of each pending job with alerts, and of each open outage
	Subject  string          // dead letters only
	Reason   string          // dead letters only

	// Of open alerts only:
	Acknowledged *bool     // whether an acknowledgement of the job holds at Now; outages have none
	Now          time.Time // required with Acknowledged, and for counts
	Label        string    // name of a label, or step, that has the value LabelValue; empty: any
	LabelValue   string    // empty: the alert lacks the label
	Through      alerts.ID // the newest alert of the list; zero: no limit

	Cursor string // the end of the last page; opaque
	Limit  int    // 1 to MaxLimit; 0: 50
}

// SelectsAllJobsOfRules reports whether the filter selects all pending jobs of its rules, from the first one on: no
// field restricts them further.
func (f Filter) SelectsAllJobsOfRules() bool {
	return f == Filter{Rule: f.Rule, RulePrefix: f.RulePrefix, Entity: f.Entity, Limit: f.Limit}
}

// Page is a part of a list.
type Page[T any] struct {
	Items []T
	Next  string // empty: last page
}

// ListedJob is a pending job in a list.
type ListedJob struct {
	Job
	Rule    string
	Entity  string
	Ack     *Ack // nil: not acknowledged
	Omitted bool // event and state are left out, because they are large
}

// EndedJob is a job in history.
type EndedJob struct {
	ListedJob
	Outcome checks.Outcome
	Reason  string
	EndedAt time.Time
}

// ListedAlert is an alert in a list, with its delivery status.
type ListedAlert struct {
	alerts.Alert
	Published bool // it is in the stream
	Withheld  bool // a quota kept it out of the stream
	Omitted   bool // the event and the state are larger than ListedMost and left out

	// Of its job, only in lists of open alerts:
	Ack          *Ack // nil: none
	NextCheckAt  time.Time
	SnoozedUntil time.Time // zero or past: not snoozed
}

// OpenAlerts counts the open alerts that agree in these fields.
type OpenAlerts struct {
	Rule         string
	Entity       string
	Severity     alerts.Severity
	Status       alerts.Status
	LabelValue   string // value of the label, key or step that the count names; empty: the alerts lack it, or none is named
	Acknowledged bool   // an acknowledgement of their jobs holds
	Outage       bool   // they are alerts of outages, which cannot be acknowledged
	Loss         bool   // they are alerts of lost data, which cannot be acknowledged, but closed
	Count        int64
	Oldest       time.Time // when the first of them was raised
}

// RuleJobs counts the jobs of a rule.
type RuleJobs struct {
	Pending      int64     // all pending jobs
	Open         int64     // jobs with alerts
	Undetermined int64     // jobs with an undetermined last check
	GaveUp       int64     // ended by a guard, with a slot in the last 24 hours
	NextCheckAt  time.Time // zero: no jobs, or all paused
}

// OutcomeCount is the number of jobs of one rule that ended in one hour with one outcome.
type OutcomeCount struct {
	Hour      time.Time // start of the hour
	Rule      string
	Entity    string
	Outcome   checks.Outcome
	Jobs      int64
	AfterStep int64 // jobs that ended after their first step
}

// ListedOutage is an outage in a list.
type ListedOutage struct {
	Outage
	ID       int64
	Rule     string
	ClosedAt time.Time // zero: still open
}
