// Package rules holds the rule document and what it means: which events begin a wait, which
// end it, and what is said while it lasts.
package rules

import (
	"bytes"
	"encoding/json"
	"slices"
	"time"

	"deadman/alerts"
)

// Document is one rule as people write it. Parse fills in every default, so a version that
// was saved goes on meaning what it meant when it was saved.
type Document struct {
	Name        string            `json:"name"`
	Description string            `json:"description,omitempty"`
	Entity      string            `json:"entity"`
	Enabled     bool              `json:"enabled"` // false: no new waits begin; those there go on
	Trigger     Trigger           `json:"trigger"`
	Update      []Watch           `json:"update,omitempty"` // their bodies are merged into state
	Resolve     []Resolve         `json:"resolve,omitempty"`
	Pause       []Watch           `json:"pause,omitempty"` // time stands still while the last of them says so
	Lookup      *Lookup           `json:"lookup,omitempty"`
	While       string            `json:"while,omitempty"` // still not happened? Empty: not resolved is still not
	Escalate    []Step            `json:"escalate,omitempty"`
	Recheck     string            `json:"recheck,omitempty"`      // an instant to look at in between; it never postpones a step
	Handler     string            `json:"handler,omitempty"`      // in the place of while and escalate
	AtMostOnce  bool              `json:"at_most_once,omitempty"` // the handler has effects: no check of it begins twice
	Slot        Duration          `json:"slot"`
	Spread      Duration          `json:"spread,omitempty"` // the span over which the steps of different keys are spread
	CatchUp     CatchUp           `json:"catch_up,omitzero"`
	Hold        Duration          `json:"hold"`            // how long after the last step a late resolve still counts
	Early       Duration          `json:"early"`           // how long a resolve is remembered that comes before its trigger
	Again       Again             `json:"again,omitempty"` // a trigger for a key that is waited for
	Guards      Guards            `json:"guards"`
	Quiet       bool              `json:"quiet,omitempty"`  // nothing is said when it happened after all
	Labels      map[string]string `json:"labels,omitempty"` // templates
}

// Trigger is what begins a wait: an event, a schedule or a heartbeat that stays away.
type Trigger struct {
	Event string `json:"event,omitempty"` // a subject, with NATS wildcards
	Key   string `json:"key,omitempty"`   // which entity
	If    string `json:"if,omitempty"`    // empty: every event
	Since string `json:"since,omitempty"` // when the wait began; empty: when the stream took the event in
	Shape Shape  `json:"shape,omitempty"` // what the event carries; nil: inferred from what is read of it

	Schedule string   `json:"schedule,omitempty"` // a crontab, @every or @at
	Zone     string   `json:"zone,omitempty"`     // of the schedule; empty: UTC
	Keys     []string `json:"keys,omitempty"`     // one job for each at every tick; none: the tick is the key
	Emit     *Emit    `json:"emit,omitempty"`     // what a tick publishes; nil: it begins waits

	Heartbeat *Heartbeat `json:"heartbeat,omitempty"`
}

// Takes reports whether events on a subject begin waits, or are beats.
func (t Trigger) Takes(subject string) bool {
	return t.Event != "" && matches(t.Event, subject) || t.Heartbeat != nil && matches(t.Heartbeat.Event, subject)
}

// Emit is an event that a tick publishes, in the place of a wait.
type Emit struct {
	Subject string          `json:"subject"`
	Data    json.RawMessage `json:"data,omitempty"` // its body; nil: the tick
}

// Heartbeat is an event that has to come again and again. Pings are beats, too.
type Heartbeat struct {
	Event string `json:"event,omitempty"` // empty: pings alone are beats
	Key   string `json:"key,omitempty"`
	If    string `json:"if,omitempty"`
	Shape Shape  `json:"shape,omitempty"`

	Every    Duration `json:"every,omitempty"`
	Schedule string   `json:"schedule,omitempty"` // in the place of every: a beat has to come after each tick
	Zone     string   `json:"zone,omitempty"`     // of the schedule; empty: UTC
	Grace    Duration `json:"grace"`

	Kind string   `json:"kind,omitempty"` // what the beat says; empty: success
	Run  string   `json:"run,omitempty"`  // which run it is of; empty: of none
	Max  Duration `json:"max,omitempty"`  // how long a run may take; 0: as long as it likes
	Min  Duration `json:"min,omitempty"`  // how long it has to take; 0: nothing

	Keys []string `json:"keys,omitempty"` // those expected from the start
}

// Watch is an event that changes a wait.
type Watch struct {
	Event string `json:"event"`
	Key   string `json:"key"`
	If    string `json:"if,omitempty"`
	Shape Shape  `json:"shape,omitempty"`
}

// Resolve is an event that ends a wait because it happened; or, with Distinct, one of a set
// of them.
type Resolve struct {
	Watch
	As       string `json:"as,omitempty"`       // the outcome in history; empty: resolved
	Distinct string `json:"distinct,omitempty"` // what tells the members of the set apart
	Need     string `json:"need,omitempty"`     // how many of them end the wait
}

// Lookup is what is asked of a source at each look. One of its fields is set.
type Lookup struct {
	SQL  *SQLLookup  `json:"sql,omitempty"`
	HTTP *HTTPLookup `json:"http,omitempty"`
	NATS *NATSLookup `json:"nats,omitempty"`
	KV   *KVLookup   `json:"kv,omitempty"`
}

