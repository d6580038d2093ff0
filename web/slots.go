package web

import (
	"context"
	"fmt"
	"net/http"
	"time"

	futurejobs "deadman/future_jobs"
	"deadman/internal/access"
	"deadman/internal/configfile"
)

// The default range and bucket of the load, and the largest number of buckets.
const (
	slotsBack   = time.Hour
	slotsAhead  = futurejobs.Day
	slotsBucket = futurejobs.LoadWidth
	slotsMost   = 3000
)

// LoadReader reads the past and planned load by slot. The store implements it. Implementations are safe for concurrent
// use.
type LoadReader interface {
	// Worked returns the checks in each bucket of a span, of one rule, or of all if it is 0.
	Worked(ctx context.Context, span futurejobs.BucketRange, rule int32) ([]futurejobs.CheckedLoad, error)
	// Planned counts the pending jobs due in each bucket of a span, of one rule, or of all if it is 0.
	Planned(ctx context.Context, span futurejobs.BucketRange, rule int32) ([]futurejobs.PlannedLoad, error)
}

// Slot is the load of one bucket, as the API returns it.
type Slot struct {
	From     time.Time `json:"from" doc:"The bucket begins here."`
	Checks   int64     `json:"checks,omitempty" doc:"Looks that were decided."`
	Alerts   int64     `json:"alerts,omitempty" doc:"That they decided."`
	WorstLag float64   `json:"worst_lag_seconds,omitempty" doc:"How long after its slot the latest of the looks was decided."`
	Planned  int64     `json:"planned,omitempty" doc:"Pending jobs that are due."`
	More     bool      `json:"planned_more,omitempty" doc:"Not all pending jobs were counted; there may be more."`
	Ticks    int       `json:"ticks,omitempty" doc:"First looks at waits that schedules will begin."`
}

// Slots is the load of a span of time, one item for each bucket.
type Slots struct {
	From   time.Time `json:"from"`
	To     time.Time `json:"to" doc:"Not part of it."`
	Bucket float64   `json:"bucket_seconds"`
	Items  []Slot    `json:"items" nullable:"false"`
}

// slotAPI has the operation on the load of slots.
type slotAPI struct {
	book  Book
	loads LoadReader
	now   func() time.Time
}

func (a *slotAPI) register(all *operations) {
	register(all, operation{
		ID: "list-slots", Tag: tagJobs, Method: "GET", Path: "/slots", Does: "shows the load by slot: what was checked, what is waited for, and what schedules will begin",
		Says: "All buckets of the span are listed, in the order of time. What was checked is counted by the minute of its slot and is kept for two days. " +
			"Of rules beyond the 200 busiest of a minute it is known in sum only.",
		Scope: access.Read, Reach: reachAll, Errors: []int{http.StatusNotFound},
	}, withBody(a.list))
}

// slotsIn selects a span of the load.
type slotsIn struct {
	From   time.Time  `query:"from" doc:"From then on; absent: an hour ago. It is moved back to where a bucket begins." example:"2026-01-31T15:04:05Z"`
	To     time.Time  `query:"to" doc:"Until then; absent: in a day, or a day after from." example:"2026-02-01T15:04:05Z"`
	Rule   identifier `query:"rule" doc:"Of this rule." example:"order-unshipped"`
	Bucket identifier `query:"bucket" doc:"How wide the buckets are, in whole minutes that divide a day, such as 1m, 15m or 1h; absent: 1m." example:"15m"`
}

func (a *slotAPI) list(ctx context.Context, in *slotsIn) (Slots, error) {
	now := a.now().UTC()
	span, err := in.span(now)
	if err != nil {
		return Slots{}, err
	}
	var rule int32
	if span.Rule != "" {
		newest, err := a.book.Newest(span.Rule)
		if err != nil {
			return Slots{}, err
		}
		rule = newest.Engine().ID
	}
	worked, err := a.loads.Worked(ctx, span, rule)
	if err != nil {
		return Slots{}, err
	}
	planned, err := a.loads.Planned(ctx, span, rule)
	if err != nil {
		return Slots{}, err
	}
	ticks := a.book.PlannedTicks(span, now)
	out := Slots{From: span.From, To: span.Until, Bucket: span.Width.Seconds(), Items: make([]Slot, span.Parts())}
	for i := range out.Items {
		out.Items[i] = Slot{
			From:   span.From.Add(time.Duration(i) * span.Width),
			Checks: worked[i].Checks, Alerts: worked[i].Alerts, WorstLag: worked[i].Lag.Seconds(),
			Planned: planned[i].Jobs, More: planned[i].More, Ticks: ticks[i],
		}
	}
	return out, nil
}

// span returns the requested span in whole buckets.
func (in *slotsIn) span(now time.Time) (futurejobs.BucketRange, error) {
	span := futurejobs.BucketRange{From: in.From.UTC(), Until: in.To.UTC(), Width: slotsBucket, Rule: string(in.Rule)}
	if in.Bucket != "" {
		width, err := configfile.ParseDuration(string(in.Bucket))
		if err != nil || width < futurejobs.LoadWidth || width%futurejobs.LoadWidth != 0 || futurejobs.Day%width != 0 {
			return span, badQuery("bucket", "it takes whole minutes that divide a day, such as 1m, 15m or 1h")
		}
		span.Width = width
	}
	if in.From.IsZero() {
		span.From = now.Add(-slotsBack)
		if !in.To.IsZero() && !in.To.After(span.From) {
			span.From = span.Until.Add(-slotsBack)
		}
	}
	span.From = span.From.Truncate(span.Width)
	switch {
	case in.To.IsZero() && span.From.After(now):
		span.Until = span.From.Add(slotsAhead)
	case in.To.IsZero():
		span.Until = now.Add(slotsAhead)
	}
	span.Until = futurejobs.Grid(span.Width).Up(span.Until)
	switch {
	case !span.Until.After(span.From):
		return span, badQuery("to", "it is not after from")
	case span.Until.Sub(span.From)/span.Width > slotsMost:
		return span, badQuery("bucket", fmt.Sprintf("the span has more than %d buckets; ask for wider ones, such as 1h, or for less time", slotsMost))
	}
	return span, nil
}

func badQuery(parameter, message string) error {
	return problemOfDetails(BadRequest, http.StatusBadRequest, []Detail{{Location: "query." + parameter, Message: message}})
}
