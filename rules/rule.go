package rules

import (
	"fmt"
	"time"

	"deadman/alerts"
	"deadman/checks"
	futurejobs "deadman/future_jobs"
)

// Rule is one version of a rule, compiled. It is safe for concurrent use.
type Rule struct {
	document Document
	engine   futurejobs.Rule
	trigger  watch
	resolves []watch
	while    *expression // nil: not resolved is still not
	steps    []step
}

// watch is an event that a rule listens to.
type watch struct {
	subject string
	key     *expression
	cond    *expression // nil: every event
	since   *expression // nil: when the stream took the event in
	outcome checks.Outcome
}

type step struct {
	after    time.Duration
	name     string
	severity alerts.Severity
	text     *template // nil: a sentence made from the rule
}

// Document is what the rule was made from.
func (r *Rule) Document() Document { return r.document }

// Engine is what the engine has to know of the rule.
func (r *Rule) Engine() *futurejobs.Rule { return &r.engine }

// wanted reports whether the event is one that the watch is for.
func (w *watch) wanted(s scope) (bool, error) {
	if w.cond == nil {
		return true, nil
	}
	return w.cond.holds(s)
}

// begins is the wait that the event begins, if it does.
func (r *Rule) begins(e futurejobs.Event, b *body, shards int) (*futurejobs.Effect, error) {
	if !r.document.Enabled || !matches(r.trigger.subject, e.Subject) {
		return nil, nil
	}
	s := scope{event: b}
	wanted, err := r.trigger.wanted(s)
	if !wanted || err != nil {
		return nil, wrap("trigger", err)
	}
	key, err := r.trigger.key.keyOf(s)
	if err != nil {
		return nil, wrap("trigger", err)
	}
	since, err := r.since(e, s)
	if err != nil {
		return nil, wrap("trigger", err)
	}
	return &futurejobs.Effect{
		Rule: &r.engine, Kind: futurejobs.Start,
		Job: futurejobs.Job{
			Ref: r.ref(key, shards), Version: r.engine.Version, Since: since,
			FirstCheckAt: r.engine.Grid.Up(since.Add(r.steps[0].after)), Event: b.valid(),
		},
	}, nil
}

// since is when the wait began. An instant so far ahead that the first look would lie beyond
// the horizon is refused: nobody would notice that the job is never looked at.
func (r *Rule) since(e futurejobs.Event, s scope) (time.Time, error) {
	at := e.At.UTC().Truncate(time.Microsecond)
	if r.trigger.since == nil {
		return at, nil
	}
	since, err := r.trigger.since.instant(s)
	if err != nil {
		return time.Time{}, err
	}
	if horizon := r.engine.Limits.Horizon; since.After(at.Add(horizon)) {
		return time.Time{}, fmt.Errorf("since is %s, further ahead of the event than the horizon, %s", since.Format(time.RFC3339), Duration(horizon))
	}
	return since, nil
}

// ends is the wait that the event ends, if it does: by the first resolve that wants it. Those
// that can't be evaluated are returned as errors beside it.
func (r *Rule) ends(e futurejobs.Event, b *body, shards int) (*futurejobs.Effect, []error) {
	var failed []error
	s := scope{event: b}
	for i := range r.resolves {
		w := &r.resolves[i]
		if !matches(w.subject, e.Subject) {
			continue
		}
		wanted, err := w.wanted(s)
		var key string
		if wanted && err == nil {
			key, err = w.key.keyOf(s)
		}
		if err != nil {
			failed = append(failed, wrap(fmt.Sprintf("resolve[%d]", i), err))
			continue
		}
		if wanted {
			return &futurejobs.Effect{
				Rule: &r.engine, Kind: futurejobs.End, Outcome: w.outcome,
				Job: futurejobs.Job{Ref: r.ref(key, shards)},
			}, failed
		}
	}
	return nil, failed
}

func (r *Rule) ref(key string, shards int) futurejobs.Ref {
	return futurejobs.Ref{Shard: futurejobs.ShardOf(r.engine.Entity, key, shards), RuleID: r.engine.ID, Key: key}
}

// closes drafts the alert that closes what was said: as loud as the last thing said, so
// that whoever was called is told.
func (r *Rule) closes(step int, text string) alerts.Draft {
	d := alerts.Draft{
		Status: alerts.Resolved, Severity: r.engine.Loudest, Text: text, Labels: r.engine.Labels,
	}
	if at := min(step, len(r.steps)) - 1; at >= 0 {
		d.Severity, d.Step, d.StepIndex = r.steps[at].severity, r.steps[at].name, at
	}
	return d
}

func wrap(operation string, err error) error {
	if err == nil {
		return nil
	}
	return fmt.Errorf("%s: %w", operation, err)
}
