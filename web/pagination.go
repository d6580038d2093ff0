package web

import (
	"context"
	"time"

	"deadman/alerts"
	futurejobs "deadman/future_jobs"
)

// Reader is what there is to read. The store implements it. What is not there is
// futurejobs.ErrNotFound, and a cursor of another list futurejobs.ErrBadCursor.
// Implementations are safe for concurrent use.
type Reader interface {
	OutcomeReader
	// Jobs returns pending jobs, next due first.
	Jobs(ctx context.Context, f futurejobs.Filter) (futurejobs.Page[futurejobs.ListedJob], error)
	// Job returns the pending job of a rule and a key.
	Job(ctx context.Context, rule, key string) (futurejobs.ListedJob, error)
	// RuleJobs counts what is waited for, by the id of the rule. It reads all pending jobs.
	RuleJobs(ctx context.Context) (map[int32]futurejobs.RuleJobs, error)
	// History returns ended jobs, newest first.
	History(ctx context.Context, f futurejobs.Filter) (futurejobs.Page[futurejobs.EndedJob], error)
	// Alerts returns what was said, newest first.
	Alerts(ctx context.Context, f futurejobs.Filter) (futurejobs.Page[futurejobs.ListedAlert], error)
	// Alert returns one alert.
	Alert(ctx context.Context, id alerts.ID) (futurejobs.ListedAlert, error)
	// DeadLetters returns events that could not be taken in, newest first.
	DeadLetters(ctx context.Context, f futurejobs.Filter) (futurejobs.Page[futurejobs.DeadLetter], error)
	// DeadLetter returns one of them.
	DeadLetter(ctx context.Context, id int64) (futurejobs.DeadLetter, error)
	// LetterReasons counts the newest of them by what refused them, and why.
	LetterReasons(ctx context.Context, f futurejobs.Filter) (futurejobs.DeadLetterReasons, error)
	// Nodes returns the live nodes.
	Nodes(ctx context.Context) ([]futurejobs.Node, error)
	// Leases returns all shards, in order.
	Leases(ctx context.Context) ([]futurejobs.Lease, error)
	// OldestDues returns the slot of the pending job that is due first in each shard that has one.
	OldestDues(ctx context.Context) (map[int16]time.Time, error)
	// ListedOutages returns outages, newest first.
	ListedOutages(ctx context.Context, f futurejobs.Filter) (futurejobs.Page[futurejobs.ListedOutage], error)
}

// Page is one page of a list as it goes out.
type Page[T any] struct {
	Items []T    `json:"items" nullable:"false"`
	Next  string `json:"next,omitempty" doc:"The cursor of the next page; absent: that was all."`
}

// pageOf turns a page of what is stored into one of what is shown.
func pageOf[S, T any](p futurejobs.Page[S], show func(S) T) Page[T] {
	out := Page[T]{Items: make([]T, len(p.Items)), Next: p.Next}
	for i, item := range p.Items {
		out.Items[i] = show(item)
	}
	return out
}

// namedListIn is which part of a list is asked for whose items are told apart by their names.
type namedListIn struct {
	Limit  int        `query:"limit" minimum:"1" maximum:"500" default:"50" doc:"How many items the page has at most."`
	Cursor identifier `query:"cursor" doc:"Where the page before ended: its next. Leave it out for the first page."`
}

// pageOfNamed is a page of all that there is, which is in the order of its names.
func pageOfNamed[T any](in *namedListIn, all []T, name func(T) string) Page[T] {
	page := Page[T]{Items: []T{}}
	for _, item := range all {
		switch {
		case name(item) <= string(in.Cursor):
		case len(page.Items) == in.Limit:
			page.Next = name(page.Items[in.Limit-1])
			return page
		default:
			page.Items = append(page.Items, item)
		}
	}
	return page
}
