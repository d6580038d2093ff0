package web

import (
	"context"
	"net/http"
	"time"
	"unicode/utf8"

	futurejobs "deadman/future_jobs"
	"deadman/internal/access"
)

// DeadLetter is an event that could not be processed, or a summary of several, as the API returns it.
type DeadLetter struct {
	ID      int64     `json:"id" doc:"ID of the dead letter; increases with time."`
	At      time.Time `json:"at" doc:"Time at which the event was refused."`
	Rule    string    `json:"rule,omitempty" doc:"Rule that refused the event. Absent if the event was refused for all rules."`
	Reason  string    `json:"reason" doc:"Reason of the refusal."`
	Stream  string    `json:"stream" doc:"Stream of the event."`
	Subject string    `json:"subject" doc:"Subject of the event."`
	Seq     uint64    `json:"seq" doc:"Sequence number of the event in the stream."`
	EventAt time.Time `json:"event_at" doc:"Time at which the stream stored the event."`

	Size          int       `json:"size,omitempty" doc:"Size of the body in bytes. Present if only the start of the body is kept."`
	Retries       int       `json:"retries" doc:"Number of retries."`
	LastRetriedAt time.Time `json:"last_retried_at,omitzero" doc:"Time of the last retry."`

	Summarized  int64     `json:"summarized,omitempty" doc:"Number of refused events that this summary stands for. When a node refuses too many events in a minute, it records one summary of the others. Their bodies are not kept, so they cannot be retried. seq, event_at and reason are those of the first event."`
	LastSeq     uint64    `json:"last_seq,omitempty" doc:"Summaries only: sequence number of the last event."`
	LastEventAt time.Time `json:"last_event_at,omitzero" doc:"Summaries only: time at which the stream stored the last event."`

	BodyOmitted bool `json:"body_omitted,omitempty" doc:"Whether header and body are left out of this list because they exceed 16 KiB. GET /dead-letters/{id} returns them."`

	Header     map[string][]string `json:"header,omitempty" doc:"Headers of the event."`
	Body       string              `json:"body,omitempty" doc:"Body of the event, if it is valid UTF-8."`
	BodyBase64 []byte              `json:"body_base64,omitempty" doc:"Body of the event in base64, if it is not valid UTF-8."`
}

func newDeadLetter(d futurejobs.DeadLetter) DeadLetter {
	out := DeadLetter{
		ID: d.ID, At: d.At, Rule: d.Rule, Reason: d.Reason,
		Stream: d.Event.Stream, Subject: d.Event.Subject, Seq: d.Event.Seq, EventAt: d.Event.At,
		Size: d.Size, Retries: d.Tries, LastRetriedAt: d.LastTriedAt, BodyOmitted: d.Omitted, Header: d.Event.Header,
		Summarized: d.Summarized, LastSeq: d.LastSeq, LastEventAt: d.LastEventAt,
	}
	if d.Summarized > 0 {
		out.Size = 0
	}
	if utf8.Valid(d.Event.Data) {
		out.Body = string(d.Event.Data)
	} else {
		out.BodyBase64 = d.Event.Data
	}
	return out
}

// DeadLetterReason counts the dead letters of one rule and one reason.
type DeadLetterReason struct {
	Rule       string    `json:"rule,omitempty" doc:"Rule that refused the events. Absent if they were refused for all rules."`
	Reason     string    `json:"reason" doc:"Reason of the refusal."`
	Count      int64     `json:"count" doc:"Number of dead letters, including summaries."`
	Summarized int64     `json:"summarized,omitempty" doc:"Number of refused events that the summaries among them stand for."`
	NewestID   int64     `json:"newest_id" doc:"ID of the newest of these dead letters."`
	NewestAt   time.Time `json:"newest_at" doc:"Time at which the newest event was refused."`
}

// DeadLetterReasons counts dead letters by rule and reason.
type DeadLetterReasons struct {
	Items []DeadLetterReason `json:"items" nullable:"false" doc:"Reasons, most frequent first."`
	Count int64              `json:"count" doc:"Number of dead letters that were counted, starting with the newest."`
	More  bool               `json:"more,omitempty" doc:"Whether older dead letters may exist that were not counted."`
}

func newLetterReasons(c futurejobs.DeadLetterReasons) DeadLetterReasons {
	out := DeadLetterReasons{Items: make([]DeadLetterReason, len(c.Reasons)), Count: c.Letters, More: c.More}
	for i, r := range c.Reasons {
		out.Items[i] = DeadLetterReason{Rule: r.Rule, Reason: r.Reason, Count: r.Letters, Summarized: r.Summarized, NewestID: r.Newest, NewestAt: r.At}
	}
	return out
}

// deadLetterListIn has the filters of the dead letters.
type deadLetterListIn struct {
	DeadLetterFilter
	Paging
}

// DeadLetterFilter filters dead letters.
type DeadLetterFilter struct {
	Rule    identifier `query:"rule" doc:"Filter by the rule that refused the event." example:"order-unshipped"`
	Subject identifier `query:"subject" doc:"Filter by the subject of the event." example:"orders.created"`
	Reason  identifier `query:"reason" doc:"Filter by reason, exact text." example:"trigger: missing value event.id"`
}

func (f DeadLetterFilter) filter() futurejobs.Filter {
	return futurejobs.Filter{Rule: string(f.Rule), Subject: string(f.Subject), Reason: string(f.Reason)}
}

// deadLetterIn identifies a dead letter.
type deadLetterIn struct {
	ID int64 `path:"id" minimum:"1" doc:"Dead letter ID." example:"7"`
}

// deadLetterAPI has the operations that show dead letters.
type deadLetterAPI struct {
	lists DeadLetterReader
}

func (a *deadLetterAPI) register(all *operations) {
	register(all, operation{
		ID: "list-dead-letters", Tag: tagEvents, Method: "GET", Path: "/dead-letters", Summary: "list dead letters, newest first",
		Description: "When a node refuses more events in a minute than it stores, it records a summary of the others for each rule, stream and minute.",
		Scope:       access.Read, Reach: reachAll,
	}, withBody(func(ctx context.Context, in *deadLetterListIn) (Page[DeadLetter], error) {
		p, err := a.lists.DeadLetters(ctx, in.page(in.filter()))
		if err != nil {
			return Page[DeadLetter]{}, err
		}
		return pageOf(p, newDeadLetter), nil
	}))
	register(all, operation{
		ID: "get-dead-letter", Tag: tagEvents, Method: "GET", Path: "/dead-letters/{id}", Summary: "get a dead letter",
		Scope: access.Read, Reach: reachAll, Errors: []int{http.StatusNotFound},
	}, withBody(func(ctx context.Context, in *deadLetterIn) (DeadLetter, error) {
		d, err := a.lists.DeadLetter(ctx, in.ID)
		if err != nil {
			return DeadLetter{}, err
		}
		return newDeadLetter(d), nil
	}))
	register(all, operation{
		ID: "list-dead-letter-reasons", Tag: tagEvents, Method: "GET", Path: "/dead-letters/reasons", Summary: "count dead letters by rule and reason, most frequent first",
		Description: "Counts the newest 5,000 dead letters and returns up to 50 reasons.",
		Scope:       access.Read, Reach: reachAll,
	}, withBody(func(ctx context.Context, in *DeadLetterFilter) (DeadLetterReasons, error) {
		counted, err := a.lists.LetterReasons(ctx, in.filter())
		if err != nil {
			return DeadLetterReasons{}, err
		}
		return newLetterReasons(counted), nil
	}))
}
