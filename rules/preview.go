package rules

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

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
	// Unasked is why the source is not to be queried; empty: it is queried, if necessary.
	Unasked string
}

// PreviewEvent is an event of a preview.
type PreviewEvent struct {
	Subject string          `json:"subject" doc:"Subject of the event."` // empty for the first: the subject of the trigger
	At      time.Time       `json:"at"`                                  // when the stream would store it
	Data    json.RawMessage `json:"data,omitempty"`
}

// Preview is the course of the first job that the events create.
type Preview struct {
	Rule     string        `json:"rule" doc:"Name of the rule."`
	Key      string        `json:"key,omitempty" doc:"Key of the first job. Absent if no job is created."`
	Since    time.Time     `json:"since,omitzero" doc:"Start of the job."`
	Lines    []PreviewLine `json:"lines" doc:"Timeline of the job."`
	Outcome  string        `json:"outcome,omitempty" doc:"Outcome of the job. Absent if it is pending at the end of the preview."`
	Reason   string        `json:"reason,omitempty" doc:"Explanation of the outcome, or why the preview ended early."`
	EndedAt  time.Time     `json:"ended_at,omitzero" doc:"End of the job."`
	Refusals []string      `json:"refusals,omitempty" doc:"Reasons of events that would become dead letters."`
	Unheard  []string      `json:"ignored_events,omitempty" doc:"Events on subjects that the rule does not subscribe to."`

	Listens []string `json:"subjects,omitempty" doc:"Subjects that the rule subscribes to, the trigger's first."`

	// Later is the delay of its steps because the rule spreads those of different keys; absent: none.
	Later string `json:"spread_delay,omitempty" doc:"Delay of the steps of this key because of the rule's spread, as a duration. Absent if there is none."`

	Lookup *PreviewLookup `json:"lookup,omitempty" doc:"Result of the lookup. Absent if no result was given and no source was queried."`

	Zone  string        `json:"zone,omitempty" doc:"Time zone of the schedule."`
	Ticks []PreviewTick `json:"ticks,omitempty" doc:"Next ticks of the schedule."`
}

// PreviewLookup is the result of the lookup at every check of a preview.
type PreviewLookup struct {
	Source string          `json:"source" doc:"Name of the source."`
	Asked  bool            `json:"queried" doc:"Whether the source was queried. false if the request had the result."`
	Found  json.RawMessage `json:"result" doc:"Result of the lookup; null if the entity does not exist."`
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
	Next         time.Time         `json:"next,omitzero" doc:"Slot of the next check."`
	Note         string            `json:"note,omitempty" doc:"Explanation."`

	More int       `json:"more,omitempty" doc:"Number of further repetitions of the alert without an acknowledgement."`
	Last time.Time `json:"last,omitzero" doc:"Time of the last repetition."`
}

// PreviewKind is a kind of line.
type PreviewKind string

// The kinds of lines.
const (
	Starts PreviewKind = "starts" // the job begins
	Event  PreviewKind = "event"  // an event changes it
	Looks  PreviewKind = "check"  // a check without an alert
	Says   PreviewKind = "alert"  // an alert
	Ends   PreviewKind = "ends"   // the job ends
)

// Preview plays events and the checks between them through the engine itself, in a time of its own. The error is
// Problems, futurejobs.ErrNotFound or of the store.
func (r *Registry) Preview(ctx context.Context, ask PreviewRequest) (Preview, error) {
	rule, began, err := r.previewed(ctx, ask)
	if err != nil {
		return Preview{}, err
	}
	if ask.Unasked == "" {
		ask.Unasked = rule.document.refusesLookup(access.BoundsOf(ctx))
	}
	f, err := newPreviewLookup(rule, ask.Found, ask.Unasked)
	if err != nil {
		return Preview{}, err
	}
	if rule.ticking != nil && len(ask.Events) > 0 {
		rule.ticking.schedule = rule.ticking.schedule.From(cmp.Or(began, ask.Events[0].At))
	}
	ctx, cancel := context.WithTimeout(lookup.Trial(ctx), previewTime)
	defer cancel()
	p, err := rule.Preview(ctx, ask.Events, ask.Until)
	if err == nil && f != nil {
		p.Lookup, err = f.said()
	}
	return p, err
}

// previewTime bounds a preview.
const previewTime = 3 * time.Second

