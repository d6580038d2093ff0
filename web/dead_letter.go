package web

import (
	"context"
	"time"
	"unicode/utf8"

	futurejobs "deadman/future_jobs"
)

// DeadLetter is an event that could not be taken in, as it goes out.
type DeadLetter struct {
	ID      int64     `json:"id"`
	At      time.Time `json:"at"`
	Rule    string    `json:"rule,omitempty"` // absent: no rule's fault
	Reason  string    `json:"reason"`
	Stream  string    `json:"stream"`
	Subject string    `json:"subject"`
	Seq     uint64    `json:"seq"`
	EventAt time.Time `json:"event_at"`

	Header     map[string][]string `json:"header,omitempty"`
	Body       string              `json:"body,omitempty"`
	BodyBase64 []byte              `json:"body_base64,omitempty"` // in place of Body where that is no UTF-8
}

func newDeadLetter(d futurejobs.DeadLetter) DeadLetter {
	out := DeadLetter{
		ID: d.ID, At: d.At, Rule: d.Rule, Reason: d.Reason,
		Stream: d.Event.Stream, Subject: d.Event.Subject, Seq: d.Event.Seq, EventAt: d.Event.At,
		Header: d.Event.Header,
	}
	if utf8.Valid(d.Event.Data) {
		out.Body = string(d.Event.Data)
	} else {
		out.BodyBase64 = d.Event.Data
	}
	return out
}

func readDeadLetters(from *reading) futurejobs.Filter {
	return futurejobs.Filter{Rule: from.text("rule"), Cursor: from.cursor(), Limit: from.limit()}
}

func (a *api) deadLetters(ctx context.Context, f futurejobs.Filter) (Page[DeadLetter], error) {
	p, err := a.Lists.DeadLetters(ctx, f)
	if err != nil {
		return Page[DeadLetter]{}, err
	}
	return pageOf(p, newDeadLetter), nil
}
