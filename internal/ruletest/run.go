package ruletest

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"deadman/alerts"
	"deadman/internal/configfile"
	"deadman/internal/replay"
	"deadman/internal/subjects"
	"deadman/rules"
	"deadman/rules/document"
)

// Result is the result of a test.
type Result struct {
	Name     string    `json:"name"`
	Line     int       `json:"line"`
	Seconds  float64   `json:"seconds"`
	Failures []Failure `json:"failures,omitempty"`
}

// Passed reports whether the test passed.
func (r Result) Passed() bool { return len(r.Failures) == 0 }

// Failure is one reason for which a test failed.
type Failure struct {
	Line        int      `json:"line"`
	Message     string   `json:"message"`
	Diff        *Diff    `json:"diff,omitempty"`
	Hints       []string `json:"hints,omitempty"`
	Of          string   `json:"of,omitempty"` // the job of the explanation
	Explanation []Entry  `json:"explanation,omitempty"`
}

// eventError is an error of the event on a line.
type eventError struct {
	error
	line int
}

// Unwrap returns the error.
func (e eventError) Unwrap() error { return e.error }

// run is one test that runs.
type run struct {
	*Suite
	*Test
	replay   *replay.Replay
	story    story
	alerts   []row
	outcomes []row
	letters  []row
	failures []Failure

	undetermined int
	stop         context.CancelCauseFunc // ends the replay
}

// maxRows bounds the alerts, the outcomes and the dead letters of a test.
const maxRows = 1000

var errTooMany = fmt.Errorf("the test has more than %d alerts, outcomes or dead letters; end it earlier, with until, or give it fewer events", maxRows)

// undeterminedMost bounds the undetermined checks of a test without an end. Each is repeated, so they would never end.
const undeterminedMost = 1000

// Run runs a test, and counts the used parts of its rules in a coverage.
func (s *Suite) Run(ctx context.Context, t *Test, c *rules.Coverage) ([]Failure, error) {
	r := &run{Suite: s, Test: t, story: newStory(t)}
	c.Observe = r.story.evaluated
	if err := r.play(ctx, c); err != nil {
		if ctx.Err() != nil {
			return nil, ctx.Err()
		}
		f := Failure{Line: t.Line, Message: err.Error()}
		if at := (eventError{}); errors.As(err, &at) {
			f.Line = at.line
		}
		return []Failure{f}, nil
	}
	r.compare("dead_letters", "dead letter", t.DeadLetters, r.letters)
	r.compare("alerts", "alert", t.Alerts, r.alerts)
	r.compare("outcomes", "outcome", t.Outcomes, r.outcomes)
	return r.failures, nil
}

// play plays the events of the test.
func (r *run) play(ctx context.Context, c *rules.Coverage) (err error) {
	ctx, r.stop = context.WithCancelCause(ctx)
	defer func() { r.stop(nil) }()
	until := r.Until
	if until.IsZero() {
		if until, err = r.end(); err != nil {
			return err
		}
	}
	for _, d := range r.Documents {
		if source := d.Lookup.SourceName(); source != "" && !r.Lookups.Covers(source) {
			return fmt.Errorf("rule %s queries source %s, whose answers the test does not have; write them, such as lookups: {%[2]s: {answers: {absent: true}}}", d.Name, source)
		}
	}
	if r.replay, err = replay.New(ctx, r.Documents, r.Known, r.Lookups, r.Start); err != nil {
		return err
	}
	if err := r.replay.Trace(c); err != nil {
		return err
	}
	r.replay.Observe = r.observed
	for _, m := range r.replay.Pending() {
		r.story.add(m.At, "starts", m.Rule, m.Key, "the key is expected from the start; next check at "+r.when(m.Next))
	}
	r.replay.Raise = func(a alerts.Alert) error { return r.raised(a, c) }
	for _, e := range r.Events {
		if err := r.event(ctx, e); err != nil {
			return eventError{err, e.Line}
		}
	}
	if _, err := r.replay.Finish(ctx, until); err != nil {
		return cmp.Or(context.Cause(ctx), err)
	}
	for _, m := range r.replay.Pending() {
		r.outcomes = append(r.outcomes, row{"rule": m.Rule, "key": m.Key, "outcome": "pending"})
	}
	if max(len(r.outcomes), len(r.letters)) > maxRows {
		return errTooMany
	}
	return nil
}

