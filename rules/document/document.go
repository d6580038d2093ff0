// Package document reads and writes rule documents, YAML or JSON: their fields, the form and the limits of each, their
// defaults and their schema. Package rules defines their meaning.
package document

import (
	"bytes"
	"encoding/json"
	"fmt"
	"slices"
	"time"

	"deadman/alerts"
	"deadman/internal/subjects"
)

// Document is one rule as authors write it. Read fills in every default, so that a saved version keeps the meaning it
// had when it was saved.
type Document struct {
	Name        string            `json:"name"`
	Description string            `json:"description,omitempty"`
	Entity      string            `json:"entity"`
	Enabled     bool              `json:"enabled"` // false: no new jobs are created; pending jobs continue
	Trigger     Trigger           `json:"trigger"`
	Update      []Watch           `json:"update,omitempty"` // their bodies are merged into state
	Resolve     []Resolve         `json:"resolve,omitempty"`
	Pause       []Pause           `json:"pause,omitempty"` // time is suspended as the last of their events decides
	Lookup      *Lookup           `json:"lookup,omitempty"`
	While       string            `json:"while,omitempty"` // the condition that still has to hold; empty: the job is not resolved
	Escalate    []Step            `json:"escalate,omitempty"`
	Calendars   Calendars         `json:"calendars,omitempty"`
	Recheck     string            `json:"recheck,omitempty"`      // an instant for a check in between; it never postpones a step
	Handler     string            `json:"handler,omitempty"`      // replaces while and escalate
	AtMostOnce  bool              `json:"at_most_once,omitempty"` // the handler has effects: no check of it begins twice
	Slot        Duration          `json:"slot"`
	Spread      Duration          `json:"spread,omitempty"` // the span that the steps of different keys are spread over
	CatchUp     CatchUp           `json:"catch_up,omitzero"`
	Hold        Duration          `json:"hold"`            // how long after the last step a late resolve still counts
	Early       Duration          `json:"early"`           // how long a resolve is remembered that comes before its trigger
	Again       Again             `json:"again,omitempty"` // a trigger for a key with a pending job
	Guards      Guards            `json:"guards"`
	Quiet       bool              `json:"quiet,omitempty"`  // no alert is raised when the job is resolved after all
	Keep        *Retention        `json:"keep,omitempty"`   // nil: as the settings of the node say
	Labels      map[string]string `json:"labels,omitempty"` // templates
}

// Trigger starts a job: an event, a schedule or a missing heartbeat.
type Trigger struct {
	Event string `json:"event,omitempty"` // a subject, with NATS wildcards
	Key   string `json:"key,omitempty"`   // an expression for the key of the entity
	If    string `json:"if,omitempty"`    // empty: every event
	Since string `json:"since,omitempty"` // when the job began; empty: when the stream stored the event
	Shape Shape  `json:"shape,omitempty"` // the fields of the event; nil: inferred from the expressions that read it

	Schedule string   `json:"schedule,omitempty"` // a crontab, @every, @at or StoredSchedules
	Zone     string   `json:"zone,omitempty"`     // of the schedule; empty: UTC
	Keys     []string `json:"keys,omitempty"`     // one job for each at every tick; none: the tick is the key
	Emit     *Emit    `json:"emit,omitempty"`     // the event that a tick publishes; nil: a tick creates jobs

	Heartbeat *Heartbeat `json:"heartbeat,omitempty"`
}

// StoredSchedules is the schedule of a trigger with schedules that are stored through the API.
const StoredSchedules = "@stored"

// IsStored reports whether the schedules of the trigger are stored through the API.
func (t Trigger) IsStored() bool { return t.Schedule == StoredSchedules }

// Takes reports whether events on a subject create jobs, or are heartbeats.
func (t Trigger) Takes(subject string) bool {
	return t.Event != "" && subjects.Covers(t.Event, subject) || t.Heartbeat != nil && subjects.Covers(t.Heartbeat.Event, subject)
}

// Emit is an event that a tick publishes on a subject, or posts to a webhook, instead of creating jobs.
type Emit struct {
	Subject  string          `json:"subject,omitempty"`
	Webhook  string          `json:"webhook,omitempty"`  // the name of a channel
	Attempts int             `json:"attempts,omitempty"` // to post an event; 0: DefaultPosts
	Interval Duration        `json:"interval,omitempty"` // before the second attempt; it doubles. 0: DefaultPostInterval
	Data     json.RawMessage `json:"data,omitempty"`     // its body; nil: the tick
}

// Heartbeat is an event that has to recur. Pings are heartbeats, too.
type Heartbeat struct {
	Event string `json:"event,omitempty"` // empty: only pings are heartbeats
	Key   string `json:"key,omitempty"`
	If    string `json:"if,omitempty"`
	Shape Shape  `json:"shape,omitempty"`

	Every    Duration `json:"every,omitempty"`
	Schedule string   `json:"schedule,omitempty"` // replaces every: a heartbeat has to come after each tick
	Zone     string   `json:"zone,omitempty"`     // of the schedule; empty: UTC
	Grace    Duration `json:"grace"`

	Kind string   `json:"kind,omitempty"` // the signal of the heartbeat; empty: success
	Run  string   `json:"run,omitempty"`  // the run of the heartbeat; empty: none
	Max  Duration `json:"max,omitempty"`  // how long a run may take; 0: unlimited
	Min  Duration `json:"min,omitempty"`  // how long a run has to take; 0: no minimum

	TooOften Duration `json:"too_often,omitempty"` // how long after the start of a run the next one may start; 0: at once

	Keys []string `json:"keys,omitempty"` // the keys expected from the start
}

