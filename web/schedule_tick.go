package web

import (
	"context"
	"errors"
	"fmt"
	"time"

	futurejobs "deadman/future_jobs"
	"deadman/internal/access"
	"deadman/internal/configfile"
)

// ScheduleTick is a tick of a stored schedule, as the API returns it.
type ScheduleTick struct {
	ID        string    `json:"id" doc:"ID of the schedule, which may have been deleted since." example:"customer-1234"`
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
		ID: t.ID, Tick: t.At, DecidedAt: t.DecidedAt, EmittedAt: t.EmittedAt, Late: max(done.Sub(t.At).Seconds(), 0), Outcome: string(t.Outcome),
		Missed: t.Missed, Attempts: t.Attempts, RetryAt: t.RetryAt, Reason: t.Reason,
	}
}

// TickSpan selects ticks by their time, delay and missed ticks.
type TickSpan struct {
	From   time.Time  `query:"from" doc:"Only ticks at or after this time." example:"2026-01-31T15:04:05Z"`
	To     time.Time  `query:"to" doc:"Only ticks before this time." example:"2026-01-31T15:04:05Z"`
	Late   identifier `query:"late" doc:"Only ticks that were late by this time or more, at least 1s." example:"10s"`
	Missed bool       `query:"missed" doc:"Only ticks that stand for missed ones."`
	Paging
}

// filter returns the filter of a list of ticks.
func (q TickSpan) filter(outcome string) (futurejobs.TickFilter, error) {
	f := futurejobs.TickFilter{
		After: q.From.UTC(), Before: q.To.UTC(), Outcome: futurejobs.TickOutcome(outcome), Missed: q.Missed, Cursor: q.Cursor, Limit: q.Limit,
	}
	if !q.From.IsZero() && !q.To.IsZero() && !q.To.After(q.From) {
		return f, badQuery("to", fmt.Sprintf("%s is not after from, %s; swap them, or leave one out", f.Before.Format(time.RFC3339), f.After.Format(time.RFC3339)))
	}
	if q.Late != "" {
		late, err := configfile.ParseDuration(string(q.Late))
		if err != nil || late < time.Second {
			return f, badQuery("late", "it takes a duration of at least one second, such as 10s or 5m")
		}
		f.LateBy = late
	}
	return f, nil
}

// ScheduleTickFilter selects a page of the ticks of stored schedules.
type ScheduleTickFilter struct {
	TickSpan
	Outcome string `query:"outcome" enum:"emitted,planned,paused,skipped,canceled,unknown,failed" doc:"Filter by outcome." example:"emitted"`
}

// aboutTicks is what the lists of ticks have in common.
const aboutTicks = "Each tick is listed once. Ticks that were not decided in time are counted in missed of the tick that stands for them. " +
	"Ticks are kept as long as the history of the rule, also those of a deleted schedule or rule."

// scheduleTickAPI has the operations on ticks of stored schedules.
type scheduleTickAPI struct {
	lists ScheduleReader
	rules RuleVersions
}

func (a *scheduleTickAPI) register(all *operations) {
	inPath, inQuery := operation{
		ID: "list-schedule-ticks", Tag: tagSchedules, Method: "GET", Summary: "list the ticks of a stored schedule, newest first", Scope: access.Read,
		Description: aboutTicks,
	}.inTwoForms(scheduleBase, "id", "/ticks")
	register(all, inPath, withBody(func(ctx context.Context, in *struct {
		SchedulePath
		ScheduleTickFilter
	},
	) (Page[ScheduleTick], error) {
		return a.ticks(ctx, in.named(), in.ScheduleTickFilter)
	}))
	inQuery.ID, inQuery.Summary = "list-all-schedule-ticks", "list the ticks of all stored schedules of a rule, newest first, or of one in ?id="
	inQuery.Description += " A page of all schedules that is filtered by late, missed or the outcome emitted searches 100,000 ticks: it may have fewer items " +
		"than its limit, also none, though next continues the list."
	register(all, inQuery, withBody(func(ctx context.Context, in *struct {
		Rule identifier `path:"rule" doc:"Name of the rule." example:"report-due"`
		ID   identifier `query:"id" doc:"ID of the schedule. Absent: all schedules of the rule, also deleted ones." example:"customer/1234"`
		ScheduleTickFilter
	},
	) (Page[ScheduleTick], error) {
		return a.ticks(ctx, scheduleName{string(in.Rule), string(in.ID), "query"}, in.ScheduleTickFilter)
	}))
}

// ticks lists the ticks of a schedule, or without its id those of all schedules of the rule.
func (a *scheduleTickAPI) ticks(ctx context.Context, of scheduleName, q ScheduleTickFilter) (Page[ScheduleTick], error) {
	f, err := q.filter(q.Outcome)
	if err != nil {
		return Page[ScheduleTick]{}, err
	}
	rule, err := pastRule(ctx, a.rules, of.rule)
	if err != nil {
		return Page[ScheduleTick]{}, err
	}
	ref := futurejobs.ScheduleRef{RuleID: rule, ID: of.id}
	p, err := a.lists.ScheduleTicks(ctx, ref, f)
	if err == nil && len(p.Items) == 0 && of.id != "" {
		err = a.checkKnown(ctx, of, ref)
	}
	if err != nil {
		return Page[ScheduleTick]{}, err
	}
	return pageOf(p, newScheduleTick), nil
}

// pastRule returns the id of a rule, also of a deleted one, or futurejobs.ErrNotFound.
func pastRule(ctx context.Context, all RuleVersions, name string) (int32, error) {
	rule, err := all.Get(ctx, name)
	if !errors.Is(err, futurejobs.ErrNotFound) {
		return rule.RuleID, err
	}
	versions, err := all.Versions(ctx, name)
	if err != nil {
		return 0, err
	}
	return versions[0].RuleID, nil
}

// checkKnown returns futurejobs.ErrNotFound unless a schedule exists, or has ticks from before its deletion.
func (a *scheduleTickAPI) checkKnown(ctx context.Context, of scheduleName, ref futurejobs.ScheduleRef) error {
	_, missing := a.lists.Schedule(ctx, ref)
	if !errors.Is(missing, futurejobs.ErrNotFound) {
		return missing
	}
	past, err := a.lists.ScheduleTicks(ctx, ref, futurejobs.TickFilter{Limit: 1})
	if err != nil || len(past.Items) > 0 {
		return err
	}
	return fmt.Errorf("schedule %s of rule %s: %w, and no tick of a deleted schedule has this id; list the ids with deadman schedule list %s", of.id, of.rule, futurejobs.ErrNotFound, of.rule)
}
