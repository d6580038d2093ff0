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

// failingAfter is how long ticks of a rule can be behind before that is said.
const failingAfter = time.Minute

// failures are the rules of which ticks cannot be applied at the moment.
type failures struct {
	mu    sync.Mutex
	rules map[string]bool
}

// Failing are the rules of which ticks cannot be applied at the moment, by name.
func (t *Scheduler) Failing() []string {
	names := slices.Concat(t.waits.failing(), t.emits.failing())
	slices.Sort(names)
	return names
}

// failing are those of the worker's rules that are still there.
func (w *worker) failing() (names []string) {
	if !w.Shards.Holds(shard) {
		return nil
	}
	w.failures.mu.Lock()
	defer w.failures.mu.Unlock()
	if len(w.failures.rules) == 0 {
		return nil
	}
	_, all := w.Book.Scheduled()
	for _, s := range all {
		if w.failures.rules[s.Name()] {
			names = append(names, s.Name())
		}
	}
	return names
}

// note takes in whether the ticks of a rule can be applied, and returns whether they could before.
func (f *failures) note(rule string, fails bool) (failed bool) {
	f.mu.Lock()
	defer f.mu.Unlock()
	failed = f.rules[rule]
	if fails {
		if f.rules == nil {
			f.rules = make(map[string]bool)
		}
		f.rules[rule] = true
	} else {
		delete(f.rules, rule)
	}
	return failed
}

// step applies the ticks of a rule that are due by now. That they can't be is said, once however many
// nodes, tries and restarts there are, since it is said of the first of them; and so is that they
// can be again.
func (w *worker) step(ctx context.Context, l *ruleTicks, now time.Time) error {
	first, _ := l.Next(l.after())
	behind := !first.IsZero() && now.Sub(first) > failingAfter
	err := w.apply(ctx, l, now)
	switch {
	case errors.Is(err, futurejobs.ErrCursorMoved), errors.Is(err, futurejobs.ErrRulesChanged), errors.Is(err, futurejobs.ErrJobDue), ctx.Err() != nil:
		return err // that is not the rule's
	case errors.Is(err, futurejobs.ErrPutOff) && !behind:
		return err
	case errors.Is(err, futurejobs.ErrPutOff): // people learn of it by the alert; the node itself is fine
		return errors.Join(err, w.Announce(ctx, failingAlert(l.Name(), first, err)))
	case err != nil:
		w.failures.note(l.Name(), true)
		if behind {
			return errors.Join(err, w.Announce(ctx, failingAlert(l.Name(), first, err)))
		}
		return err
	}
	if failed := w.failures.note(l.Name(), false); failed || behind {
		w.reportRecovered(ctx, l.Name(), first)
	}
	return nil
}

// reportRecovered says that the ticks of a rule are applied, if it was said that they can't be. The ticks are
// applied whether or not that can be said.
func (w *worker) reportRecovered(ctx context.Context, rule string, first time.Time) {
	a, said, err := w.Cursors.ResolveSystemAlert(ctx, alerts.SystemAlert{
		Topic: "rule/" + rule, Step: failingStep, Status: alerts.Resolved, Severity: alerts.Error, Since: first,
		Text:   fmt.Sprintf("rule %s: its ticks are applied again; they were not from %s on", rule, first.UTC().Format(time.RFC3339)),
		Labels: map[string]string{"rule": rule},
	})
	if err != nil {
		w.Log.Warn("it cannot be said that ticks are applied again", "rule", rule, "err", err)
	} else if said {
		w.Observer.Alerted(a)
	}
}

// failingStep is the step of the alerts about ticks that cannot be applied.
const failingStep = "ticks"

// failingAlert says that the ticks of a rule can't be applied, from the first of them on.
func failingAlert(rule string, first time.Time, why error) alerts.SystemAlert {
	return alerts.SystemAlert{
		Topic: "rule/" + rule, Step: failingStep, Status: alerts.Firing, Severity: alerts.Error, Since: first,
		Text: fmt.Sprintf("rule %s: its ticks cannot be applied, from %s on; they are made up for once they can: %.500s",
			rule, first.UTC().Format(time.RFC3339), strings.ToValidUTF8(why.Error(), "")),
		Labels: map[string]string{"rule": rule},
	}
}