// Watch is an event that changes a job.
type Watch struct {
	Event string `json:"event"`
	Key   string `json:"key"`
	If    string `json:"if,omitempty"`
	Shape Shape  `json:"shape,omitempty"`
}

// Pause is an event that suspends the time of a job while its condition holds, or with Until, until another event.
type Pause struct {
	Watch
	Until *Watch `json:"until,omitempty"`
}

// Pauses returns the events that suspend or resume the time of jobs.
func (d Document) Pauses() []Watch {
	var all []Watch
	for _, p := range d.Pause {
		all = append(all, p.Watch)
		if p.Until != nil {
			all = append(all, *p.Until)
		}
	}
	return all
}

// Changes returns the events that change a job without ending it.
func (d Document) Changes() []Watch { return slices.Concat(d.Update, d.Pauses()) }

// Resolve is an event that ends a job because the expected happened; or, with Distinct, one of a set of such events.
type Resolve struct {
	Watch
	As       string `json:"as,omitempty"`       // the outcome in history; empty: resolved
	Distinct string `json:"distinct,omitempty"` // an expression that distinguishes the members of the set
	Need     string `json:"need,omitempty"`     // how many of them end the job
}

// Step is one step of the escalation. One of After, At and Every determines when it is due.
type Step struct {
	After Delay    `json:"after,omitzero"`  // since the job began
	At    string   `json:"at,omitempty"`    // an instant; or, for schedules, a time of day
	Every Duration `json:"every,omitempty"` // since the step before, Times times or Until
	Times int      `json:"times,omitempty"`
	Until string   `json:"until,omitempty"` // replaces Times: UntilAcknowledged

	Of     string `json:"of,omitempty"`     // a calendar: only its open time counts
	Within string `json:"within,omitempty"` // a calendar: while it is closed, the step is postponed until it opens

	Name     string          `json:"step"`
	Severity alerts.Severity `json:"severity"`
	Text     string          `json:"text,omitempty"` // a template; empty: a default sentence made from the rule
}

// UntilAcknowledged repeats a step until a user acknowledges the alert.
const UntilAcknowledged = "acknowledged"

// CatchUp is the treatment of a job that is checked later than After.
type CatchUp struct {
	After Duration      `json:"after"`
	Do    CatchUpAction `json:"do"`
}

// CatchUpAction is the treatment of a job or tick that is too late.
type CatchUpAction string

// The treatments of a late job.
const (
	Run    CatchUpAction = "run"    // it is checked all the same
	Skip   CatchUpAction = "skip"   // it is checked a slot later
	Expire CatchUpAction = "expire" // it ends, and an alert reports that
	All    CatchUpAction = "all"    // each missed tick of a stored schedule emits its event
)

// Again is the effect of a trigger on a key with a pending job.
type Again string

// The effects of such a trigger.
const (
	Keep    Again = "keep"    // none: the first trigger counts
	Restart Again = "restart" // the job starts over
)

// Guards bound the checks of one job.
type Guards struct {
	Timeout   Duration `json:"timeout"`
	Attempts  int      `json:"attempts"`
	Interval  Duration `json:"interval,omitempty"` // before the second attempt; it doubles. 0: the next slot
	Jitter    Duration `json:"jitter,omitempty"`   // the longest addition to an interval
	MaxChecks int      `json:"max_checks"`
	Horizon   Duration `json:"horizon"`
	End       bool     `json:"end,omitempty"` // a job ends when its attempts are spent
}

// The defaults of a document.
const (
	DefaultSlot     = Duration(time.Minute)
	DefaultHold     = Duration(7 * 24 * time.Hour)
	DefaultTimeout  = Duration(5 * time.Second)
	DefaultAttempts = 3
	DefaultHorizon  = Duration(30 * 24 * time.Hour)
	DefaultSeverity = alerts.Warning
	DefaultEarly    = Duration(time.Hour)
	DefaultCatchUp  = Duration(time.Hour)

	// The attempts to post an event, and the delay before the second one.
	DefaultPosts        = 5
	DefaultPostInterval = Duration(time.Second)

	// SpareChecks is the default number of checks of a rule beyond its steps.
	SpareChecks = 5
)

// holdDuration is the default of hold. A heartbeat that never comes back is not forgotten.
func (d Document) holdDuration() Duration {
	if d.Trigger.Heartbeat != nil {
		return MaxDuration
	}
	return DefaultHold
}

