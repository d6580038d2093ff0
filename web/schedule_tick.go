package web

import (
	"context"
	"time"

	futurejobs "deadman/future_jobs"
	"deadman/internal/access"
)

// ScheduleTick is a tick of a stored schedule, as the API returns it.
type ScheduleTick struct {
	Tick      time.Time `json:"tick" doc:"Nominal time of the tick."`
	DecidedAt time.Time `json:"decided_at" doc:"Time at which a node decided the tick, by the clock of the database."`
	EmittedAt time.Time `json:"emitted_at,omitzero" doc:"Time at which the stream had stored the event, or the webhook had accepted it, by the clock of the database. Absent without an event."`
	Late      float64   `json:"late_seconds" doc:"Time from the tick until its event was stored, or else until it was decided, in seconds." example:"0.012"`
	Outcome   string    `json:"outcome" enum:"emitted,planned,paused,skipped,canceled,unknown,failed" doc:"Result of the tick. emitted: the stream has its event, or its webhook accepted it. planned: the event is yet to be published. paused: the rule was paused or not enabled. skipped: the tick was late, and catch_up skips it. canceled: the schedule or rule was changed, paused or deleted before the event was published. unknown: the same, after an attempt without a recorded result, so the event may be published. failed: its webhook did not accept the event, or the schedule cannot be read any more; reason says why."`
	Missed    int       `json:"missed" doc:"Number of earlier ticks that were not decided in time, and for which this one stands."`
	Attempts  int       `json:"attempts" doc:"Number of attempts to publish the event."`
	RetryAt   time.Time `json:"retry_at,omitzero" doc:"Time of the next attempt to post the event. Absent without one."`
	Reason    string    `json:"reason,omitempty" doc:"Reason of the last failure: of an event that its webhook did not accept, or of a schedule that cannot be read."`
}

func newScheduleTick(t futurejobs.ScheduleTick) ScheduleTick {
	done := t.EmittedAt
	if done.IsZero() {
		done = t.DecidedAt
	}
	return ScheduleTick{
		Tick: t.At, DecidedAt: t.DecidedAt, EmittedAt: t.EmittedAt, Late: max(done.Sub(t.At).Seconds(), 0), Outcome: string(t.Outcome),
		Missed: t.Missed, Attempts: t.Attempts, RetryAt: t.RetryAt, Reason: t.Reason,
	}
}

// ScheduleTickFilter selects a page of the ticks of a schedule.
type ScheduleTickFilter struct {
	From    time.Time `query:"from" doc:"Only ticks at or after this time." example:"2026-01-31T15:04:05Z"`
	To      time.Time `query:"to" doc:"Only ticks before this time." example:"2026-01-31T15:04:05Z"`
	Outcome string    `query:"outcome" enum:"emitted,planned,paused,skipped,canceled,unknown,failed" doc:"Filter by outcome." example:"emitted"`
	Paging
}

func (a *scheduleAPI) registerTicks(all *operations) {
	inPath, inQuery := operation{
		ID: "list-schedule-ticks", Tag: tagSchedules, Method: "GET", Summary: "list the ticks of a stored schedule, newest first", Scope: access.Read,
		Description: "Each tick is listed once. Ticks that were not decided in time are counted in missed of the tick that stands for them. " +
			"Ticks are kept as long as the history of the rule, also those of a deleted schedule.",
	}.inTwoForms(scheduleBase, "id", "/ticks")
	register(all, inPath, withBody(func(ctx context.Context, in *struct {
		SchedulePath
		ScheduleTickFilter
	},
	) (Page[ScheduleTick], error) {
		return a.ticks(ctx, in.named(), in.ScheduleTickFilter)
	}))
	register(all, inQuery, withBody(func(ctx context.Context, in *struct {
		ScheduleQuery
		ScheduleTickFilter
	},
	) (Page[ScheduleTick], error) {
		return a.ticks(ctx, in.named(), in.ScheduleTickFilter)
	}))
}

func (a *scheduleAPI) ticks(ctx context.Context, of scheduleName, f ScheduleTickFilter) (Page[ScheduleTick], error) {
	ref, err := a.refOf(ctx, of)
	if err != nil {
		return Page[ScheduleTick]{}, err
	}
	p, err := a.lists.ScheduleTicks(ctx, ref, futurejobs.TickFilter{
		After: f.From.UTC(), Before: f.To.UTC(), Outcome: futurejobs.TickOutcome(f.Outcome), Cursor: f.Cursor, Limit: f.Limit,
	})
	if err != nil {
		return Page[ScheduleTick]{}, err
	}
	return pageOf(p, newScheduleTick), nil
}
