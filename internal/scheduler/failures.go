package scheduler

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync"
	"time"

	"deadman/alerts"
	futurejobs "deadman/future_jobs"
)

// failingAfter is how long ticks of a rule may be behind before an alert is raised.
const failingAfter = time.Minute

// failures holds the rules with ticks that cannot be applied at the moment.
type failures struct {
	mu    sync.Mutex
	rules map[string]failedTicks // by the name of the rule
}

// failedTicks counts the failed attempts to apply the ticks of a rule after its cursor.
type failedTicks struct {
	ruleID   int32
	cursor   uint64
	attempts int
}

// Failing returns the names of the rules with ticks that cannot be applied at the moment, sorted.
func (t *Scheduler) Failing() []string {
	names := slices.Concat(t.starts.failing(), t.emits.failing())
	slices.Sort(names)
	return names
}

// failing returns the failing rules of the worker that still exist and that this node applies the ticks of.
func (w *worker) failing() (names []string) {
	w.failures.mu.Lock()
	defer w.failures.mu.Unlock()
	n := w.Shards.Count()
	if len(w.failures.rules) == 0 || n == 0 {
		return nil
	}
	_, all := w.Catalog.Scheduled()
	for _, s := range all {
		if w.failures.rules[s.Name()].attempts > 0 && w.Shards.Holds(shardOf(s, n)) {
			names = append(names, s.Name())
		}
	}
	return names
}

// note records whether the ticks of a rule fail.
func (f *failures) note(l *ruleTicks, fails bool) {
	before := f.attempts(l)
	f.mu.Lock()
	defer f.mu.Unlock()
	if fails {
		if f.rules == nil {
			f.rules = make(map[string]failedTicks)
		}
		f.rules[l.Name()] = failedTicks{l.RuleID(), l.cursor, before + 1}
	} else {
		delete(f.rules, l.Name())
	}
}

// attempts returns how many attempts of this node to apply the next ticks of a rule failed. Attempts before another node
// moved the cursor do not count.
func (f *failures) attempts(l *ruleTicks) int {
	f.mu.Lock()
	defer f.mu.Unlock()
	if past := f.rules[l.Name()]; past.ruleID == l.RuleID() && past.cursor == l.cursor {
		return past.attempts
	}
	return 0
}

// step applies the ticks of a rule that are due by now, and returns the time of its next tick or attempt. If they cannot
// be applied it raises an alert, unless one is open, and closes the open one when they can. The alert refers to the first
// of these ticks, so it is raised once for all nodes, attempts and restarts.
func (w *worker) step(ctx context.Context, l *ruleTicks, now time.Time) (next time.Time, err error) {
	first, _ := l.Next(l.after())
	behind := !first.IsZero() && now.Sub(first) > failingAfter
	next, err = w.apply(ctx, l, now)
	switch {
	case errors.Is(err, futurejobs.ErrCursorMoved), errors.Is(err, futurejobs.ErrRulesChanged), errors.Is(err, futurejobs.ErrJobDue), errors.As(err, new(quotaWait)), ctx.Err() != nil:
		return next, err // not caused by the rule, and nothing was applied
	case errors.Is(err, futurejobs.ErrPutOff) && !behind:
		return next, err
	case errors.Is(err, futurejobs.ErrPutOff): // reported by the alert; the node itself is healthy
		return next, errors.Join(err, w.Announce(ctx, failingAlert(l, first, err)))
	case err != nil:
		w.failures.note(l, true)
		if behind {
			return next, errors.Join(err, w.Announce(ctx, failingAlert(l, first, err)))
		}
		return next, err
	}
	w.failures.note(l, false)
	return next, w.reportRecovered(ctx, l)
}

// reportRecovered closes the open alert about the ticks of a rule. After an error the next attempt does so.
func (w *worker) reportRecovered(ctx context.Context, l *ruleTicks) error {
	if l.alertSince.IsZero() {
		return nil
	}
	a, raised, err := w.Cursors.ResolveSystemAlert(ctx, alerts.SystemAlert{
		Topic: failingTopic(l.Name()), Step: failingStep, Status: alerts.Resolved, Severity: alerts.Error, Since: l.alertSince,
		Text:   fmt.Sprintf("rule %s: schedule ticks are applied again; they were not from %s on", l.Name(), l.alertSince.UTC().Format(time.RFC3339)),
		Labels: map[string]string{"rule": l.Name()},
	})
	if err != nil {
		return fmt.Errorf("close the alert about ticks: %w", err)
	}
	l.alertSince = time.Time{}
	if raised {
		w.Observer.Alerted(a)
	}
	return nil
}

// failingStep is the step of alerts about ticks that cannot be applied.
const failingStep = "ticks"

// failingTopic is the topic of such alerts of a rule.
func failingTopic(rule string) string { return "rule/" + rule }

// failingAlert returns the alert that the ticks of a rule cannot be applied, from the first of them on. It is the open one if
// one is open, and open from now on otherwise, also if the database does not answer.
func failingAlert(l *ruleTicks, first time.Time, why error) alerts.SystemAlert {
	if l.alertSince.IsZero() {
		l.alertSince = first
	}
	return alerts.SystemAlert{
		Topic: failingTopic(l.Name()), Step: failingStep, Status: alerts.Firing, Severity: alerts.Error, Since: l.alertSince,
		Text: fmt.Sprintf("rule %s: schedule ticks cannot be applied from %s on; the last of them is applied afterwards: %.500s",
			l.Name(), l.alertSince.UTC().Format(time.RFC3339), strings.ToValidUTF8(why.Error(), "")),
		Labels: map[string]string{"rule": l.Name()}, UntilResolved: true,
	}
}