// New returns the document before any field is read: the defaults.
func New() Document {
	return Document{
		Enabled: true, Slot: DefaultSlot, Hold: DefaultHold, Early: DefaultEarly, Again: Keep,
		CatchUp: CatchUp{After: DefaultCatchUp, Do: Run},
		Guards:  Guards{Timeout: DefaultTimeout, Attempts: DefaultAttempts, Horizon: DefaultHorizon},
	}
}

// Canonical returns the document as it is stored and compared: equal rules have equal bytes.
func (d Document) Canonical() ([]byte, error) {
	var b bytes.Buffer
	e := json.NewEncoder(&b)
	e.SetEscapeHTML(false)
	err := e.Encode(d)
	return bytes.TrimSuffix(b.Bytes(), []byte("\n")), err
}

// HasNoSteps reports whether the rule has no steps of its own. Then the one alert of a missing heartbeat is the default.
func (d Document) HasNoSteps() bool {
	return d.Trigger.Heartbeat != nil && len(d.Escalate) == 0 && d.Handler == ""
}

// Steps returns the steps of the rule: its own, or the implicit one.
func (d Document) Steps() []Step {
	if d.HasNoSteps() {
		return []Step{{After: Delay{AtOnce: true}, Name: "overdue", Severity: DefaultSeverity}}
	}
	return d.Escalate
}

// IsHeld reports whether the job stays after its last step.
func (d Document) IsHeld() bool {
	return (len(d.Resolve) > 0 || d.Trigger.Heartbeat != nil) && d.Hold > 0
}

// Subjects returns the subjects that the rule listens to, each once, the trigger's first.
func (d Document) Subjects() []string {
	all := []string{d.Trigger.Event}
	if d.Trigger.Heartbeat != nil {
		all = append(all, d.Trigger.Heartbeat.Event)
	}
	for _, r := range d.Resolve {
		all = append(all, r.Event)
	}
	for _, w := range d.Changes() {
		all = append(all, w.Event)
	}
	var once []string
	for _, s := range all {
		if s != "" && !slices.Contains(once, s) {
			once = append(once, s)
		}
	}
	return once
}

// IntervalText returns the interval of the heartbeat as texts show it: every 10m, grace 2m.
func (h Heartbeat) IntervalText() string {
	text := "every " + h.Every.String()
	if h.Schedule != "" {
		text = fmt.Sprintf("after each tick of %q", h.Schedule)
		if h.Zone != "" {
			text += " " + h.Zone
		}
	}
	if h.Grace > 0 {
		text += fmt.Sprintf(", grace %s", h.Grace)
	}
	return text
}

// ExpectedKeys returns the keys that a rule names for its heartbeat, or for its schedule.
func (d Document) ExpectedKeys() []string {
	if d.Trigger.Heartbeat == nil {
		return d.Trigger.Keys
	}
	return d.Trigger.Heartbeat.Keys
}

// InitialKeys returns the keys that have jobs without a heartbeat; none while the rule rests. The jobs of a schedule are
// created by its ticks.
func (d Document) InitialKeys() []string {
	if !d.Enabled || d.Trigger.Heartbeat == nil {
		return nil
	}
	return d.ExpectedKeys()
}

// defaultMaxChecks returns the default of guards.max_checks.
func (d Document) defaultMaxChecks() int { return d.StepCount() + SpareChecks }

// again returns the default of again: a tick restarts the job of the tick before it.
func (d Document) again() Again {
	if d.Trigger.Schedule != "" {
		return Restart
	}
	return Keep
}

// catchUp returns the default of catch_up.after.
func (d Document) catchUp() Duration { return max(DefaultCatchUp, d.Slot) }

// StepCount returns the number of steps, with each repetition of every counted.
func (d Document) StepCount() int {
	if d.HasNoSteps() {
		return 1
	}
	n := 0
	for i := range d.Escalate {
		n += d.RepeatCount(i)
	}
	return n
}

// RepeatCount returns how often the i-th step is taken, unless a user acknowledges.
func (d Document) RepeatCount(i int) int {
	if d.Escalate[i].Until != "" {
		return d.ackRepeatCount(i)
	}
	return max(1, min(d.Escalate[i].Times, MaxTurns))
}

// ackRepeatCount returns how often the i-th step is taken if it is repeated until a user acknowledges: at most as often
// as all steps together may be, and no further ahead than the horizon, as far as the times are literal.
func (d Document) ackRepeatCount(i int) int {
	most := MaxTurns
	var before Duration
	for j, s := range d.Escalate {
		if s.Until == "" {
			most -= d.RepeatCount(j)
		}
		if j < i {
			before = max(before, s.After.Fixed)
		}
	}
	if every := d.Escalate[i].Every; every > 0 {
		most = int(min(Duration(most), (d.Guards.Horizon-before)/every))
	}
	return max(1, most)
}

// Subject returns the subject of the event that creates a job; "" for a schedule.
func (t Trigger) Subject() string {
	if t.Heartbeat != nil {
		return t.Heartbeat.Event
	}
	return t.Event
}

// KeyExpression returns the key of the event that creates a job.
func (t Trigger) KeyExpression() string {
	if t.Heartbeat != nil {
		return t.Heartbeat.Key
	}
	return t.Key
}
