package rules

import (
	"context"
	"fmt"
	"strings"
	"time"

	"deadman/internal/configfile"

	"deadman/checks"
	"deadman/checks/lookup"
	"deadman/internal/access"
	"deadman/internal/calendars"
)

// Sources are what rules may look up in, as the operator defined them. Implementations are safe
// for concurrent use.
type Sources interface {
	// Source returns the source of a name, if there is one. What it answers for a name stays
	// as it is: a rule keeps the source that it took.
	Source(name string) (Source, bool)
	// Names are those that there are, sorted.
	Names() []string
}

// Source is asked about many entities at once. Implementations are safe for concurrent use.
type Source interface {
	// Enter takes a place in the line before the source; false: the line is full.
	Enter() bool
	// Ask asks about up to lookup.BatchMost entities, for up to timeout from when it begins to,
	// and gives the place in the line back. Without asks it only does that. Finding i is of
	// asks[i].
	Ask(ctx context.Context, timeout time.Duration, q lookup.Question, asks []lookup.KeyQuery) []checks.Finding
	// Verify is that of lookup.Client.
	Verify(ctx context.Context, q lookup.Question, params int) ([]lookup.Column, error)
	// Reach reports why the source can't be reached, without asking it about anybody.
	Reach(ctx context.Context) error
}

// environment is what rules name that is not in their document.
type environment struct {
	calendars calendars.Set
	sources   Sources          // nil: nobody knows
	handlers  *checks.Handlers // nil: nobody knows
	bounds    *access.Bounds   // of the rule; nil: there are none
	cache     *ruleCache       // that holds what is compiled; nil: its caller alone does
	// ended is closed once nobody waits any more for what is compiled; nil: it is waited for.
	ended <-chan struct{}
}

// source is the source of a name, or one that nobody can find anything out by.
func (o environment) source(name string) Source {
	if o.sources == nil {
		return undefinedSource{name: name}
	}
	if s, ok := o.sources.Source(name); ok {
		return s
	}
	return undefinedSource{name: name, known: askable(o.sources.Names(), o.bounds), bound: o.bounds != nil}
}

// undefinedSource stands in the place of a source that is not defined on this node.
type undefinedSource struct {
	name  string
	known []string
	bound bool // there may be others, of which the rule is not told
}

var _ Source = undefinedSource{}

// Error says what is missing, and what there is.
func (u undefinedSource) Error() string {
	switch near := configfile.Suggest(u.name, u.known); {
	case near != "":
		return fmt.Sprintf("source %q is not defined on this node; did you mean %q?", u.name, near)
	case len(u.known) > 0:
		return fmt.Sprintf("source %q is not defined on this node, only %s", u.name, clip(strings.Join(u.known, ", "), 200))
	}
	if u.bound {
		return fmt.Sprintf("source %q is not defined on this node; have it defined in the file of --sources", u.name)
	}
	return fmt.Sprintf("source %q is not defined on this node, nor is any other; define it in the file of --sources", u.name)
}

// Unwrap makes it a lookup.ErrUndefined.
func (u undefinedSource) Unwrap() error { return lookup.ErrUndefined }

func (u undefinedSource) Enter() bool { return true }

func (u undefinedSource) Ask(_ context.Context, _ time.Duration, _ lookup.Question, asks []lookup.KeyQuery) []checks.Finding {
	found := make([]checks.Finding, len(asks))
	for i := range found {
		found[i].Err = &checks.Outage{Source: u.name, Err: u}
	}
	return found
}

func (u undefinedSource) Verify(context.Context, lookup.Question, int) ([]lookup.Column, error) {
	return nil, u
}

func (u undefinedSource) Reach(context.Context) error { return u }
