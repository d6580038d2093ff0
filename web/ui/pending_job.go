package ui

import (
	"bytes"
	"cmp"
	"fmt"
	"slices"
	"strings"
	"time"

	"deadman/rules/document"

	"deadman/rules"
	"deadman/web"
)

// pendingView is a pending job with details of its rule.
type pendingView struct {
	jobStory
	ID      string     // id in forms
	Lacks   string     // the missing event, as the start of a sentence
	Silent  time.Time  // start of undetermined checks; zero: none
	OnTime  bool       // no heartbeat was missed so far, and no run failed
	Failed  time.Time  // time of the last failed run; zero: none since the last success
	Signal  time.Time  // time of the last heartbeat
	Never   bool       // no heartbeat arrived since the key is expected
	Notes   ruleNotes  // description and labels of the rule
	Actions *actionRow // nil: none are possible
	Changed int32      // newest version of the rule, if it differs

	Reaches stepChannels // channels of the steps
}

// NextChannels returns the channels of the next alert as text; empty: unknown, or no step is next.
func (w pendingView) NextChannels() string {
	if w.NextAlert == nil || w.NextAlert.Step == "" {
		return ""
	}
	for step := range w.Reaches {
		if next := w.NextAlert.Step; next == step || isRepetition(next, step) {
			return w.Reaches.Of(step)
		}
	}
	return ""
}

// EndsNext reports whether the next check ends the job at a known time.
func (w pendingView) EndsNext() bool {
	known := w.Status != "due" && !w.NextCheckAt.IsZero() && w.Silent.IsZero()
	return known && !w.Suppressed() && w.NextAlert.Status == "none" && w.NextAlert.JobEnds
}

// Suppressed reports whether further steps are suppressed until the job is resolved.
func (w pendingView) Suppressed() bool {
	return w.Acknowledged != nil && w.Acknowledged.Until.IsZero()
}

// waitingFor describes a pending job by the job's version of the rule.
func (c client) waitingFor(j web.Job, s jobStory) (pendingView, error) {
	w := pendingView{jobStory: s, ID: jobID(j.Rule, j.Key)}
	var d document.Document
	err := c.get(fmt.Sprintf("/rules/%s/versions/%d", pathEscape(j.Rule), j.RuleVersion), nil, &d)
	if err != nil {
		if asProblem(err) == nil {
			return w, err
		}
		w.Lacks = "Not resolved" // the job exists even if its rule can't be read
		return w, nil
	}
	w.Notes, w.Lacks = notesOf(d.Description, s.labels()), missingEvent(d)
	if len(d.Resolve) == 0 && d.Trigger.Heartbeat == nil {
		w.setLacks(d)
	}
	if d.Trigger.Heartbeat != nil {
		report := rules.LastReport(j.State)
		w.Failed, w.Signal = report.FailedAt, cmp.Or(report.At, j.Since)
		w.OnTime = j.Step == 0 && len(j.Alerts) == 0 && w.Failed.IsZero()
	}
	w.Never = len(j.Event) == 0 && bytes.Contains(j.State, []byte(`"heartbeat":{"kind":"expected"}`))
	return w, nil
}

// setLacks sets Lacks for a job whose checks decide its end, if the last check was undetermined or none has run.
func (w *pendingView) setLacks(d document.Document) {
	since, why := undeterminedSince(w.Job)
	w.Silent = since
	switch {
	case w.Silent.IsZero() && w.CheckCount == 0 && d.Handler != "":
		w.Lacks = "Handler " + d.Handler + " not called yet"
	case w.Silent.IsZero():
	case d.Handler == "":
		w.Lacks = "Condition undetermined"
	case strings.Contains(why, "is unavailable"):
		w.Lacks = "Handler " + d.Handler + " is unreachable"
	default:
		w.Lacks = "Handler " + d.Handler + " returns no valid answer"
	}
}

// undeterminedSince returns the start of the current run of undetermined checks and the newest reason. It is zero if
// the last check succeeded. A trail keeps only the newest checks, so the run may have begun earlier.
func undeterminedSince(j web.Job) (since time.Time, why string) {
	for _, e := range slices.Backward(j.Trail) {
		switch {
		case e.Kind != "check":
			continue
		case e.Reason == "":
			return since, why
		}
		since, why = e.At, cmp.Or(why, e.Reason)
	}
	if j.CheckCount == 0 && why != "" {
		since = j.FirstCheckAt // every check so far was undetermined
	}
	return since, why
}

// missingEvent describes the event that a rule expects.
func missingEvent(d document.Document) string {
	switch h := d.Trigger.Heartbeat; {
	case h != nil && h.Event == "":
		return "No ping"
	case h != nil:
		return "No event on " + h.Event
	case len(d.Resolve) > 0:
		var subjects []string
		for _, r := range d.Resolve {
			if len(subjects) == 0 || subjects[len(subjects)-1] != r.Event {
				subjects = append(subjects, r.Event)
			}
		}
		if n := len(subjects); n > 2 {
			return fmt.Sprintf("No %s or %d other events", subjects[0], n-1)
		}
		return "No " + strings.Join(subjects, " or ")
	case d.While != "":
		return "Condition holds: " + d.While
	case d.Handler != "":
		return "Handler " + d.Handler + ": not resolved"
	}
	return "Not resolved"
}
