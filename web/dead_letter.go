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
	ID      int64     `json:"id"`
	At      time.Time `json:"at"`
	Rule    string    `json:"rule,omitempty" doc:"Absent: no rule's fault."`
	Reason  string    `json:"reason"`
	Stream  string    `json:"stream"`
	Subject string    `json:"subject"`
	Seq     uint64    `json:"seq"`
	EventAt time.Time `json:"event_at"`

	Size        int       `json:"size,omitempty" doc:"Bytes of the body, where only its start is kept."`
	Tries       int       `json:"tries" doc:"How often it was tried again."`
	LastTriedAt time.Time `json:"last_tried_at,omitzero"`

	Summarized  int64     `json:"summarized,omitempty" doc:"The letter is a summary: the number of refused events that it stands for. There were too many in a minute, so they are not kept and cannot be retried. seq, event_at and reason are those of the first of them."`
	LastSeq     uint64    `json:"last_seq,omitempty" doc:"Of a summary: the sequence of the last event that it stands for."`
	LastEventAt time.Time `json:"last_event_at,omitzero" doc:"Of a summary: the time of that event."`

	BodyOmitted bool `json:"body_omitted,omitempty" doc:"In a list: header and body are left out, because they have more than 16 KiB; GET /dead-letters/{id} has them."`

	Header     map[string][]string `json:"header,omitempty"`
	Body       string              `json:"body,omitempty"`
	BodyBase64 []byte              `json:"body_base64,omitempty" doc:"In place of body where that is no UTF-8."`
}

func newDeadLetter(d futurejobs.DeadLetter) DeadLetter {
	out := DeadLetter{
		ID: d.ID, At: d.At, Rule: d.Rule, Reason: d.Reason,
		Stream: d.Event.Stream, Subject: d.Event.Subject, Seq: d.Event.Seq, EventAt: d.Event.At,
		Size: d.Size, Tries: d.Tries, LastTriedAt: d.LastTriedAt, BodyOmitted: d.Omitted, Header: d.Event.Header,
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
	Rule       string    `json:"rule,omitempty" doc:"Absent: no rule's fault."`
	Reason     string    `json:"reason"`
	Letters    int64     `json:"letters" doc:"Includes summaries."`
	Summarized int64     `json:"summarized,omitempty" doc:"The number of refused events that the summaries among them stand for."`
	Newest     int64     `json:"newest" doc:"The id of the newest of them."`
	At         time.Time `json:"at" doc:"When the newest of them was refused."`
}

// DeadLetterReasons counts dead letters by rule and reason.
type DeadLetterReasons struct {
	Items   []DeadLetterReason `json:"items" nullable:"false"`
	Letters int64              `json:"letters" doc:"How many were counted, the newest."`
	More    bool               `json:"more,omitempty" doc:"There may be older ones, which were not counted."`
}

func newLetterReasons(c futurejobs.DeadLetterReasons) DeadLetterReasons {
	out := DeadLetterReasons{Items: make([]DeadLetterReason, len(c.Reasons)), Letters: c.Letters, More: c.More}
	for i, r := range c.Reasons {
		out.Items[i] = DeadLetterReason(r)
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
	Rule    identifier `query:"rule" doc:"That this rule could not take in." example:"order-unshipped"`
	Subject identifier `query:"subject" doc:"That came on this subject." example:"orders.created"`
	Reason  identifier `query:"reason" doc:"That were refused for this reason, word by word." example:"trigger: missing value event.id"`
}

func (f DeadLetterFilter) filter() futurejobs.Filter {
	return futurejobs.Filter{Rule: string(f.Rule), Subject: string(f.Subject), Reason: string(f.Reason)}
}

// deadLetterIn identifies a dead letter.
type deadLetterIn struct {
	ID int64 `path:"id" minimum:"1" doc:"The letter's id." example:"7"`
}

// deadLetterAPI has the operations that show dead letters.
type deadLetterAPI struct {
	lists DeadLetterReader
}

func (a *deadLetterAPI) register(all *operations) {
	register(all, operation{
		ID: "list-dead-letters", Tag: tagEvents, Method: "GET", Path: "/dead-letters", Does: "lists events that could not be taken in, newest first",
		Says:  "Where a node refused more events in a minute than it stores, a summary for each rule, stream and minute stands for the others.",
		Scope: access.Read, Reach: reachAll,
	}, withBody(func(ctx context.Context, in *deadLetterListIn) (Page[DeadLetter], error) {
		p, err := a.lists.DeadLetters(ctx, in.page(in.filter()))
		if err != nil {
			return Page[DeadLetter]{}, err
		}
		return pageOf(p, newDeadLetter), nil
	}))
	register(all, operation{
		ID: "get-dead-letter", Tag: tagEvents, Method: "GET", Path: "/dead-letters/{id}", Does: "shows an event that could not be taken in",
		Scope: access.Read, Reach: reachAll, Errors: []int{http.StatusNotFound},
	}, withBody(func(ctx context.Context, in *deadLetterIn) (DeadLetter, error) {
		d, err := a.lists.DeadLetter(ctx, in.ID)
		if err != nil {
			return DeadLetter{}, err
		}
		return newDeadLetter(d), nil
	}))
	register(all, operation{
		ID: "list-dead-letter-reasons", Tag: tagEvents, Method: "GET", Path: "/dead-letters/reasons", Does: "counts dead letters by rule and reason, most letters first",
		Says:  "The newest 5,000 letters are counted, and up to 50 reasons are named.",
		Scope: access.Read, Reach: reachAll,
	}, withBody(func(ctx context.Context, in *DeadLetterFilter) (DeadLetterReasons, error) {
		counted, err := a.lists.LetterReasons(ctx, in.filter())
		if err != nil {
			return DeadLetterReasons{}, err
		}
		return newLetterReasons(counted), nil
	}))
}
