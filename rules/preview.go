package rules

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"time"

	"deadman/rules/document"

	"deadman/alerts"
	"deadman/checks/lookup"
	futurejobs "deadman/future_jobs"
	"deadman/internal/access"
)

// maxPreview bounds the lines of a preview.
const maxPreview = 1000

// PreviewRequest requests a preview of a rule's behavior on events.
type PreviewRequest struct {
	Text    []byte // a rule, YAML or JSON; nil: the saved one of Name
	Name    string
	Version int32          // of the saved one; 0: the newest
	Events  []PreviewEvent // the first starts the job; for a rule with a schedule it is only an instant, as the start of its ticks
	Until   time.Time      // zero: the end

	// Found is the result of the lookup, an object, or null if the entity does not exist. nil: its source is queried,
	// once and now.
	Found json.RawMessage
	// SkipReason is why the source is not to be queried; empty: it is queried, if necessary.
	SkipReason string

	// Reached returns the channels that an alert is sent to; nil: unknown. If the function is nil, all are unknown.
	Reached func(a alerts.Alert) []string
}

// PreviewEvent is an event of a preview.
type PreviewEvent struct {
	Subject string          `json:"subject" doc:"Subject of the event."` // empty for the first: the subject of the trigger
	At      time.Time       `json:"at"`                                  // when the stream would store it
	Data    json.RawMessage `json:"data,omitempty"`
}

// Preview is the course of the first job that the events create.
type Preview struct {
	Rule          string        `json:"rule" doc:"Name of the rule."`
	Key           string        `json:"key,omitempty" doc:"Key of the first job. Absent if no job is created."`
	Since         time.Time     `json:"since,omitzero" doc:"Start of the job."`
	Lines         []PreviewLine `json:"lines" doc:"Timeline of the job."`
	Outcome       string        `json:"outcome,omitempty" doc:"Outcome of the job. Absent if it is pending at the end of the preview."`
	Reason        string        `json:"reason,omitempty" doc:"Explanation of the outcome, or why the preview ended early."`
	EndedAt       time.Time     `json:"ended_at,omitzero" doc:"End of the job."`
	Refusals      []string      `json:"refusals,omitempty" doc:"Reasons of events that would become dead letters."`
	IgnoredEvents []string      `json:"ignored_events,omitempty" doc:"Events on subjects that the rule does not subscribe to."`

	Warnings []string `json:"warnings,omitempty" doc:"Warnings about the rule, such as a heartbeat without keys."`

	Listens []string `json:"subjects,omitempty" doc:"Subjects that the rule subscribes to, the trigger's first."`

	// SpreadDelay is the delay of its steps because the rule spreads those of different keys; absent: none.
	SpreadDelay string `json:"spread_delay,omitempty" doc:"Delay of the steps of this key because of the rule's spread, as a duration. Absent if there is none."`

	Lookup *PreviewLookup `json:"lookup,omitempty" doc:"Result of the lookup. Absent if no result was given and no source was queried."`

	Zone  string        `json:"zone,omitempty" doc:"Time zone of the schedule."`
	Ticks []PreviewTick `json:"ticks,omitempty" doc:"Next ticks of the schedule."`
}

// PreviewLookup is the result of the lookup at every check of a preview.
type PreviewLookup struct {
	Source  string          `json:"source" doc:"Name of the source."`
	Queried bool            `json:"queried" doc:"Whether the source was queried. false if the request had the result."`
	Found   json.RawMessage `json:"result" doc:"Result of the lookup; null if the entity does not exist."`
}

// PreviewLine is one event of a preview's timeline.
type PreviewLine struct {
	At           time.Time         `json:"at" doc:"Time of the entry."`
	Kind         PreviewKind       `json:"kind" enum:"starts,event,check,alert,ends" doc:"starts: the job starts. event: an event changes it. check: a check without an alert. alert: an alert is raised. ends: the job ends."`
	Step         string            `json:"step,omitempty" doc:"Name of the step."`
	Severity     alerts.Severity   `json:"severity,omitempty" doc:"Severity of the alert."`
	Status       alerts.Status     `json:"status,omitempty" doc:"Status of the alert."`
	Text         string            `json:"text,omitempty" doc:"Text of the alert."`
	SkippedSteps []string          `json:"skipped_steps,omitempty" doc:"Skipped steps that were due at the same check."`
	Labels       map[string]string `json:"labels,omitempty" doc:"Labels of the alert."`
	Channels     []string          `json:"channels,omitzero" nullable:"false" doc:"Names of the channels that the alert is sent to, by the routes of this node, without mutes and limits. A resolved alert is sent to the channels of the alerts that it closes. Empty: no channel gets the alert. Absent if this node has no channels, or the line is no alert."`
	Next         time.Time         `json:"next,omitzero" doc:"Slot of the next check."`
	Note         string            `json:"note,omitempty" doc:"Explanation."`

	More int       `json:"more,omitempty" doc:"Number of further repetitions: of the alert without an acknowledgement, or of the check for the same reason."`
	Last time.Time `json:"last,omitzero" doc:"Time of the last repetition."`
}

// PreviewKind is a kind of line.
type PreviewKind string

// The kinds of lines.
const (
	LineStarts PreviewKind = "starts" // the job begins
	LineEvent  PreviewKind = "event"  // an event changes it
	LineCheck  PreviewKind = "check"  // a check without an alert
	LineAlert  PreviewKind = "alert"  // an alert
	LineEnds   PreviewKind = "ends"   // the job ends
)

