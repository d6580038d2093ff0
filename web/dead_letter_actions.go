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

// Retried is the result of a retry.
type Retried struct {
	Tried   int    `json:"tried"`
	TakenIn int    `json:"taken_in" doc:"Those whose event was taken in; they are gone."`
	Refused int    `json:"refused" doc:"Those that were refused again; they stay, with the new reason."`
	Reason  string `json:"reason,omitempty" doc:"Why, of a single letter."`
	Next    int64  `json:"next,omitempty" doc:"The after of the next call; absent: that was all."`
}

// Dropped is the number of dropped dead letters.
type Dropped struct {
	Dropped int64 `json:"dropped"`
}

// DeadLetterSelection selects dead letters. All of them must be selected explicitly.
type DeadLetterSelection struct {
	DeadLetterFilter
	All bool `query:"all" doc:"All that there are; in place of rule, subject and reason."`
}

func (in DeadLetterSelection) check() error {
	some := in.DeadLetterFilter != DeadLetterFilter{}
	switch {
	case !some && !in.All:
		return refused("query", "it does not say which letters are meant; give rule, subject, reason, or all=true")
	case some && in.All:
		return refused("query.all", "it comes with rule, subject or reason, and all leaves none out; give one or the other")
	}
	return nil
}

// deadLetterActionAPI has the operations that change dead letters.
type deadLetterActionAPI struct {
	letters DeadLetterActions
}

func (a *deadLetterActionAPI) register(all *operations) {
	register(all, operation{
		ID: "retry-dead-letter", Tag: tagEvents, Method: "POST", Path: "/dead-letters/{id}/retry", Does: "takes the event of a dead letter in, late",
		Says: "By the rules as they are now: the one that refused it, or all that listen to its subject. " +
			"Once: the letter goes in the same transaction. Refused again, it stays, with the new reason. " +
			"What came after the event was taken in without it, and is not taken in again. A summary is refused: its events are not kept.",
		Scope: access.Admin, Reach: reachAll, Status: http.StatusOK, Errors: []int{http.StatusNotFound},
	}, withBody(func(ctx context.Context, in *deadLetterIn) (Retried, error) {
		done, err := a.letters.Retry(ctx, in.ID)
		return Retried(done), err
	}))
	register(all, operation{
		ID: "retry-dead-letters", Tag: tagEvents, Method: "POST", Path: "/dead-letters/retry", Does: "takes the events of dead letters in, oldest first",
		Says:  "Up to 500 in one call; next, where the answer has it, is the after of the call that goes on.",
		Scope: access.Admin, Reach: reachAll, Status: http.StatusOK,
	}, withBody(func(ctx context.Context, in *struct {
		DeadLetterSelection
		After int64 `query:"after" minimum:"0" doc:"Only letters with a greater id."`
	},
	) (Retried, error) {
		if err := in.check(); err != nil {
			return Retried{}, err
		}
		done, err := a.letters.RetryAll(ctx, in.filter(), in.After)
		return Retried(done), err
	}))
	register(all, operation{
		ID: "drop-dead-letter", Tag: tagEvents, Method: "DELETE", Path: "/dead-letters/{id}", Does: "drops a dead letter",
		Scope: access.Admin, Reach: reachAll, Errors: []int{http.StatusNotFound},
	}, noContent(func(ctx context.Context, in *deadLetterIn) error { return a.letters.DropLetter(ctx, in.ID) }))
	register(all, operation{
		ID: "drop-dead-letters", Tag: tagEvents, Method: "DELETE", Path: "/dead-letters", Does: "drops dead letters",
		Scope: access.Admin, Reach: reachAll, Status: http.StatusOK,
	}, withBody(func(ctx context.Context, in *DeadLetterSelection) (Dropped, error) {
		if err := in.check(); err != nil {
			return Dropped{}, err
		}
		n, err := a.letters.DropLetters(ctx, in.filter())
		return Dropped{n}, err
	}))
}
