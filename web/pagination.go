package web

import (
	"context"
	"slices"
	"time"

	"deadman/alerts"
	futurejobs "deadman/future_jobs"
)

// Reader reads lists and single items. The store implements it. A missing item is futurejobs.ErrNotFound, and a cursor
// of another list futurejobs.ErrBadCursor. Implementations are safe for concurrent use.
type Reader interface {
	JobReader
	ScheduleReader
	PastReader
	AlertReader
	DeadLetterReader
	NodeReader
	OutageReader
}

// PastReader reads what rules did.
type PastReader interface {
	HistoryReader
	OutcomeReader
	StatisticsReader
	TickReader
}

// JobReader reads pending jobs.
type JobReader interface {
	// Jobs returns pending jobs, next due first.
	Jobs(ctx context.Context, f futurejobs.Filter) (futurejobs.Page[futurejobs.ListedJob], error)
	// JobCursor returns the cursor of the jobs that follow a job of a page, to end the page there.
	JobCursor(l futurejobs.ListedJob) string
	// Job returns the pending job of a rule and a key.
	Job(ctx context.Context, rule, key string) (futurejobs.ListedJob, error)
}

// HistoryReader reads ended jobs.
type HistoryReader interface {
	// History returns ended jobs, newest first.
	History(ctx context.Context, f futurejobs.Filter) (futurejobs.Page[futurejobs.EndedJob], error)
}

// AlertReader reads alerts.
type AlertReader interface {
	// Alerts returns alerts, newest first.
	Alerts(ctx context.Context, f futurejobs.Filter) (futurejobs.Page[futurejobs.ListedAlert], error)
	// CountOpenAlerts counts the open alerts that match a filter, by the fields of futurejobs.OpenAlerts and the value of a
	// label; empty: no label.
	CountOpenAlerts(ctx context.Context, f futurejobs.Filter, label string) ([]futurejobs.OpenAlerts, error)
	// Alert returns one alert.
	Alert(ctx context.Context, id alerts.ID) (futurejobs.ListedAlert, error)
}

// DeadLetterReader reads dead letters.
type DeadLetterReader interface {
	// DeadLetters returns dead letters, newest first.
	DeadLetters(ctx context.Context, f futurejobs.Filter) (futurejobs.Page[futurejobs.DeadLetter], error)
	// DeadLetter returns one dead letter.
	DeadLetter(ctx context.Context, id int64) (futurejobs.DeadLetter, error)
	// LetterReasons counts the newest dead letters by rule and reason.
	LetterReasons(ctx context.Context, f futurejobs.Filter) (futurejobs.DeadLetterReasons, error)
}

// OutageReader reads outages.
type OutageReader interface {
	// ListedOutages returns outages, newest first.
	ListedOutages(ctx context.Context, f futurejobs.Filter) (futurejobs.Page[futurejobs.ListedOutage], error)
}

// NodeReader reads the nodes and their shards.
type NodeReader interface {
	// Nodes returns the live nodes.
	Nodes(ctx context.Context) ([]futurejobs.Node, error)
	// Leases returns all shards, in order.
	Leases(ctx context.Context) ([]futurejobs.Lease, error)
	// OldestDues returns the slot of the first due pending job of each shard that has jobs.
	OldestDues(ctx context.Context) (map[int16]time.Time, error)
}

// Page is one page of a list, as the API returns it.
type Page[T any] struct {
	Items []T    `json:"items" nullable:"false" doc:"Items of the page."`
	Next  string `json:"next,omitempty" doc:"Cursor of the next page. Absent on the last page."`
}

// pageOf converts a page of stored items to one of the API's.
func pageOf[S, T any](p futurejobs.Page[S], show func(S) T) Page[T] {
	out := Page[T]{Items: make([]T, len(p.Items)), Next: p.Next}
	for i, item := range p.Items {
		out.Items[i] = show(item)
	}
	return out
}

// wholeListIn selects a page of a list that is read whole.
type wholeListIn struct {
	Limit  int        `query:"limit" minimum:"1" maximum:"500" default:"50" doc:"Maximum number of items on the page."`
	Cursor identifier `query:"cursor" doc:"Value of next on the previous page. Omit it for the first page."`
}

// pageOfNamed returns a page of a list in the order of its names.
func pageOfNamed[T any](in *wholeListIn, all []T, name func(T) string) Page[T] {
	all = slices.DeleteFunc(slices.Clone(all), func(item T) bool { return name(item) <= string(in.Cursor) })
	return pageFrom(all, in.Limit, func(item T) T { return item }, name)
}

// pageFrom converts the first limit items of a list that begins after the cursor of the request. cursor returns the cursor after
// an item.
func pageFrom[S, T any](rest []S, limit int, show func(S) T, cursor func(S) string) Page[T] {
	page := Page[T]{Items: make([]T, min(limit, len(rest)))}
	for i := range page.Items {
		page.Items[i] = show(rest[i])
	}
	if n := len(page.Items); n < len(rest) {
		page.Next = cursor(rest[n-1])
	}
	return page
}
