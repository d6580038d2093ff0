package web

import (
	"context"
	"net/http"

	futurejobs "deadman/future_jobs"
	"deadman/internal/access"
	"deadman/internal/events"
)

// DeadLetterActions retries and drops dead letters. events.DeadLetters implements it. An unknown dead letter is
// futurejobs.ErrNotFound. Implementations are safe for concurrent use.
type DeadLetterActions interface {
	// Retry processes a dead letter's event by the current rules.
	Retry(ctx context.Context, id int64) (events.Retried, error)
	// RetryAll retries the matching dead letters that follow an id, oldest first.
	RetryAll(ctx context.Context, f futurejobs.Filter, after int64) (events.Retried, error)
	DropLetter(ctx context.Context, id int64) error
	// DropLetters returns the number of dropped dead letters.
	DropLetters(ctx context.Context, f futurejobs.Filter) (int64, error)
}

// RetryResult is the result of a retry.
type RetryResult struct {
	Retried   int    `json:"retried" doc:"Number of dead letters that were retried."`
	Processed int    `json:"processed" doc:"Number of dead letters whose events were processed. They are deleted."`
	Refused   int    `json:"refused" doc:"Number of dead letters that were refused again. They stay, with the new reason."`
	Reason    string `json:"reason,omitempty" doc:"Reason of the refusal. Returned for a single dead letter only."`
	Next      int64  `json:"next,omitempty" doc:"Value of after for the next call. Absent if none are left."`
}

func newRetryResult(r events.Retried) RetryResult {
	return RetryResult{Retried: r.Tried, Processed: r.TakenIn, Refused: r.Refused, Reason: r.Reason, Next: r.Next}
}

// DropResult is the number of dropped dead letters.
type DropResult struct {
	Dropped int64 `json:"dropped" doc:"Number of dropped dead letters."`
}

// DeadLetterSelection selects dead letters. All of them must be selected explicitly.
type DeadLetterSelection struct {
	DeadLetterFilter
	All bool `query:"all" doc:"Select all dead letters. Alternative to rule, subject and reason."`
}

func (in DeadLetterSelection) check() error {
	some := in.DeadLetterFilter != DeadLetterFilter{}
	switch {
	case !some && !in.All:
		return refused("query", "no dead letters are selected; set rule, subject, reason, or all=true")
	case some && in.All:
		return refused("query.all", "it cannot be combined with rule, subject or reason; set one or the other")
	}
	return nil
}

// deadLetterActionAPI has the operations that change dead letters.
type deadLetterActionAPI struct {
	letters DeadLetterActions
}

func (a *deadLetterActionAPI) register(all *operations) {
	register(all, operation{
		ID: "retry-dead-letter", Tag: tagEvents, Method: "POST", Path: "/dead-letters/{id}/retry", Summary: "retry a dead letter",
		Description: "Processes the event with the current rules: the rule that refused it, or all rules that subscribe to its subject. The dead " +
			"letter is deleted in the same transaction. If the event is refused again, the dead letter stays, with the new reason. Later " +
			"events are not processed again. Summaries cannot be retried.",
		Scope: access.Admin, Reach: reachAll, Status: http.StatusOK, Errors: []int{http.StatusNotFound},
	}, withBody(func(ctx context.Context, in *deadLetterIn) (RetryResult, error) {
		done, err := a.letters.Retry(ctx, in.ID)
		return newRetryResult(done), err
	}))
	register(all, operation{
		ID: "retry-dead-letters", Tag: tagEvents, Method: "POST", Path: "/dead-letters/retry", Summary: "retry dead letters, oldest first",
		Description: "Retries up to 500 dead letters per call. If more are left, the response has next, the value of after for the next call.",
		Scope:       access.Admin, Reach: reachAll, Status: http.StatusOK,
	}, withBody(func(ctx context.Context, in *struct {
		DeadLetterSelection
		After int64 `query:"after" minimum:"0" doc:"Only dead letters with a greater ID."`
	},
	) (RetryResult, error) {
		if err := in.check(); err != nil {
			return RetryResult{}, err
		}
		done, err := a.letters.RetryAll(ctx, in.filter(), in.After)
		return newRetryResult(done), err
	}))
	register(all, operation{
		ID: "drop-dead-letter", Tag: tagEvents, Method: "DELETE", Path: "/dead-letters/{id}", Summary: "drop a dead letter",
		Scope: access.Admin, Reach: reachAll, Errors: []int{http.StatusNotFound},
	}, noContent(func(ctx context.Context, in *deadLetterIn) error { return a.letters.DropLetter(ctx, in.ID) }))
	register(all, operation{
		ID: "drop-dead-letters", Tag: tagEvents, Method: "DELETE", Path: "/dead-letters", Summary: "drop dead letters",
		Scope: access.Admin, Reach: reachAll, Status: http.StatusOK,
	}, withBody(func(ctx context.Context, in *DeadLetterSelection) (DropResult, error) {
		if err := in.check(); err != nil {
			return DropResult{}, err
		}
		n, err := a.letters.DropLetters(ctx, in.filter())
		return DropResult{n}, err
	}))
}
