package futurejobs

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"time"

	"deadman/alerts"
	"deadman/checks"
	"deadman/internal/failpoints"
)

// outageTracker opens an outage with the settlement of the jobs that it affects, and closes it when its source answers
// again.
type outageTracker struct {
	queue    Queue
	catalog  RuleReader
	clock    *Clock
	observer Observer
	failures *failures
	cache    outageCache
}

// record writes the outages of a settlement before it: a reader of an undetermined job then finds the outage
// that covers it.
func (t *outageTracker) record(ctx context.Context, batch []*task, held []HeldShard) error {
	for _, m := range outageHits(batch, held) {
		raised, err := t.queue.RecordOutage(ctx, m)
		if errors.Is(err, ErrNotHeld) {
			return nil // the settlement detects that for each job
		}
		if err != nil {
			return fmt.Errorf("write an outage: %w", err)
		}
		failpoints.Point("outage.met")
		for _, a := range raised {
			m.Outage.OpenedAt = a.Since
			t.observer.Alerted(a)
		}
		t.cache.isOpen(m.Outage)
	}
	return nil
}

// outageHits collects the outages in a batch of decisions, one hit for each source and rule.
func outageHits(batch []*task, held []HeldShard) []OutageHit {
	var all []OutageHit
	at := map[outageKey]int{}
	for _, v := range batch {
		if v.Outage == "" {
			continue
		}
		of := outageKey{v.rule.ID, v.Outage}
		i, known := at[of]
		if !known {
			i = len(all)
			at[of] = i
			rule := v.rule
			all = append(all, OutageHit{
				Held: held, RuleSet: v.ruleSet,
				Outage: Outage{Source: v.Outage, RuleID: rule.ID, Version: rule.Version, Reason: v.Reason},
				Alert:  func(o Outage) alerts.Alert { return o.RuleAlert(rule, alerts.Undetermined, o.OpenedAt) },
			})
		}
		if v.Repeated {
			all[i].Repeated++
		} else {
			all[i].Outage.Jobs++
		}
	}
	return all
}

// Intervals for closing outages.
const (
	outageEvery = 5 * time.Second
	outageSlack = time.Minute // between the due time of a check and its settlement
	reachMost   = time.Second // timeout for reaching a source
)

// run closes outages that are over, every outageEvery until ctx ends.
func (t *outageTracker) run(ctx context.Context) {
	tick := time.NewTicker(outageEvery)
	defer tick.Stop()
	for {
		select {
		case <-ctx.Done():
			return
		case <-tick.C:
			if err := t.closeRecovered(ctx); ctx.Err() == nil { // the end of the node cuts it off, which is no failure
				t.failures.set("outages", err)
			}
		}
	}
}

// closeRecovered reads the open outages, and closes each outage
//
//  1. with a source that answered this node,
//  2. with a stream that is read past the last affected job,
//  3. that affected no job for outageIdle, and has a source that is reachable or not used
//     any more. A handler cannot be tried without a check.
func (t *outageTracker) closeRecovered(ctx context.Context) error {
	open, err := t.queue.Outages(ctx)
	if err != nil || ctx.Err() != nil {
		return err
	}
	t.cache.replace(open, t.clock.Now())
	if len(open) == 0 {
		return nil
	}
	through, err := t.queue.ReadThrough(ctx)
	if err != nil {
		return err
	}
	clampToNow(through, t.clock.Now())
	var errs []error // an error of one outage does not stop the others
	tried := reachProbes{}
	for _, o := range open {
		rule, err := t.catalog.Rule(ctx, o.RuleID, o.Version)
		if err == nil && t.isOver(ctx, o, rule, through, tried) {
			err = t.close(ctx, o, rule)
		}
		errs = append(errs, err)
	}
	return errors.Join(errs...)
}

func (t *outageTracker) isOver(ctx context.Context, o Outage, rule *Rule, through map[string]StreamProgress, tried reachProbes) bool {
	if rule.Deleted || t.cache.hasAnswered(o) {
		return true
	}
	if stream, is := strings.CutPrefix(o.Source, streamPrefix); is {
		return through[stream].Through.After(o.SeenAt)
	}
	if t.clock.Now().Sub(o.SeenAt) < rule.outageIdle() {
		return false
	}
	if isHandler(o.Source) || rule.Finder == nil || rule.Finder.Source() != o.Source {
		return true
	}
	return tried.reach(ctx, rule.Finder)
}

// close closes an outage with an alert.
func (t *outageTracker) close(ctx context.Context, o Outage, rule *Rule) error {
	raised, _, err := t.queue.CloseOutage(ctx, o, func(o Outage) alerts.Alert {
		return o.RuleAlert(rule, alerts.Resolved, t.clock.Now())
	})
	for _, a := range raised {
		t.observer.Alerted(a)
	}
	return err
}

// reachProbes caches whether sources are reachable, each tried once for all its rules.
type reachProbes map[string]bool

func (t reachProbes) reach(ctx context.Context, f checks.Finder) bool {
	source := f.Source()
	if _, known := t[source]; !known {
		ctx, cancel := context.WithTimeout(ctx, reachMost)
		defer cancel()
		t[source] = f.Reach(ctx) == nil
	}
	return t[source]
}
