package web

import (
	"context"
	"encoding/json"
	"fmt"
	"iter"
	"mime"
	"net/http"
	"strings"

	"deadman/alerts"
)

// MaxEventBytes is the largest body of an event that the API takes.
const MaxEventBytes = 256 << 10

// maxEventID is the longest id of an event, in bytes.
const maxEventID = 256

// Wire is the streams as HTTP needs them. The bus implements it. Implementations are safe
// for concurrent use.
type Wire interface {
	// PublishEvent puts an event into the stream that takes its subject in, and returns
	// once it is durable there. A repeat of an id is not stored twice; an empty id is no id.
	PublishEvent(ctx context.Context, subject string, data []byte, header map[string][]string, id string) (stream string, seq uint64, err error)
	// Follow yields the last backlog alerts of the stream, then each new one, until ctx is
	// done. Errors are yielded too; there may be more after one.
	Follow(ctx context.Context, backlog int) iter.Seq2[alerts.Alert, error]
}

// Taken is where an event is kept.
type Taken struct {
	Stream string `json:"stream"`
	Seq    uint64 `json:"seq"`
}

type eventIn struct {
	subject string
	id      string
	header  map[string][]string
	data    []byte
}

func readEvent(from *reading) eventIn {
	in := eventIn{subject: from.path("subject"), id: from.eventID(), header: eventHeader(from.r.Header)}
	if why := badSubject(in.subject); why != "" {
		from.refuse("path.subject", "%q cannot be published on: %s", in.subject, why)
	}
	in.data = from.body(MaxEventBytes)
	if from.err == nil && isJSON(from.r.Header) && !json.Valid(in.data) {
		from.refuse("body", "not valid JSON, though the Content-Type says so")
	}
	return in
}

// eventID is the producer's id, by which a repeat is known.
func (from *reading) eventID() string {
	nats, plain := from.r.Header.Get("Nats-Msg-Id"), from.r.Header.Get("Idempotency-Key")
	switch {
	case nats != "" && plain != "" && nats != plain:
		from.refuse("header.Idempotency-Key", "differs from Nats-Msg-Id; give one of them")
	case max(len(nats), len(plain)) > maxEventID:
		from.refuse("header.Idempotency-Key", "the id is over the limit of %d bytes", maxEventID)
	}
	if nats != "" {
		return nats
	}
	return plain
}

// eventHeader picks the headers that belong to the event and not to the request.
func eventHeader(h http.Header) map[string][]string {
	picked := make(map[string][]string)
	for name, values := range h {
		lower := strings.ToLower(name)
		if strings.HasPrefix(lower, "ce-") || lower == "content-type" || lower == "traceparent" || lower == "tracestate" {
			picked[lower] = values
		}
	}
	return picked
}

// badSubject says why nothing can be published on a subject, or "".
func badSubject(subject string) string {
	if strings.ContainsFunc(subject, func(r rune) bool { return r <= ' ' || r == 0x7f }) {
		return "it has a space or a control character"
	}
	for token := range strings.SplitSeq(subject, ".") {
		switch token {
		case "":
			return "a part between its dots is empty"
		case "*", ">":
			return "it is a wildcard; name one subject"
		}
	}
	return ""
}

func isJSON(h http.Header) bool {
	kind, _, err := mime.ParseMediaType(h.Get("Content-Type"))
	return err == nil && (kind == "application/json" || strings.HasSuffix(kind, "+json"))
}

func (a *api) event(ctx context.Context, in eventIn) (Taken, error) {
	stream, seq, err := a.Wire.PublishEvent(ctx, in.subject, in.data, in.header, in.id)
	if err != nil {
		return Taken{}, fmt.Errorf("publish on %s: %w", in.subject, err)
	}
	return Taken{Stream: stream, Seq: seq}, nil
}
