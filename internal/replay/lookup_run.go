package replay

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"

	"deadman/checks"
	"deadman/checks/lookup"
	futurejobs "deadman/future_jobs"
	"deadman/rules"
)

// lookupRun answers the lookups of one replay.
type lookupRun struct {
	sources []*replayedSource // by name

	at       time.Time // of the check
	key      string    // of its job
	answered bool      // a source answered it
}

var _ rules.Sources = (*lookupRun)(nil)

func newLookupRun(l *Lookups) *lookupRun {
	run := &lookupRun{}
	if l != nil {
		for _, name := range slices.Sorted(maps.Keys(l.sources)) {
			run.sources = append(run.sources, &replayedSource{l.sources[name], name, run, make(map[lookupMatch]lookupAnswer)})
		}
	}
	return run
}

// begin sets the check that a source is queried for.
func (l *lookupRun) begin(j futurejobs.Job, at time.Time) { l.at, l.key, l.answered = at, j.Key, false }

// Source implements rules.Sources.
func (l *lookupRun) Source(name string) (rules.Source, bool) {
	i, ok := slices.BinarySearchFunc(l.sources, name, func(s *replayedSource, name string) int { return strings.Compare(s.name, name) })
	if !ok {
		return nil, false
	}
	return l.sources[i], true
}

// Names implements rules.Sources.
func (l *lookupRun) Names() (names []string) {
	for _, s := range l.sources {
		names = append(names, s.name)
	}
	return names
}

// observe takes the records in an event. refuse receives the error of a mapping.
func (l *lookupRun) observe(e futurejobs.Event, refuse func(reason string)) {
	for _, s := range l.sources {
		for _, reader := range s.readers {
			record, ok, err := reader.Read(e)
			switch {
			case err != nil:
				refuse(fmt.Sprintf("no answer of source %s: %v", s.name, err))
			case ok:
				s.seen[newLookupMatch(record.Key, record.Query)] = lookupAnswer{e.At, checks.Finding{Value: record.Found}}
			}
		}
	}
}

// reads reports whether the answers of a source come from events on a subject.
func (l *lookupRun) reads(subject string) bool {
	return slices.ContainsFunc(l.sources, func(s *replayedSource) bool {
		return slices.ContainsFunc(s.readers, func(r *rules.RecordReader) bool { return r.Takes(subject) })
	})
}

// replayedSource is a source of past answers.
type replayedSource struct {
	*lookupAnswers
	name string
	run  *lookupRun
	seen map[lookupMatch]lookupAnswer // the latest of the events
}

// Enter implements rules.Source.
func (s *replayedSource) Enter() bool { return true }

// Query implements rules.Source. All queries are for the check that the replay has begun.
func (s *replayedSource) Query(_ context.Context, _ time.Duration, _ lookup.Question, queries []lookup.KeyQuery) []checks.Finding {
	found := make([]checks.Finding, len(queries))
	for i, q := range queries {
		found[i] = s.find(q)
		outage := (*checks.Outage)(nil)
		s.run.answered = s.run.answered || !errors.As(found[i].Err, &outage)
	}
	return found
}

// find returns the answer to a query: of those that match it, the latest. Of the same time, an answer from an event
// precedes a given one, and the one that matches fewer lookups the other.
func (s *replayedSource) find(q lookup.KeyQuery) checks.Finding {
	values, err := rules.QueryValues(q)
	if err != nil {
		return checks.Finding{Err: err}
	}
	exact := newLookupMatch(s.run.key, values)
	var latest *lookupAnswer
	for _, m := range []lookupMatch{exact, {query: exact.query}, {key: exact.key}, {}} {
		if a, ok := s.seen[m]; ok && (latest == nil || a.from.After(latest.from)) {
			latest = &a
		}
	}
	for _, m := range []lookupMatch{exact, {query: exact.query}, {key: exact.key}, {}} {
		if a := lastBy(s.given[m], s.run.at); a != nil && (latest == nil || a.from.After(latest.from)) {
			latest = a
		}
	}
	if latest == nil {
		return checks.Finding{Err: fmt.Errorf("source %s has no past answer for key %s, query %s, at %s", s.name, s.run.key, strings.Join(values, ", "), s.run.at.UTC().Format(time.RFC3339))}
	}
	return latest.Finding
}

// lastBy returns the last of the answers, in order of time, that holds at a time; nil: none does yet.
func lastBy(answers []lookupAnswer, at time.Time) *lookupAnswer {
	later, _ := slices.BinarySearchFunc(answers, at, func(a lookupAnswer, at time.Time) int {
		if a.from.After(at) {
			return 1
		}
		return -1
	})
	if later == 0 {
		return nil
	}
	return &answers[later-1]
}

// Verify implements rules.Source. The columns are unknown.
func (s *replayedSource) Verify(context.Context, lookup.Question, int) ([]lookup.Column, error) {
	return nil, nil
}

// Reach implements rules.Source.
func (s *replayedSource) Reach(context.Context) error { return nil }