// previewed returns the requested rule, and when it began; zero: it is not saved.
func (r *Registry) previewed(ctx context.Context, ask PreviewRequest) (rule *Rule, began time.Time, err error) {
	if ask.Text != nil {
		documents, err := r.parse(ctx, ask.Text, "")
		if err != nil {
			return nil, began, err
		}
		bounds := access.BoundsOf(ctx)
		if err := documents[0].within(bounds); err != nil {
			return nil, began, err
		}
		rule, err = r.compile(ctx, func(world environment) (*Rule, error) {
			return previewable(documents[0].Document, RuleVersion{Version: 1, Bounds: bounds}, world)
		})
		return rule, began, err
	}
	versions, err := r.Versions(ctx, ask.Name)
	if err != nil {
		return nil, began, err
	}
	at := 0
	if ask.Version != 0 {
		at = slices.IndexFunc(versions, func(s RuleVersion) bool { return s.Version == ask.Version })
	}
	if at < 0 {
		return nil, began, fmt.Errorf("rule %s has no version %d: %w", ask.Name, ask.Version, futurejobs.ErrNotFound)
	}
	document, err := decodeDocument(versions[at].Document)
	if err != nil {
		return nil, began, err
	}
	rule, err = r.compile(ctx, func(world environment) (*Rule, error) { return previewable(document, versions[at], world) })
	return rule, beganAt(versions, versions[at].RuleID), err
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
func previewable(d Document, saved RuleVersion, world environment) (*Rule, error) {
	saved.Reads = nil
	for _, subject := range d.Subjects() {
		saved.Reads = append(saved.Reads, StreamBinding{Subject: subject, Stream: previewStream})
	}
	rule, err := compileAmid(d, saved, world)
	if err == nil {
		rule.document.Enabled = true
	}
	return rule, err
}

const previewStream = "preview"

// ErrPreview means that a preview is impossible.
var ErrPreview = errors.New("there is nothing to preview")

// Preview plays events and the checks between them through the engine itself. The events are in the order of their
// times. It follows the first job that is created, for its key.
func (r *Rule) Preview(ctx context.Context, events []PreviewEvent, until time.Time) (Preview, error) {
	switch {
	case len(events) == 0:
		return Preview{}, fmt.Errorf("%w: send the event that begins the wait", ErrPreview)
	case !slices.IsSortedFunc(events, func(a, b PreviewEvent) int { return a.At.Compare(b.At) }):
		return Preview{}, fmt.Errorf("%w: the events are not in the order of their times", ErrPreview)
	}
	r = r.onBudget(ctx)
	if r.ticking != nil {
		return r.previewTicks(ctx, events, until)
	}
	if until.IsZero() {
		until = futurejobs.FarFuture
	}
	p := previewing{Rule: r, out: r.nothingYet(), early: make(map[futurejobs.Ref]futurejobs.EarlyEvent)}
	switch first := events[0]; {
	case p.neverReports(first):
		p.seq++
		events = events[1:]
	case first.Subject == "" && len(first.Data) == 0:
		return Preview{}, fmt.Errorf("%w: send the event that begins the wait", ErrPreview)
	}
	for i, e := range events {
		if i == 0 && e.Subject == "" {
			e.Subject = r.trigger.subject
		}
		p.looks(ctx, latest(e.At, time.Time{}).Add(-time.Microsecond))
		if p.isCut(ctx) {
			break
		}
		p.event(e)
	}
	p.looks(ctx, until.Add(-time.Microsecond))
	if p.missing() && p.out.Reason == "" {
		p.out.Reason = "the wait goes on until a beat comes"
	}
	if p.document.Handler != "" && p.job != nil {
		p.out.Reason = "the preview ends here: what the handler " + p.document.Handler + " answers is known once it is asked"
	}
	if p.job == nil && p.out.Outcome == "" && !p.isCut(ctx) {
		p.out.Reason = "no event begins a wait: none is the trigger's with its condition met"
	}
	return p.out, nil
}

// nothingYet returns a preview without any line.
func (r *Rule) nothingYet() Preview {
	return Preview{Rule: r.engine.Name, Lines: []PreviewLine{}, Listens: r.document.Subjects()}
}

// previewing is a preview in progress.
type previewing struct {
	*Rule
	out Preview
	job *futurejobs.Job // nil: not created yet, or ended
	seq uint64

	early map[futurejobs.Ref]futurejobs.EarlyEvent

	once bool // no job after the first is followed
	over bool
	nags int // lines in a row of a step that is repeated until a user acknowledges
}

// event plays an event, on one stream, as ingest does.
func (p *previewing) event(e PreviewEvent) {
	p.seq++
	if p.pinged(e) {
		p.ping(e)
		return
	}
	m := matcher{body: newBody(e.Data), shards: 1, event: futurejobs.Event{
		Stream: previewStream, Subject: e.Subject, Seq: p.seq, At: e.At, Data: e.Data,
	}}
	own := m.budget()
	h := ruleMatch{matcher: &m, Rule: p.Rule, spend: p.purse(&own), made: func(futurejobs.Job) *Rule { return p.Rule }}
	h.match()
	if !h.listens() {
		p.out.Unheard = append(p.out.Unheard, fmt.Sprintf("%s at %s: the rule does not listen to this subject; it listens to %s",
			e.Subject, e.At.Format(time.RFC3339), strings.Join(p.document.Subjects(), ", ")))
	}
	for _, refused := range m.refusals {
		p.out.Refusals = append(p.out.Refusals, fmt.Sprintf("%s at %s: %s", e.Subject, e.At.Format(time.RFC3339), refused.Reason))
	}
	for _, effect := range m.effects {
		p.apply(effect, e)
	}
}

// apply folds one effect, if it is on the key that is followed.
func (p *previewing) apply(e futurejobs.Effect, by PreviewEvent) {
	if p.out.Key != "" && e.Ref.Key != p.out.Key {
		return
	}
	known := futurejobs.FoldInput{Pending: map[futurejobs.Ref]futurejobs.Job{}, Early: p.early}
	if p.job != nil {
		known.Pending[e.Ref] = *p.job
	}
	net := futurejobs.Fold([]futurejobs.Effect{e}, known, by.At)
	for _, letter := range net.DeadLetters {
		p.out.Refusals = append(p.out.Refusals, fmt.Sprintf("%s at %s: %s", by.Subject, by.At.Format(time.RFC3339), letter.Reason))
	}
	for _, early := range net.Remember {
		p.early[early.Ref] = early
	}
	for _, ref := range net.Forget {
		delete(p.early, ref)
	}
	for _, d := range slices.Concat(net.End, net.StartedAndEnded) {
		p.end(d, by.At)
	}
	for _, j := range net.Create {
		p.follow(*j, by, true)
	}
	for _, j := range slices.Concat(net.Change, net.Update) {
		p.follow(j, by, len(net.Create) > 0)
	}
}

// follow continues with the job as an event left it.
func (p *previewing) follow(j futurejobs.Job, by PreviewEvent, begun bool) {
	if begun && p.once && p.out.Key != "" {
		p.over = true
		return
	}
	line := PreviewLine{At: by.At, Kind: Event, Note: by.Subject, Next: j.NextCheckAt}
	if begun {
		j.ID = int64(p.seq)
		p.out.Key, p.out.Since = j.Key, j.Since
		if p.spread > 1 {
			p.out.Later = Duration(p.later(j.Key)).String()
		}
		p.out.Outcome, p.out.Reason, p.out.EndedAt = "", "", time.Time{}
		line.Kind = Starts
	}
	if !j.PausedAt().IsZero() {
		line.Next = time.Time{}
	}
	p.job = &j
	p.say(line)
}

// looks makes the checks that are due up to a time. A handler may have effects, and is not called.
func (p *previewing) looks(ctx context.Context, through time.Time) {
	if p.document.Handler != "" {
		return
	}
	for p.job != nil && !p.missing() && !p.job.NextCheckAt.After(through) && len(p.out.Lines) < maxPreview && !p.isCut(ctx) {
		at := p.job.NextCheckAt
		d := p.engine.Check(ctx, *p.job, at)
		line := PreviewLine{At: at, Kind: Looks, Note: d.Reason, Next: d.Job.NextCheckAt}
		if d.Ends() {
			p.end(d, at)
			continue
		}
		p.job = &d.Job
		if len(d.Alerts) == 0 {
			p.say(line)
		}
		p.alerts(d, at)
	}
	switch {
	case p.spend.left <= 0:
		p.out.Reason = "the preview ends here: the expressions of the rule cost more than those of a preview may"
	case ctx.Err() != nil:
		p.out.Reason = "the preview ends here: it took too long"
	}
	if len(p.out.Lines) >= maxPreview && p.out.Reason == "" {
		p.out.Reason = fmt.Sprintf("the preview ends after %d lines", maxPreview)
	}
}

// isCut reports whether the preview stops early: the caller has left, or it costs too much.
func (p *previewing) isCut(ctx context.Context) bool { return ctx.Err() != nil || p.spend.left <= 0 }

func (p *previewing) alerts(d futurejobs.Decision, at time.Time) {
	for _, a := range d.Alerts {
		line := PreviewLine{
			At: at, Kind: Says, Step: a.Step, Severity: a.Severity, Status: a.Status, Text: a.Text,
			SkippedSteps: a.SkippedSteps, Labels: a.Labels,
		}
		if !d.Ends() {
			line.Next = d.Job.NextCheckAt
		}
		p.say(line)
	}
}

// end ends the job that is followed.
func (p *previewing) end(d futurejobs.Decision, at time.Time) {
	p.alerts(d, at)
	p.say(PreviewLine{At: at, Kind: Ends, Note: string(d.Outcome)})
	p.job = nil
	p.out.Key = d.Job.Key
	p.out.Outcome, p.out.Reason, p.out.EndedAt = string(d.Outcome), d.Reason, at
}

// nagsShown is how many lines in a row are shown of a step that is repeated until a user acknowledges. The others are
// counted.
const nagsShown = 3

func (p *previewing) say(line PreviewLine) {
	nags := line.Kind == Says && line.Status == alerts.Firing &&
		slices.ContainsFunc(p.steps, func(s step) bool { return s.nags && s.name == line.Step })
	if !nags {
		p.nags = 0
	} else if p.nags++; p.nags > nagsShown {
		last := &p.out.Lines[len(p.out.Lines)-1]
		last.More, last.Last, last.Next = last.More+1, line.At, line.Next
		return
	}
	p.out.Lines = append(p.out.Lines, line)
}