// end returns the end of a test without until: the end of all jobs.
func (r *run) end() (time.Time, error) {
	for _, d := range r.Documents {
		switch {
		case d.Trigger.Schedule != "":
			return time.Time{}, fmt.Errorf("the test has no end: rule %s has a schedule, which ticks forever; write until, such as until: 24h", d.Name)
		case d.Trigger.Heartbeat != nil:
			return time.Time{}, fmt.Errorf("the test has no end: rule %s expects a heartbeat forever; write until, such as until: 24h", d.Name)
		}
	}
	return futureEnd, nil
}

// event plays an event or a ping.
func (r *run) event(ctx context.Context, e Event) error {
	if e.Subject == "" {
		rule, err := r.pinged(e)
		if err != nil {
			return err
		}
		return r.replay.Ping(ctx, rule, e.Ping)
	}
	if known := r.subjects(); !r.Lookups.Reads(e.Subject) && !slices.ContainsFunc(known, func(s string) bool { return subjects.Covers(s, e.Subject) }) {
		near := configfile.Suggest(e.Subject, known)
		if near != "" {
			return fmt.Errorf("no rule of the test subscribes to %s; did you mean %s?", e.Subject, near)
		}
		return fmt.Errorf("no rule of the test subscribes to %s, only to %s", e.Subject, strings.Join(known, ", "))
	}
	return r.replay.Event(ctx, replay.Event{Subject: e.Subject, Time: e.At, Data: e.Data})
}

// subjects returns the subjects that the rules subscribe to.
func (r *run) subjects() (all []string) {
	for _, d := range r.Documents {
		all = append(all, d.Subjects()...)
	}
	slices.Sort(all)
	return slices.Compact(all)
}

// pinged returns the name of the rule of a ping.
func (r *run) pinged(e Event) (string, error) {
	var names []string
	for _, d := range r.Documents {
		if d.Trigger.Heartbeat != nil {
			names = append(names, d.Name)
		}
	}
	switch {
	case len(names) == 0:
		return "", errors.New("no rule of the test has a heartbeat, so that it takes no ping; write subject and data of an event")
	case e.Rule == "" && len(names) > 1:
		return "", fmt.Errorf("several rules have heartbeats; name that of the ping with rule: %s", strings.Join(names, ", or "))
	case e.Rule != "" && !slices.Contains(names, e.Rule):
		return "", fmt.Errorf("no rule %s of the test has a heartbeat, only %s", e.Rule, strings.Join(names, ", "))
	}
	return cmp.Or(e.Rule, names[0]), nil
}

// raised records an alert.
func (r *run) raised(a alerts.Alert, c *rules.Coverage) error {
	if len(r.alerts) == maxRows {
		return errTooMany
	}
	got := row{
		"at": r.when(a.Slot), "rule": a.Rule, "key": a.Key, "step": a.Step, "status": string(a.Status), "severity": string(a.Severity), "text": a.Text,
		"skipped_steps": strings.Join(a.SkippedSteps, ", "),
	}
	for name, value := range a.Labels {
		got["label "+name] = value
	}
	if a.Status == alerts.Firing {
		c.StepRaised(a.Rule, a.Step)
	}
	r.alerts = append(r.alerts, got)
	r.story.raised(a)
	return nil
}

// observed records ends of jobs and dead letters.
func (r *run) observed(m replay.Moment) {
	r.story.observed(m)
	switch m.Kind {
	case replay.Checked:
		if r.undetermined++; m.Check.Reason == "" {
			r.undetermined = 0
		} else if r.Until.IsZero() && r.undetermined > undeterminedMost {
			r.stop(fmt.Errorf("the test has no end: %d checks in a row were undetermined, the last of rule %s and key %s at %s: %s; write until, such as until: 24h, or give its events and lookups what the rule reads",
				undeterminedMost, m.Rule, m.Key, r.when(m.At), m.Check.Reason))
		}
	case replay.Ended:
		r.outcomes = append(r.outcomes, row{"at": r.when(m.At), "rule": m.Rule, "key": m.Key, "outcome": m.Outcome, "reason": m.Reason})
	case replay.Refused:
		r.letters = append(r.letters, row{"at": r.when(m.At), "rule": m.Rule, "subject": m.By, "reason": m.Reason})
	}
}

// when returns a time as the test writes it: since its start, or as a date.
func (t *Test) when(at time.Time) string {
	if t.dates || at.Before(t.Start) {
		return at.UTC().Format(time.RFC3339)
	}
	return document.Duration(at.Sub(t.Start)).String()
}
