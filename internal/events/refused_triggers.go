package events

import (
	"context"
	"fmt"
	"strings"
	"time"

	"deadman/alerts"
	futurejobs "deadman/future_jobs"
)

// refusedMost is the number of trigger events of a rule that are refused one after another before an alert reports it.
const refusedMost = 3

// refusedTriggers has the rules whose last trigger events were refused. The number of dead letters alone does not show that a
// rule with few events starts no jobs any more, as after its producer renamed a field.
type refusedTriggers map[string]refusedRun

// refusedRun is a row of refused trigger events of a rule.
type refusedRun struct {
	events  int64
	since   time.Time // of the first event
	reason  string    // of the last event
	alerted bool
}

// note counts the refused trigger events of an applied batch by rule, from the last one on that was accepted, and returns the
// alerts about new rows of refusedMost events.
func (r refusedTriggers) note(b futurejobs.EffectBatch) (due []alerts.SystemAlert) {
	if len(b.DeadLetters) == 0 && len(r) == 0 {
		return nil
	}
	accepted := make(map[string]uint64) // the last sequence by rule
	for _, e := range b.Effects {
		if starts(e.Action) && e.Event != nil {
			accepted[e.Rule.Name] = max(accepted[e.Rule.Name], e.Event.Seq)
			delete(r, e.Rule.Name)
		}
	}
	for _, l := range b.DeadLetters {
		if l.Part != futurejobs.Triggers {
			continue
		}
		for _, rule := range l.Rules() {
			if max(l.Event.Seq, l.LastSeq) < accepted[rule] {
				continue
			}
			run := r[rule]
			if run.events == 0 {
				run.since = l.Event.At
			}
			run.events += max(l.Summarized, 1)
			run.reason = l.Reason
			r[rule] = run
		}
	}
	for rule, run := range r {
		if run.events >= refusedMost && !run.alerted {
			due = append(due, run.alert(rule))
		}
	}
	return due
}

// starts reports whether an action is that of a rule's trigger.
func starts(a futurejobs.Action) bool {
	switch a.(type) {
	case futurejobs.Start, futurejobs.StartExpired, futurejobs.Heartbeat:
		return true
	}
	return false
}

// alert returns the alert about a row. Rows of a rule that begin in the same hour have one alert.
func (r refusedRun) alert(rule string) alerts.SystemAlert {
	return alerts.SystemAlert{
		Topic: "rule/" + rule, Step: "trigger-refused", Status: alerts.Firing, Severity: alerts.Error, Since: r.since.Truncate(time.Hour), UntilClosed: true,
		Labels: map[string]string{"rule": rule},
		Text: fmt.Sprintf("rule %s: %d trigger events in a row were refused, the first of them at %s, so no job watches them: %.300s; correct the sender or the rule, "+
			"retry or drop the dead letters (deadman dead-letter list --rule %s), then close this alert", rule, r.events, r.since.UTC().Format(time.RFC3339), strings.ToValidUTF8(r.reason, ""), rule),
	}
}

// alertRefused raises the alerts about rows of refused events. One that cannot be written is raised with the next batch.
func (t *streamReader) alertRefused(ctx context.Context, b futurejobs.EffectBatch) {
	for _, a := range t.refused.note(b) {
		rule := a.Labels["rule"]
		if err := t.in.Announce(ctx, a); err != nil {
			t.in.Log.Warn("an alert about refused trigger events could not be written, retrying", "rule", rule, "err", err)
			continue
		}
		run := t.refused[rule]
		run.alerted = true
		t.refused[rule] = run
	}
}
