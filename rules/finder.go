package rules

import (
	"context"
	"fmt"
	"time"

	"deadman/checks"
	"deadman/checks/lookup"
)

// finder queries the source of a rule's lookup about the entities of checks.
type finder struct {
	question *lookupQuery
	source   Source
	timeout  time.Duration
}

var _ checks.Finder = (*finder)(nil)

// Source returns the name of the source.
func (f *finder) Source() string { return f.question.source }

// Enter takes a place in the queue of the source.
func (f *finder) Enter() bool { return f.source.Enter() }

// Reach returns why the source cannot be reached.
func (f *finder) Reach(ctx context.Context) error { return f.source.Reach(ctx) }

// Find queries the source about the checks with a valid question, and returns an error for the others. The source is
// also called if no check has a valid question: it releases the place in the queue.
func (f *finder) Find(ctx context.Context, all []checks.Check) []checks.Finding {
	found := make([]checks.Finding, len(all))
	queries, of := make([]lookup.KeyQuery, 0, len(all)), make([]int, 0, len(all))
	for i, c := range all {
		query, err := f.question.keyQuery(contextOfCheck(c).scope)
		if err != nil {
			found[i].Err = fmt.Errorf("lookup: %w", err)
			continue
		}
		queries, of = append(queries, query), append(of, i)
	}
	for i, one := range f.source.Query(ctx, f.timeout, f.question.Question, queries) {
		found[of[i]] = one
	}
	return found
}
