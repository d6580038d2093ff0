package rules

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"slices"

	"deadman/rules/bodies"
	"deadman/rules/document"

	"deadman/alerts"
	"deadman/checks"
	"deadman/internal/configfile"
)

// namedHandler calls a custom handler.
type namedHandler struct {
	rule    *Rule
	handler checks.Handler
}

// newNamedHandler returns the handler of a rule that names one. It is assumed to do I/O, regardless of its declaration,
// so that it has a timeout; and it has effects if the handler or the rule says so.
func newNamedHandler(r *Rule, handler checks.Handler) checks.Handler {
	n := namedHandler{r, handler}
	if _, once := handler.(checks.AtMostOnce); once || r.document.AtMostOnce {
		return checks.WithAtMostOnce(n)
	}
	return n
}

// Check calls the handler. It fills in missing fields of its alerts: the status firing, the severity, and the labels of
// the rule beside its own. The handler receives the time that events have been applied up to, as steps of the rule do.
func (n namedHandler) Check(ctx context.Context, c checks.Check) (checks.Answer, error) {
	c.At = c.AsOf()
	answer, err := n.handler.Check(ctx, c)
	if err != nil {
		return checks.Answer{}, err
	}
	drafts := make([]alerts.Draft, len(answer.Alerts))
	for i, draft := range answer.Alerts {
		draft.Status, draft.Severity = cmp.Or(draft.Status, alerts.Firing), cmp.Or(draft.Severity, document.DefaultSeverity)
		draft.Labels = n.labels(c, draft.Labels)
		drafts[i] = draft
	}
	answer.Alerts = drafts
	if err := checkAnswer(c, answer); err != nil {
		return checks.Answer{}, fmt.Errorf("handler %s gave an invalid answer: %w", n.rule.document.Handler, err)
	}
	return answer, nil
}

// labels returns the labels of the rule, overridden by own.
func (n namedHandler) labels(c checks.Check, own map[string]string) map[string]string {
	of := n.rule.label(contextOfCheck(c).scope)
	if len(own) == 0 {
		return of
	}
	all := make(map[string]string, len(of)+len(own))
	maps.Copy(all, of)
	maps.Copy(all, own)
	return all
}

// Bounds of an answer.
const (
	maxAnswerAlerts = 32     // alerts
	maxStep         = 10_000 // steps taken, far more than a rule can have
)

// allowedStatuses are the statuses of alerts that a handler may return; the others belong to the engine.
var allowedStatuses = []string{string(alerts.Firing), string(alerts.Resolved)}

// checkAnswer returns why an answer is invalid. The time of the next check is left to the guards, unless it cannot be
// stored. An answer that passes has to be storable: a decision that is not would block all decisions that are settled
// with it.
func checkAnswer(c checks.Check, a checks.Answer) error {
	switch {
	case a.Outcome != "" && !document.NamePattern.MatchString(string(a.Outcome)):
		return fmt.Errorf("the outcome %q is not a name; write %s", clip(string(a.Outcome), 80), document.NameForm)
	case a.Outcome != "" && !a.Next.IsZero():
		return fmt.Errorf("it has the outcome %s and a next check; a job that ends has no next check", a.Outcome)
	case a.Step < c.Step:
		return fmt.Errorf("step %d is before step %d, which was taken", a.Step, c.Step)
	case a.Step > maxStep:
		return fmt.Errorf("step %d is too high, the most is %d", a.Step, maxStep)
	case a.Next.Year() >= maxYear: // rounding up to a slot may exceed it
		return fmt.Errorf("the next check is in the year %d, but must be before %d; answer with an outcome to end the job", a.Next.Year(), maxYear)
	case len(a.Alerts) > maxAnswerAlerts:
		return fmt.Errorf("it has %d alerts, the most is %d", len(a.Alerts), maxAnswerAlerts)
	}
	if err := checkState(a.State); err != nil {
		return fmt.Errorf("state: %w", err)
	}
	for i, draft := range a.Alerts {
		if err := checkDraft(draft); err != nil {
			return fmt.Errorf("alerts[%d]: %w", i, err)
		}
	}
	return nil
}

// checkState returns why the state of a handler's answer is invalid.
func checkState(state json.RawMessage) error {
	if state == nil {
		return nil
	}
	if err := bodies.Check(state); err != nil {
		return err
	}
	if !bodies.IsObject(state) {
		return errors.New("it is not an object")
	}
	return nil
}

func checkDraft(d alerts.Draft) error {
	switch {
	case d.StepIndex < 0 || d.StepIndex > maxStep:
		return fmt.Errorf("step index %d is not between 0 and %d", d.StepIndex, maxStep)
	case len(d.SkippedSteps) > maxAnswerAlerts || slices.ContainsFunc(d.SkippedSteps, func(name string) bool { return !document.NamePattern.MatchString(name) }):
		return fmt.Errorf("skipped_steps has up to %d names of steps; write %s", maxAnswerAlerts, document.NameForm)
	case !d.Severity.Valid():
		return errors.New(configfile.NotOneOf("a severity", string(d.Severity), document.Severities))
	case !slices.Contains(allowedStatuses, string(d.Status)):
		return errors.New(configfile.NotOneOf("a status", string(d.Status), allowedStatuses))
	case d.Step != "" && !document.NamePattern.MatchString(d.Step):
		return fmt.Errorf("step: %q is not a name; write %s", clip(d.Step, 80), document.NameForm)
	case len(d.Text) > maxText:
		return fmt.Errorf("the text has %d bytes, the most is %d", len(d.Text), maxText)
	case len(d.Labels) > 2*document.MaxLabels:
		return fmt.Errorf("%d labels, the most is %d", len(d.Labels), 2*document.MaxLabels)
	}
	for name, value := range d.Labels {
		if !alerts.LabelPattern.MatchString(name) || len(value) > document.MaxLabel {
			return fmt.Errorf("the label %q is invalid; its name has letters, digits, dots, _ and -, and its value up to %d bytes", clip(name, 80), document.MaxLabel)
		}
	}
	return nil
}
