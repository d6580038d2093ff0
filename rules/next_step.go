package rules

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	"deadman/alerts"
	"deadman/checks"
	futurejobs "deadman/future_jobs"
)

// NextStep is the step that a pending job raises next if nothing changes, and what resolves the job before. Without a
// Name and without a reason in Unknown the job raises no further alert.
type NextStep struct {
	Name     string // with its repetition, such as reminder 2 of 3
	Severity alerts.Severity
	At       time.Time // slot of the check that raises it
	Unless   []string  // subjects of events that can resolve the job; PingSignal for pings
	While    string    // condition that ends the job once it no longer holds; empty: none
	Unknown  string    // why the step is unknown; empty: it is known
	Ends     bool      // no step is left, and the next check ends the job: late events count until then
}

// PingSignal stands for a ping among the events that resolve a job.
const PingSignal = "ping"

// NextSteps determines the next steps of the jobs of one list. The expressions of all of them have one budget, so that
// a list is not expensive. It is not safe for concurrent use.
type NextSteps struct {
	catalog *Catalog
	now     time.Time
	spend   budget
}

// nextStepsBudget is the budget of a list, in rounds: about 0.1 s.
const nextStepsBudget = previewBudget / 10

// The reasons why a next step is unknown.
var (
	errNextTooCostly = errors.New("the expressions of the rules of this list cost too much together; request the job by itself")
	errNextHandler   = errors.New("a handler decides")
	errNextPaused    = errors.New("the job is paused until an event resumes it")
	errNextOmitted   = errors.New("its time depends on an event that is too large for this list; request the job by itself")
)

// NextSteps returns the next steps of jobs as of now.
func (b *Catalog) NextSteps(now time.Time) *NextSteps {
	return &NextSteps{catalog: b, now: now, spend: budget{left: nextStepsBudget, spent: errNextTooCostly}}
}

// Of returns the next step of a pending job. The version that the job follows determines the step and its condition, and
// the newest version of its rule the events that resolve it.
func (n *NextSteps) Of(ctx context.Context, l futurejobs.ListedJob) NextStep {
	e := n.catalog.current.Load()
	v, err := n.catalog.version(ctx, e, id{l.RuleID, l.Version})
	if err != nil {
		return NextStep{Unknown: fmt.Sprintf("version %d of the rule is not available: %v", l.Version, err)}
	}
	rule, err := v.compiled()
	if err != nil {
		return NextStep{Unknown: fmt.Sprintf("version %d of the rule cannot be read: %v", l.Version, err)}
	}
	if rule.engine.Deleted {
		return NextStep{}
	}
	next := NextStep{While: rule.document.While}
	if newest := e.names[l.Rule]; newest != nil {
		next.Unless = newest.versions[0].resolving()
	}
	if l.Omitted && (rule.heartbeat != nil || !rule.rising) {
		next.Unknown = errNextOmitted.Error()
		return next
	}
	step, ok, err := rule.next(l.Job, n.now, &n.spend)
	switch {
	case err != nil:
		next.Unknown = err.Error()
	case !ok:
		return NextStep{Ends: rule.endsAtNextCheck(l.Job)}
	default:
		next.Name, next.Severity, next.At = step.called(), step.severity, step.at
	}
	return next
}

// endsAtNextCheck reports whether the next check of a job ends it, after its last step and the late-resolve window.
func (r *Rule) endsAtNextCheck(j futurejobs.Job) bool {
	if !r.document.IsHeld() || j.NextCheckAt.IsZero() {
		return false
	}
	line, err := r.timeline(contextOf(j))
	if err != nil || len(line) == 0 || j.Step < len(line) {
		return false
	}
	return !r.holdEnd(line[len(line)-1].at).After(j.NextCheckAt)
}

// resolving returns the subjects of the events that can resolve a job, each once.
func (v *version) resolving() (subjects []string) {
	if h := v.document.Trigger.Heartbeat; h != nil {
		subjects = append(subjects, PingSignal)
		if h.Event != "" {
			subjects[0] = h.Event
		}
	}
	for _, r := range v.document.Resolve {
		if !slices.Contains(subjects, r.Event) {
			subjects = append(subjects, r.Event)
		}
	}
	return subjects
}

// NextStep returns the name and the severity of the step that a pending job raises next, and its slot. ok is false if
// there is none, or if it is unknown.
func (r *Rule) NextStep(j futurejobs.Job, now time.Time) (name string, severity alerts.Severity, at time.Time, ok bool) {
	next, ok, err := r.next(j, now, nil)
	if !ok || err != nil {
		return "", "", time.Time{}, false
	}
	return next.called(), next.severity, next.at, true
}

// next returns the step that a job raises next; ok is false if there is none. The error is the reason why it is unknown.
// spend is the budget of expressions; nil: that of a check.
func (r *Rule) next(j futurejobs.Job, now time.Time, spend *budget) (next stepTime, ok bool, err error) {
	switch {
	case r.document.Handler != "":
		return stepTime{}, false, errNextHandler
	case !j.PausedAt().IsZero():
		return stepTime{}, false, errNextPaused
	}
	w := contextOf(j)
	if spend != nil {
		w.spend = spend
	}
	return r.nextStep(j, w, now)
}

// nextStep returns the step that a job raises next if nothing changes, and the slot of the check that raises it; ok is
// false if there is none:
//
//  1. The step is raised at the slot of the next possible alert, not before the next check and the end of a snooze.
//  2. Steps are suppressed until an acknowledgement ends.
//  3. Of several steps that are due by then, the last one is raised.
func (e *escalation) nextStep(j futurejobs.Job, w jobContext, now time.Time) (next stepTime, ok bool, err error) {
	line, err := e.timeline(w)
	if err != nil {
		return stepTime{}, false, err
	}
	slot := e.upcoming(line, j.Step, now, j.AckedUntil)
	if slot.IsZero() {
		return stepTime{}, false, nil
	}
	slot = latest(slot, latest(e.grid.Up(j.SnoozedUntil), j.NextCheckAt))
	switch {
	case slot.Before(j.AckedUntil) && j.AckedUntil.Equal(checks.Forever):
		return stepTime{}, false, nil
	case slot.Before(j.AckedUntil):
		slot = e.grid.Up(j.AckedUntil)
	}
	n := e.due(line, slot)
	if n <= j.Step {
		return stepTime{}, false, nil
	}
	next = line[n-1]
	next.at = slot
	return next, true, nil
}
