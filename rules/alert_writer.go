package rules

import (
	"fmt"
	"slices"
	"time"

	"deadman/rules/document"

	"deadman/alerts"
	futurejobs "deadman/future_jobs"
)

// alertWriter drafts the alerts of one rule.
type alertWriter struct {
	*escalation
	document *document.Document
	loudest  alerts.Severity   // of its steps
	labels   []label           // by name
	constant map[string]string // the labels, if they are the same for every job
}

// label is a label that alerts carry.
type label struct {
	name string
	text *template
}

// newAlertWriter returns the writer of a rule's alerts, with its labels by name.
func newAlertWriter(d *document.Document, e *escalation, labels []label) *alertWriter {
	return &alertWriter{escalation: e, document: d, loudest: loudest(d.Escalate), labels: labels, constant: constant(labels)}
}

// stepAlert drafts the alert of the last of the steps that are due; the others are skipped. at is its index in the
// timeline.
func (a *alertWriter) stepAlert(due []stepTime, at int, w jobContext) alerts.Draft {
	last, s := due[len(due)-1], &w.scope
	s.step, s.turn, s.turns = last.name, last.turn, last.turns
	if last.nags {
		s.turns = 0 // the number of repetitions is unknown
	}
	var passed []string
	for _, m := range due[:len(due)-1] {
		passed = append(passed, m.name)
	}
	return alerts.Draft{
		Status: alerts.Firing, Severity: last.severity, Step: last.name, StepIndex: at,
		SkippedSteps: passed, Text: a.text(last, w), Labels: a.label(w.scope),
	}
}

// text returns the text of a step: its own, or the default text of the rule.
func (a *alertWriter) text(m stepTime, w jobContext) string {
	s := w.scope
	if m.text != nil {
		return m.text.render(s)
	}
	if a.heartbeat != nil {
		return a.document.EntityText(s.key, a.heartbeat.explain(pulseOf(s.own), s.since, m.at), m.repetition())
	}
	if m.step.at != nil || m.clock != nil {
		return a.document.DueText(s.key, m.dueText(s.since), m.repetition())
	}
	start := a.document.StartText()
	if s.event.Size() == 0 {
		start = "the start of the job" // a user created it, without an event
	}
	span := document.Duration(m.passedUntilDue(w).Truncate(time.Second))
	return a.document.DefaultText(s.key, document.SpanText(span.String(), m.of.Name()), start, m.repetition())
}

// label evaluates the labels.
func (a *alertWriter) label(s scope) map[string]string {
	if len(a.labels) == 0 {
		return nil
	}
	if a.constant != nil {
		return a.constant
	}
	filled := make(map[string]string, len(a.labels))
	for _, l := range a.labels {
		filled[l.name] = clip(l.text.render(s), document.MaxLabel)
	}
	return filled
}

// labelsOf returns the labels of an alert that the engine makes.
func (a *alertWriter) labelsOf(j futurejobs.Job) map[string]string {
	w := contextOf(j)
	w.rule = a.document.Name
	return a.label(w.scope)
}

// constant returns labels that are the same for every job; nil if one is not.
func constant(labels []label) map[string]string {
	texts := make(map[string]string, len(labels))
	for _, l := range labels {
		text, is := l.text.constant()
		if !is {
			return nil
		}
		texts[l.name] = text
	}
	return texts
}

// loudest returns the highest severity of the steps, and the default for a handler.
func loudest(steps []document.Step) alerts.Severity {
	if len(steps) == 0 {
		return document.DefaultSeverity
	}
	order := []alerts.Severity{alerts.Info, alerts.Warning, alerts.Error, alerts.Critical}
	at := 0
	for _, s := range steps {
		at = max(at, slices.Index(order, s.Severity))
	}
	return order[at]
}

// closeAlert drafts the alert that closes the alerts of a job: with the severity of the last one, so that everyone who
// was notified is notified again. step is how many steps were taken.
func (a *alertWriter) closeAlert(w jobContext, step int, text string) alerts.Draft {
	d := alerts.Draft{
		Status: alerts.Resolved, Severity: a.loudest, Text: text, Labels: a.label(w.scope),
	}
	line, err := a.timeline(w)
	if at := min(step, len(line)) - 1; err == nil && at >= 0 {
		d.Severity, d.Step, d.StepIndex = line[at].severity, line[at].name, at
	}
	return d
}

// expiredAlert returns the alert for an overdue job that a tick found at now restarts.
func (a *alertWriter) expiredAlert(now time.Time) futurejobs.CloseAlert {
	return func(j futurejobs.Job) alerts.Draft {
		w := contextOf(j)
		w.rule = a.document.Name
		d := alerts.Draft{Status: alerts.Expired, Severity: a.loudest, StepIndex: j.Step, Labels: a.label(w.scope)}
		d.Text = fmt.Sprintf("%s %s: not checked in time, and restarted by the next tick", a.document.Entity, j.Key)
		line, err := a.timeline(w)
		if n := a.due(line, now); err == nil && n > j.Step {
			m := line[n-1]
			d.Severity, d.Step, d.StepIndex = m.severity, m.name, n-1
			d.Text += fmt.Sprintf("; %s was due at %s", m.name, m.at.UTC().Format(time.RFC3339))
		}
		return d
	}
}
