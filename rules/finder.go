package rules

import (
	"context"
	"fmt"
	"time"

	"deadman/checks"
	"deadman/checks/lookup"
)

// finder asks the source of a rule's lookup about the entities of checks.
type finder struct {
	question *lookupQuery
	source   Source
	timeout  time.Duration
}

var _ checks.Finder = (*finder)(nil)

// Source names what is asked.
func (f *finder) Source() string { return f.question.source }

// Enter takes a place in the line before the source.
func (f *finder) Enter() bool { return f.source.Enter() }

// Reach reports why the source can't be reached.
func (f *finder) Reach(ctx context.Context) error { return f.source.Reach(ctx) }

// Find asks about the checks whose question can be put, and about the others says why not. The
// source is told when that is none of them: it gives the place in the line back.
func (f *finder) Find(ctx context.Context, all []checks.Check) []checks.Finding {
	found := make([]checks.Finding, len(all))
	asks, of := make([]lookup.KeyQuery, 0, len(all)), make([]int, 0, len(all))
	for i, c := range all {
		ask, err := f.question.ask(waitOfCheck(c).scope)
		if err != nil {
			found[i].Err = fmt.Errorf("lookup: %w", err)
			continue
		}
		asks, of = append(asks, ask), append(of, i)
	}
	for i, one := range f.source.Ask(ctx, f.timeout, f.question.Question, asks) {
		found[of[i]] = one
	}
	return found
}
