package futurejobs

import (
	"context"
	"errors"
	"slices"
	"sync"
	"time"

	"deadman/checks"
)

// outageCache is a sweeper's view of open outages and of the last answers of sources.
type outageCache struct {
	mu   sync.Mutex
	open map[outageKey]openOutage
	last map[outageKey]answered
}

// openOutage is what a node knows of an open outage.
type openOutage struct {
	openedAt time.Time // zero: another node opened it, and this node has not read it yet
	works    bool      // the source has answered since the opening
}

type outageKey struct {
	rule   int32
	source string
}

// answered is the last answer of a source to a rule, with or without a known outage.
type answered struct {
	at    time.Time
	works bool
}

// answersKept is how long the last answer of a source without an open outage is kept: longer than a failed check
// waits for the settlement that opens the outage.
const answersKept = 10 * time.Minute

// sourceOf returns the key of a source's last answer. All handlers of a rule share one key: a check does not report
// the handler that it called.
func sourceOf(of outageKey) outageKey {
	if isHandler(of.source) {
		of.source = checks.HandlerSource("")
	}
	return of
}

// replace sets the outages that are open in the database at now. An answer counts if it arrived after the opening of
// an outage, even before this node read the outage. It does not count for a later outage of the same source.
func (o *outageCache) replace(open []Outage, now time.Time) {
	o.mu.Lock()
	defer o.mu.Unlock()
	before := o.open
	o.open = make(map[outageKey]openOutage, len(open))
	for _, one := range open {
		of := outageKey{one.RuleID, one.Source}
		last, known := o.last[sourceOf(of)], before[of]
		o.open[of] = openOutage{one.OpenedAt, known.works && known.openedAt.Equal(one.OpenedAt) || last.works && last.at.After(one.OpenedAt)}
	}
	for of, last := range o.last {
		if now.Sub(last.at) > answersKept {
			delete(o.last, of)
		}
	}
}

// isOpen adds an outage that affected a job of this node; its OpenedAt is zero if it was open before. A success after the
// failed check counts, even before the outage was written.
func (o *outageCache) isOpen(one Outage) {
	o.mu.Lock()
	defer o.mu.Unlock()
	if o.open == nil {
		o.open = make(map[outageKey]openOutage)
	}
	of := outageKey{one.RuleID, one.Source}
	if one.OpenedAt.IsZero() {
		one.OpenedAt = o.open[of].openedAt
	}
	o.open[of] = openOutage{one.OpenedAt, o.last[sourceOf(of)].works}
}

// noteFindings records the answer of a source. An error of a single key does not count: the source may not have been
// queried for it.
func (o *outageCache) noteFindings(r *Rule, found []checks.Finding, now time.Time) {
	fails := slices.ContainsFunc(found, func(f checks.Finding) bool { return isOutage(f.Err) })
	if !fails && !slices.ContainsFunc(found, func(f checks.Finding) bool { return f.Err == nil }) {
		return
	}
	o.note(outageKey{r.ID, r.Finder.Source()}, !fails, now)
}

// noteAnswer records the result of an asynchronous handler. A timeout counts as a failure.
func (o *outageCache) noteAnswer(r *Rule, err error, now time.Time) {
	works := !isOutage(err) && !errors.Is(err, context.DeadlineExceeded)
	o.note(outageKey{r.ID, checks.HandlerSource("")}, works, now)
}

// note records whether a source works, also for an outage that this node does not know yet.
func (o *outageCache) note(of outageKey, works bool, now time.Time) {
	o.mu.Lock()
	defer o.mu.Unlock()
	if o.last == nil {
		o.last = map[outageKey]answered{}
	}
	o.last[of] = answered{now, works}
	for key, one := range o.open {
		if key.rule == of.rule && sourceOf(key) == of {
			one.works = works
			o.open[key] = one
		}
	}
}

// attribute wraps the error of a check if its rule has an open outage.
func (o *outageCache) attribute(r *Rule, err error) error {
	o.mu.Lock()
	defer o.mu.Unlock()
	for of := range o.open {
		if of.rule == r.ID {
			return outageError{err}
		}
	}
	return err
}

func (o *outageCache) hasAnswered(one Outage) bool {
	o.mu.Lock()
	defer o.mu.Unlock()
	return o.open[outageKey{one.RuleID, one.Source}].works
}

// outageError wraps a check error if an open outage of its rule already covers the jobs that it affected before.
type outageError struct{ error }

func (s outageError) Unwrap() error { return s.error }

func isCoveredByOutage(err error) bool {
	var covered outageError
	return errors.As(err, &covered)
}
