package rules

import (
	"context"
	"fmt"
	"strings"
	"time"

	"deadman/internal/configfile"
	"deadman/rules/document"

	"deadman/checks"
	"deadman/checks/lookup"
	"deadman/internal/access"
	"deadman/internal/calendars"
)

// Sources are the sources that rules may query, as the operator defined them. Implementations are safe for concurrent
// use.
type Sources interface {
	// Source returns the source of a name, if it exists. A source that was replaced stays in use by rules until the next
	// refresh of the catalog, which Catalog.Stale requests.
	Source(name string) (Source, bool)
	// Names returns the names of all sources, sorted.
	Names() []string
}

// Source is queried about many entities at once. Implementations are safe for concurrent use.
type Source interface {
	// Enter takes a place in the queue of the source; false: the queue is full.
	Enter() bool
	// Query queries up to lookup.BatchMost entities, for up to timeout from its beginning, and releases the place in the
	// queue. Without asks it only releases the place. Finding i is of queries[i].
	Query(ctx context.Context, timeout time.Duration, q lookup.Question, queries []lookup.KeyQuery) []checks.Finding
	// Verify is lookup.Client.Verify.
	Verify(ctx context.Context, q lookup.Question, params int) ([]lookup.Column, error)
	// Reach returns why the source cannot be reached, without a query about any entity.
	Reach(ctx context.Context) error
}

// environment holds the definitions that rules refer to outside of their documents.
type environment struct {
	calendars calendars.Set
	sources   Sources          // nil: unknown
	handlers  *checks.Handlers // nil: unknown
	bounds    *access.Bounds   // of the rule; nil: unlimited
	cache     *ruleCache       // holds the compiled rules; nil: only the caller does
	checks    *checkCosts      // bounds what checks of tenants cost over time; nil: nothing does
	// ended is closed once the caller of a compilation has left; nil: the caller stays.
	ended <-chan struct{}
}

// source returns the named source, or an undefinedSource.
func (o environment) source(name string) Source {
	if o.sources == nil {
		return undefinedSource{name: name}
	}
	if s, ok := o.sources.Source(name); ok {
		return s
	}
	return undefinedSource{name: name, known: askable(o.sources.Names(), o.bounds), bound: o.bounds != nil}
}

// sourceOf returns the source of a document's lookup; nil if it has none, or an undefined one.
func (o environment) sourceOf(d document.Document) Source {
	if name := d.Lookup.SourceName(); name != "" && o.sources != nil {
		if s, ok := o.sources.Source(name); ok {
			return s
		}
	}
	return nil
}

// undefinedSource replaces a source that is not defined on this node.
type undefinedSource struct {
	name  string
	known []string
	bound bool // others may exist that the rule must not know of
}

var _ Source = undefinedSource{}

// Error names the missing source, and the defined ones.
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

// Enter needs no place: no source is queried.
func (u undefinedSource) Enter() bool { return true }

// Query returns an outage for each query.
func (u undefinedSource) Query(_ context.Context, _ time.Duration, _ lookup.Question, queries []lookup.KeyQuery) []checks.Finding {
	found := make([]checks.Finding, len(queries))
	for i := range found {
		found[i].Err = &checks.Outage{Source: u.name, Err: u}
	}
	return found
}

// Verify returns the error.
func (u undefinedSource) Verify(context.Context, lookup.Question, int) ([]lookup.Column, error) {
	return nil, u
}

// Reach returns the error.
func (u undefinedSource) Reach(context.Context) error { return u }
