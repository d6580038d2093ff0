package web

import (
	"context"
	"net/http"
	"time"

	futurejobs "deadman/future_jobs"
	"deadman/internal/access"
)

// TickReader reads the applied ticks of schedules. Implementations are safe for concurrent use.
type TickReader interface {
	// Ticks returns the applied ticks of a rule, newest first. It returns futurejobs.ErrBadCursor for a cursor of another list.
	Ticks(ctx context.Context, ruleID int32, f futurejobs.TickFilter) (futurejobs.Page[futurejobs.AppliedTick], error)
}

// Tick is an applied tick of a schedule, as the API returns it.
type Tick struct {
	Tick      time.Time `json:"tick" doc:"Nominal time of the tick."`
	AppliedAt time.Time `json:"applied_at" doc:"Time at which a node applied the tick, by the clock of the database."`
	Late      float64   `json:"late_seconds" doc:"Time from the tick until its application, in seconds." example:"0.012"`
	Outcome   string    `json:"outcome" enum:"started,emitted,paused,skipped,expired" doc:"Result of the tick: it started jobs, emitted an event, had no effect as the rule was paused or not enabled, was skipped by catch_up, or its jobs ended at once as expired."`
	Missed    int       `json:"missed" doc:"Number of earlier ticks that were not applied in time, and for which this one stands."`
	Attempts  int       `json:"attempts" doc:"Attempts of the node that applied the tick: 1 if none failed."`
	EventID   string    `json:"event_id,omitempty" doc:"ID of the emitted event (ce-id). Absent if none was emitted." example:"import-due-1769871845"`
}

func newTick(t futurejobs.AppliedTick) Tick {
	return Tick{
		Tick: t.At, AppliedAt: t.AppliedAt, Late: t.AppliedAt.Sub(t.At).Seconds(), Outcome: string(t.Outcome), Missed: t.Missed, Attempts: t.Attempts,
		EventID: t.EventID,
	}
}

// tickAPI has the operation on the applied ticks of a rule.
type tickAPI struct {
	lists TickReader
	rules RuleVersions
}

func (a *tickAPI) register(all *operations) {
	register(all, operation{
		ID: "list-rule-ticks", Tag: tagRules, Method: "GET", Path: "/rules/{name}/ticks", Summary: "list the applied ticks of a rule with a schedule, newest first",
		Description: "Each applied tick is listed once. Ticks that were not applied in time are counted in missed of the tick that stands for them. " +
			"Ticks are kept as long as the history of the rule, also those of a deleted rule. Empty for a rule without a schedule, or with stored ones.",
		Scope: access.Read, Reach: reachRule, Errors: []int{http.StatusNotFound},
	}, withBody(a.list))
}

// ticksIn selects a page of the applied ticks.
type ticksIn struct {
	RuleName
	TickSpan
	Outcome string `query:"outcome" enum:"started,emitted,paused,skipped,expired" doc:"Filter by outcome." example:"emitted"`
}

func (a *tickAPI) list(ctx context.Context, in *ticksIn) (Page[Tick], error) {
	f, err := in.filter(in.Outcome)
	if err != nil {
		return Page[Tick]{}, err
	}
	rule, err := pastRule(ctx, a.rules, string(in.Name))
	if err != nil {
		return Page[Tick]{}, err
	}
	p, err := a.lists.Ticks(ctx, rule, f)
	if err != nil {
		return Page[Tick]{}, err
	}
	return pageOf(p, newTick), nil
}
