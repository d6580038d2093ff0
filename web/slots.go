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
	// Worked returns the checks and ticks in each bucket of a span, of one rule, or of all if it is 0.
	Worked(ctx context.Context, span futurejobs.BucketRange, rule int32) ([]futurejobs.PastLoad, error)
	// Planned counts the pending jobs due in each bucket of a span, of one rule, or of all if it is 0.
	Planned(ctx context.Context, span futurejobs.BucketRange, rule int32) ([]futurejobs.PlannedLoad, error)
}

// Slot is the load of one bucket, as the API returns it.
type Slot struct {
	From        time.Time `json:"from" doc:"Start of the bucket."`
	Checks      int64     `json:"checks,omitempty" doc:"Number of completed checks."`
	Alerts      int64     `json:"alerts,omitempty" doc:"Number of alerts raised by these checks."`
	MaxLateness float64   `json:"max_lateness_seconds,omitempty" doc:"Longest time between a slot and the decision of its check, in seconds."`
	Applied     int64     `json:"applied_ticks,omitempty" doc:"Number of applied ticks of schedules, whatever their outcome, by their nominal times."`
	Missed      int64     `json:"missed_ticks,omitempty" doc:"Number of missed ticks without a record of their own, at the time of the tick that stands for them."`
	MaxDelay    float64   `json:"max_tick_delay_seconds,omitempty" doc:"Longest time from a tick until its event was accepted or its jobs were started, in seconds."`
	Planned     int64     `json:"planned,omitempty" doc:"Number of pending jobs due in the bucket."`
	More        bool      `json:"planned_more,omitempty" doc:"Whether planned is incomplete because not all pending jobs were counted."`
	Ticks       int       `json:"ticks,omitempty" doc:"Number of first checks of jobs that schedules will create, and of events that they will emit; of a stored schedule only the next tick counts."`
}

// Lateness returns the largest lateness of the past checks and ticks.
func (s Slot) Lateness() time.Duration {
	return time.Duration(max(s.MaxLateness, s.MaxDelay) * float64(time.Second))
}

// Slots is the load of a span of time, one item for each bucket.
type Slots struct {
	From   time.Time `json:"from" doc:"Start of the first bucket."`
	To     time.Time `json:"to" doc:"End of the last bucket, exclusive."`
	Bucket float64   `json:"bucket_seconds" doc:"Width of a bucket, in seconds."`
	Items  []Slot    `json:"items" nullable:"false" doc:"Buckets, in the order of time."`
}

// slotAPI has the operation on the load of slots.
type slotAPI struct {
	catalog LoadedRules
	loads   LoadReader
	now     func() time.Time
}

func (a *slotAPI) register(all *operations) {
	register(all, operation{
		ID: "list-slots", Tag: tagJobs, Method: "GET", Path: "/slots", Summary: "get the load over time: past and planned checks and schedule ticks",
		Description: "Returns all buckets of the time span. Past checks and ticks are counted by the minute and kept for two days. For each " +
			"minute, the 200 busiest rules are counted separately; the others only in total.",
		Scope: access.Read, Reach: reachAll, Errors: []int{http.StatusNotFound},
	}, withBody(a.list))
}

// slotsIn selects a span of the load.
type slotsIn struct {
	From   time.Time  `query:"from" doc:"Start of the time span, rounded down to a bucket. Default: an hour ago." example:"2026-01-31T15:04:05Z"`
	To     time.Time  `query:"to" doc:"End of the time span. Default: a day from now, or a day after from." example:"2026-02-01T15:04:05Z"`
	Rule   identifier `query:"rule" doc:"Filter by rule." example:"order-unshipped"`
	Bucket identifier `query:"bucket" doc:"Width of a bucket in whole minutes that divide a day, such as 1m, 15m or 1h. Default: 1m." example:"15m"`
}

func (a *slotAPI) list(ctx context.Context, in *slotsIn) (Slots, error) {
	now := a.now().UTC()
	span, err := in.span(now)
	if err != nil {
		return Slots{}, err
	}
	var rule int32
	if span.Rule != "" {
		newest, err := a.catalog.Newest(span.Rule)
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
	ticks := a.catalog.PlannedTicks(span, now)
	out := Slots{From: span.From, To: span.Until, Bucket: span.Width.Seconds(), Items: make([]Slot, span.Parts())}
	for i := range out.Items {
		out.Items[i] = Slot{
			From:   span.From.Add(time.Duration(i) * span.Width),
			Checks: worked[i].Checks, Alerts: worked[i].Alerts, MaxLateness: worked[i].MaxLateness.Seconds(),
			Applied: worked[i].Ticks, Missed: worked[i].MissedTicks, MaxDelay: worked[i].MaxTickLateness.Seconds(),
			Planned: planned[i].Jobs, More: planned[i].More, Ticks: ticks[i] + int(planned[i].Ticks),
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
	return problemOfDetails(BadRequest, http.StatusBadRequest, []ProblemDetail{{Location: "query." + parameter, Message: message}})
}
