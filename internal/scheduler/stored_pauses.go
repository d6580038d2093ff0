package scheduler

import (
	"errors"
	"math/rand/v2"
	"slices"
	"time"

	futurejobs "deadman/future_jobs"
)

// failureMemory is how long a failure lasts after the pause of its rule, unless the rule succeeds before. A webhook that fails at
// each attempt is reported once: between two attempts the rule has nothing to do.
const failureMemory = time.Minute

// pausing is a rule that failed, or whose ticks wait for a quota.
type pausing struct {
	until time.Time
	span  time.Duration
	err   error
}

// pauses are the rules that pause, by id.
type pauses map[int32]pausing

// has reports whether a rule pauses.
func (p pauses) has(rule int32, now time.Time) bool { return p[rule].until.After(now) }

// conclude returns the pauses after a round, with those of the rules that failed in it, each longer than its last one, and the
// last errors of all rules that pause, or have neither succeeded since nor been without a failure for a while. A nil jitter is random.
func (p pauses) conclude(now time.Time, all []futurejobs.StoredRule, results roundResults, jitter func(time.Duration) time.Duration) (pauses, error) {
	if jitter == nil {
		jitter = rand.N[time.Duration]
	}
	next := make(pauses)
	var errs []error
	for _, rule := range all {
		id := rule.RuleID()
		of, known := p[id]
		switch err := results.failed[id]; {
		case err != nil:
			span := min(max(2*of.span, storedBackoff), storedMaxPause)
			of = pausing{until: now.Add(span/2 + jitter(span)), span: span, err: err}
		case !known:
			continue
		case !of.until.After(now):
			if results.succeeded[id] || of.err == nil || now.Sub(of.until) > failureMemory {
				continue
			}
			of.span = 0
		}
		next[id] = of
		errs = append(errs, of.err)
	}
	return next, errors.Join(errs...)
}

// failing returns the names of the rules that failed last, sorted.
func (p pauses) failing(all []futurejobs.StoredRule) (names []string) {
	for _, rule := range all {
		if p[rule.RuleID()].err != nil {
			names = append(names, rule.Name())
		}
	}
	slices.Sort(names)
	return names
}

// roundResults are the rules that failed and succeeded in a round, by id.
type roundResults struct {
	failed    map[int32]error
	succeeded map[int32]bool
}

// waitForQuotas makes rules wait, by id.
func (p pauses) waitForQuotas(now time.Time, waits map[int32]time.Duration) {
	for rule, span := range waits {
		if until := now.Add(span); p[rule].until.Before(until) {
			of := p[rule]
			of.until = until
			p[rule] = of
		}
	}
}