// previewTime bounds a preview.
const previewTime = 3 * time.Second

// rule returns the requested rule, and when it began: the text of a saved rule continues that one. zero: it is not saved.
func (q PreviewRequest) rule(ctx context.Context, r *Registry) (rule *Rule, began time.Time, err error) {
	if q.Text != nil {
		documents, err := r.parse(ctx, q.Text, "")
		if err != nil {
			return nil, began, err
		}
		if len(documents) > 1 {
			return nil, began, document.Problems{documents[1].Problem("", "", "the text has several rules; try one at a time")}
		}
		bounds := access.BoundsOf(ctx)
		if err := documents[0].within(bounds); err != nil {
			return nil, began, err
		}
		rule, err = r.compile(ctx, func(env environment) (*Rule, error) {
			return previewable(documents[0].Document, RuleVersion{Version: 1, Bounds: bounds}, env)
		})
		if err == nil && rule.ticking != nil && r.Store != nil {
			began, err = r.firstSave(ctx, documents[0].Name)
		}
		return rule, began, err
	}
	versions, err := r.Versions(ctx, q.Name)
	if err != nil {
		return nil, began, err
	}
	at := 0
	if q.Version != 0 {
		at = slices.IndexFunc(versions, func(s RuleVersion) bool { return s.Version == q.Version })
	}
	if at < 0 {
		return nil, began, fmt.Errorf("rule %s has no version %d: %w", q.Name, q.Version, futurejobs.ErrNotFound)
	}
	document, err := decodeDocument(versions[at].Document)
	if err != nil {
		return nil, began, err
	}
	rule, err = r.compile(ctx, func(env environment) (*Rule, error) { return previewable(document, versions[at], env) })
	return rule, beganAt(versions, versions[at].RuleID), err
}

// firstSave returns when the first version of the rule of a name was saved; zero: it does not exist.
func (r *Registry) firstSave(ctx context.Context, name string) (at time.Time, err error) {
	named, err := r.Store.Named(ctx, name)
	if err != nil || len(named) == 0 || !named[0].DeletedAt.IsZero() {
		return at, err
	}
	return beganAt(named, named[0].RuleID), nil
}

// beganAt returns when the first version of a rule was saved, of versions that are newest first.
func beganAt(versions []RuleVersion, ruleID int32) (at time.Time) {
	for _, s := range versions {
		if s.RuleID == ruleID {
			at = s.SavedAt
		}
	}
	return at
}

// previewable returns a rule that receives all its events on one stream, whether or not it is enabled.
func previewable(d document.Document, saved RuleVersion, env environment) (*Rule, error) {
	saved.Reads = nil
	for _, subject := range d.Subjects() {
		saved.Reads = append(saved.Reads, StreamBinding{Subject: subject, Stream: previewStream})
	}
	rule, err := compileAmid(d, saved, env)
	if err == nil {
		rule.document.Enabled = true
	}
	return rule, err
}

const previewStream = "preview"

// ErrPreview means that a preview is impossible.
var ErrPreview = errors.New("there is nothing to preview")

// run plays the events of the request. The registry supplies the saved rule, the sources and the calendars.
func (q PreviewRequest) run(ctx context.Context, r *Registry) (Preview, error) {
	rule, began, err := q.rule(ctx, r)
	if err != nil {
		return Preview{}, err
	}
	if q.SkipReason == "" {
		q.SkipReason = lookupRefusal(rule.document, access.BoundsOf(ctx))
	}
	f, err := newPreviewLookup(rule, q.Found, q.SkipReason)
	if err != nil {
		return Preview{}, err
	}
	if rule.ticking != nil && len(q.Events) > 0 {
		rule.ticking.schedule = rule.ticking.schedule.From(cmp.Or(began, q.Events[0].At))
	}
	ctx, cancel := context.WithTimeout(lookup.Trial(ctx), previewTime)
	defer cancel()
	p, err := rule.Preview(ctx, q.Events, q.Until)
	if err == nil && f != nil {
		p.Lookup, err = f.result()
	}
	if q.Reached != nil {
		p.addChannels(rule.engine.Entity, q.Reached)
	}
	return p, err
}

// addChannels adds the channels of the alerts to the lines, as the notifier routes them.
func (p *Preview) addChannels(entity string, reached func(alerts.Alert) []string) {
	var open []string // channels of the alerts that the next resolved alert closes
	for i := range p.Lines {
		switch l := &p.Lines[i]; {
		case l.Kind == LineStarts:
			open = nil
		case l.Kind != LineAlert:
		case l.Status == alerts.Resolved:
			l.Channels, open = open, nil
		default:
			l.Channels = reached(l.alert(p.Rule, entity, p.Key))
			open = mergeNames(open, l.Channels)
		}
	}
}

// alert returns the alert of a line, with the fields that routes match.
func (l PreviewLine) alert(rule, entity, key string) alerts.Alert {
	a := alerts.Alert{Rule: rule, Entity: entity, Key: key}
	a.Severity, a.Status, a.Step, a.Labels = l.Severity, l.Status, l.Step, l.Labels
	return a
}

// mergeNames returns the names of both lists, each once; nil if both are nil.
func mergeNames(first, second []string) []string {
	merged := slices.Clone(first)
	if merged == nil && second != nil {
		merged = []string{}
	}
	for _, name := range second {
		if !slices.Contains(merged, name) {
			merged = append(merged, name)
		}
	}
	return merged
}