// SQLLookup is one row of a database.
type SQLLookup struct {
	Source string   `json:"source"`
	Query  string   `json:"query"`
	Params []string `json:"params,omitempty"` // expressions for $1, $2 and so on; none: the key
}

// HTTPLookup is a JSON document that a GET answers.
type HTTPLookup struct {
	Source string `json:"source"`
	Path   string `json:"path"`             // a template
	Absent []int  `json:"absent,omitempty"` // statuses that mean that there is no such entity
}

// NATSLookup is a JSON document that a service answers.
type NATSLookup struct {
	Source  string `json:"source"`
	Subject string `json:"subject"` // a template
}

// KVLookup is a JSON document in a JetStream bucket.
type KVLookup struct {
	Source string `json:"source"`
	Bucket string `json:"bucket"`
	Key    string `json:"key,omitempty"` // a template; empty: the key
}

// Step is one rung of the escalation. One of After, At and Every says when it is taken.
type Step struct {
	After Delay    `json:"after,omitzero"`  // since the wait began
	At    string   `json:"at,omitempty"`    // an instant; or, for schedules, a time of day
	Every Duration `json:"every,omitempty"` // since the step before, Times times or Until
	Times int      `json:"times,omitempty"`
	Until string   `json:"until,omitempty"` // in the place of Times: UntilAcknowledged

	Of     string `json:"of,omitempty"`     // a calendar: only its open time counts
	Within string `json:"within,omitempty"` // a calendar: where it is closed, when it opens

	Name     string          `json:"step"`
	Severity alerts.Severity `json:"severity"`
	Text     string          `json:"text,omitempty"` // a template; empty: a sentence made from the rule
}

// UntilAcknowledged is until when a step may be repeated: until somebody acknowledges what was
// said.
const UntilAcknowledged = "acknowledged"

// CatchUp is what becomes of a job that is found later than After.
type CatchUp struct {
	After Duration `json:"after"`
	Do    Late     `json:"do"`
}

// Late is what is done with a job that is found too late.
type Late string

// What is done with such a job.
const (
	Run    Late = "run"    // it is looked at all the same
	Skip   Late = "skip"   // it is looked at a slot later
	Expire Late = "expire" // it ends, and that is said
)

// Again is what a trigger does for a key that is waited for.
type Again string

// What such a trigger does.
const (
	Keep    Again = "keep"    // nothing: the first counts
	Restart Again = "restart" // the wait begins anew
)

// Guards bound the looks at one entity.
type Guards struct {
	Timeout   Duration `json:"timeout"`
	Attempts  int      `json:"attempts"`
	Interval  Duration `json:"interval,omitempty"` // before the second attempt; it doubles. 0: the next slot
	Jitter    Duration `json:"jitter,omitempty"`   // the most that is added to an interval
	MaxChecks int      `json:"max_checks"`
	Horizon   Duration `json:"horizon"`
	End       bool     `json:"end,omitempty"` // a job whose attempts are spent ends
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

	// SpareChecks is how many more checks than steps a rule has unless it says otherwise.
	SpareChecks = 5
)

// holdDuration is the default of hold. Who stays away for good is not forgotten.
func (d Document) holdDuration() Duration {
	if d.Trigger.Heartbeat != nil {
		return longest
	}
	return DefaultHold
}

// blank is the document before anything of it is read.
func blank() Document {
	return Document{
		Enabled: true, Slot: DefaultSlot, Hold: DefaultHold, Early: DefaultEarly, Again: Keep,
		CatchUp: CatchUp{After: DefaultCatchUp, Do: Run},
		Guards:  Guards{Timeout: DefaultTimeout, Attempts: DefaultAttempts, Horizon: DefaultHorizon},
	}
}

// Canonical is the document as it is stored and compared: the same rule has the same bytes.
func (d Document) Canonical() ([]byte, error) {
	var b bytes.Buffer
	e := json.NewEncoder(&b)
	e.SetEscapeHTML(false)
	err := e.Encode(d)
	return bytes.TrimSuffix(b.Bytes(), []byte("\n")), err
}

// hasNoText reports whether the rule does not say what is said, which is then the one thing there is
// to say of a beat that stays away.
func (d Document) hasNoText() bool {
	return d.Trigger.Heartbeat != nil && len(d.Escalate) == 0 && d.Handler == ""
}

// Steps are those that the rule takes: its own, or the one that goes without saying.
func (d Document) Steps() []Step {
	if d.hasNoText() {
		return []Step{{After: Delay{AtOnce: true}, Name: "overdue", Severity: DefaultSeverity}}
	}
	return d.Escalate
}

// isHeld reports whether the job stays after its last step.
func (d Document) isHeld() bool {
	return (len(d.Resolve) > 0 || d.Trigger.Heartbeat != nil) && d.Hold > 0
}

// Subjects are those that the rule listens to, each once, the trigger's first.
func (d Document) Subjects() []string {
	all := []string{d.Trigger.Event}
	if d.Trigger.Heartbeat != nil {
		all = append(all, d.Trigger.Heartbeat.Event)
	}
	for _, r := range d.Resolve {
		all = append(all, r.Event)
	}
	for _, w := range slices.Concat(d.Update, d.Pause) {
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
