// Package rules holds the rule document and what it means: which events begin a wait, which
// end it, and what is said while it lasts.
package rules

import (
	"bytes"
	"encoding/json"
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
	Resolve     []Resolve         `json:"resolve,omitempty"`
	While       string            `json:"while,omitempty"` // still not happened? Empty: not resolved is still not
	Escalate    []Step            `json:"escalate"`
	Slot        Duration          `json:"slot"`
	Hold        Duration          `json:"hold"` // how long after the last step a late resolve still counts
	Guards      Guards            `json:"guards"`
	Quiet       bool              `json:"quiet,omitempty"` // nothing is said when it happened after all
	Labels      map[string]string `json:"labels,omitempty"`
}

// Trigger is the event that begins a wait.
type Trigger struct {
	Event string `json:"event"`           // a subject, with NATS wildcards
	Key   string `json:"key"`             // which entity
	If    string `json:"if,omitempty"`    // empty: every event
	Since string `json:"since,omitempty"` // when the wait began; empty: when the stream took the event in
}

// Resolve is an event that ends a wait because it happened.
type Resolve struct {
	Event string `json:"event"`
	Key   string `json:"key"`
	If    string `json:"if,omitempty"`
	As    string `json:"as,omitempty"` // the outcome in history; empty: resolved
}

// Step is one rung of the escalation.
type Step struct {
	After    Duration        `json:"after"` // since the wait began
	Name     string          `json:"step"`
	Severity alerts.Severity `json:"severity"`
	Text     string          `json:"text,omitempty"` // a template; empty: a sentence made from the rule
}

// Guards bound the looks at one entity.
type Guards struct {
	Timeout   Duration `json:"timeout"`
	Attempts  int      `json:"attempts"`
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

	// SpareChecks is how many more checks than steps a rule has unless it says otherwise.
	SpareChecks = 5
)

// blank is the document before anything of it is read.
func blank() Document {
	return Document{
		Enabled: true, Slot: DefaultSlot, Hold: DefaultHold,
		Guards: Guards{Timeout: DefaultTimeout, Attempts: DefaultAttempts, Horizon: DefaultHorizon},
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

// held reports whether the job stays after its last step.
func (d Document) held() bool { return len(d.Resolve) > 0 && d.Hold > 0 }

// subjects are those that the rule listens to, each once, the trigger's first.
func (d Document) subjects() []string {
	all := []string{d.Trigger.Event}
	seen := map[string]bool{d.Trigger.Event: true}
	for _, r := range d.Resolve {
		if !seen[r.Event] {
			seen[r.Event] = true
			all = append(all, r.Event)
		}
	}
	return all
}
