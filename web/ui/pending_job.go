package ui

import (
	"cmp"
	"fmt"
	"slices"
	"strings"
	"time"

	"deadman/rules"
	"deadman/web"
)

// pendingView is a job that waits, and what its rule says of it.
type pendingView struct {
	jobStory
	ID      string    // names it in forms
	Lacks   string    // what has not happened, as a sentence begins
	Silent  time.Time // since when Lacks can't be found out; zero: it can
	Beats   bool      // it is a heartbeat, and was heard in time so far
	Step    string    // the next, such as "reminder 2 of 3"; empty: there is none left
	Taken   int       // steps
	About   string    // what the rule is about
	Decides string    // the handler that decides in the place of steps; empty: none does
	Changed int32     // the newest version of the rule, where that is another
}

// waitingFor puts together what is waited for, by the version of the rule that the job goes by.
func (c client) waitingFor(j web.Job, s jobStory) (pendingView, error) {
	w := pendingView{jobStory: s, ID: jobID(j.Rule, j.Key), Taken: j.Step}
	var d rules.Document
	err := c.get(fmt.Sprintf("/rules/%s/versions/%d", pathEscape(j.Rule), j.RuleVersion), nil, &d)
	if err != nil {
		if asProblem(err) == nil {
			return w, err
		}
		w.Lacks = "It is not over" // the rule can't be shown, and the job is there all the same
		return w, nil
	}
	w.About, w.Lacks, w.Step = d.Description, missingEvent(d), nextStep(d.Escalate, j.Step)
	w.Decides = d.Handler
	if len(d.Resolve) == 0 && d.Trigger.Heartbeat == nil {
		w.asked(d)
	}
	w.Beats = d.Trigger.Heartbeat != nil && j.Step == 0 && len(j.Alerts) == 0
	return w, nil
}

// asked says what is known of a wait that ends when a look finds that it is over, where the last look
// could not find out or there was none yet.
func (w *pendingView) asked(d rules.Document) {
	since, why := undeterminedSince(w.Job)
	w.Silent = since
	switch {
	case w.Silent.IsZero() && w.CheckCount == 0 && d.Handler != "":
		w.Lacks = "Handler " + d.Handler + " was not asked yet"
	case w.Silent.IsZero():
	case d.Handler == "":
		w.Lacks = "Whether it is over can't be found out"
	case strings.Contains(why, "can't be asked"):
		w.Lacks = "Handler " + d.Handler + " can't be asked"
	default:
		w.Lacks = "Handler " + d.Handler + " gives no answer that counts"
	}
}

// undeterminedSince is since when no look at a job could find out, and why the last one could not; zero: the last
// one could. A trail keeps the newest looks alone, so it may have begun before.
func undeterminedSince(j web.Job) (since time.Time, why string) {
	for _, e := range slices.Backward(j.Trail) {
		switch {
		case e.Kind != "look":
			continue
		case e.Reason == "":
			return since, why
		}
		since, why = e.At, cmp.Or(why, e.Reason)
	}
	if j.CheckCount == 0 && why != "" {
		since = j.FirstCheckAt // it never could
	}
	return since, why
}

// missingEvent says what has not happened of what a rule waits for.
func missingEvent(d rules.Document) string {
	switch h := d.Trigger.Heartbeat; {
	case h != nil && h.Event == "":
		return "No ping"
	case h != nil:
		return "No beat on " + h.Event
	case len(d.Resolve) > 0:
		var subjects []string
		for _, r := range d.Resolve {
			if len(subjects) == 0 || subjects[len(subjects)-1] != r.Event {
				subjects = append(subjects, r.Event)
			}
		}
		if n := len(subjects); n > 2 {
			return fmt.Sprintf("No %s, or any of %d others", subjects[0], n-1)
		}
		return "No " + strings.Join(subjects, " or ")
	case d.While != "":
		return "Still so: " + d.While
	case d.Handler != "":
		return "Handler " + d.Handler + " says it is not over"
	}
	return "It is not over"
}

// nextStep is the step that comes after some were taken. Steps that are computed may come in
// another order than they are written in: then it has a number and no name.
func nextStep(steps []rules.Step, taken int) string {
	var names []string
	rising, last := true, rules.Duration(0)
	for _, s := range steps {
		times := max(s.Times, 1)
		for turn := range times {
			name := s.Name
			if times > 1 {
				name = fmt.Sprintf("%s %d of %d", s.Name, turn+1, times)
			}
			names = append(names, name)
		}
		rising = rising && s.At == "" && s.After.Computed == "" && (s.Every > 0 || s.After.Fixed >= last)
		if s.Every == 0 {
			last = s.After.Fixed
		}
		if s.Until != "" && taken >= len(names)-1 {
			return s.Name + ", again and again"
		}
	}
	switch {
	case taken >= len(names):
		return ""
	case !rising:
		return fmt.Sprintf("%d of %d", taken+1, len(names))
	}
	return names[taken]
}
