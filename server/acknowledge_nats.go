package server

import (
	"bytes"
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net/http"
	"strings"
	"time"
	"unicode"

	"github.com/google/uuid"

	futurejobs "deadman/future_jobs"
	"deadman/internal/access"
	"deadman/internal/bus"
	"deadman/web"
)

// maxAckNameLen is the largest length of a name, in bytes.
const maxAckNameLen = 100

// ackRequest is a request over NATS to acknowledge an alert.
type ackRequest struct {
	web.AckRequest
	By string `json:"by"`
}

// ackAnswer is the reply to an ackRequest: the current acknowledgement, or an error with its HTTP status.
type ackAnswer struct {
	Rule         string            `json:"rule,omitempty"`
	Key          string            `json:"key,omitempty"`
	Acknowledged *web.Acknowledged `json:"acknowledged,omitempty"`
	Error        string            `json:"error,omitempty"`
	Status       int               `json:"status,omitempty"`
}

// natsAcks answers acknowledgements over NATS.
type natsAcks struct {
	acks *acks
	now  func() time.Time // the database's time
	log  *slog.Logger
}

// answer executes a request. The broker's publish permission on the subject authorizes the client; the name is only a label
// given by the client.
func (a *natsAcks) answer(ctx context.Context, subject string, body []byte) bus.Reply {
	job, err := a.handleAck(ctx, subject, body)
	if err != nil {
		return a.ackError(err)
	}
	return ackAnswer{Rule: job.Rule, Key: job.Key, Acknowledged: web.AcknowledgedAs(job.Ack, a.now())}.reply()
}

// handleAck executes a request.
func (a *natsAcks) handleAck(ctx context.Context, subject string, body []byte) (futurejobs.ListedJob, error) {
	id, err := uuid.Parse(subject[strings.LastIndexByte(subject, '.')+1:])
	if err != nil {
		return futurejobs.ListedJob{}, badAckRequest("the subject %s does not end with the id of an alert: %v", subject, err)
	}
	var of ackRequest
	if len(bytes.TrimSpace(body)) > 0 {
		if err := of.read(body); err != nil {
			return futurejobs.ListedJob{}, badAckRequest(`the request is not like {"for": "2h", "note": "I am on it", "by": "ada"}: %v`, err)
		}
	}
	if len(of.By) > maxAckNameLen {
		return futurejobs.ListedJob{}, badAckRequest("by has %d bytes, the most is %d", len(of.By), maxAckNameLen)
	}
	if i := strings.IndexFunc(of.By, func(r rune) bool { return !unicode.IsPrint(r) }); i >= 0 {
		return futurejobs.ListedJob{}, badAckRequest("by has a character at byte %d that cannot be printed; leave it out", i)
	}
	ack, err := of.Ack(a.now())
	if err != nil {
		return futurejobs.ListedJob{}, err
	}
	return a.acks.Acknowledge(access.As(ctx, access.Actor{Name: "nats:" + cmp.Or(of.By, "unnamed")}), id, ack)
}

// read decodes a request strictly: unknown fields and trailing data are errors.
func (of *ackRequest) read(body []byte) error {
	d := json.NewDecoder(bytes.NewReader(body))
	d.DisallowUnknownFields()
	err := d.Decode(of)
	var kind *json.UnmarshalTypeError
	switch {
	case errors.As(err, &kind) && kind.Field == "":
		return fmt.Errorf("it is no object but of the type %s", kind.Value)
	case errors.As(err, &kind):
		name := kind.Field[strings.LastIndexByte(kind.Field, '.')+1:] // without the embedded struct's name
		return fmt.Errorf("%s cannot be of the type %s", name, kind.Value)
	case err != nil:
		return err
	}
	if _, err := d.Token(); !errors.Is(err, io.EOF) {
		return errors.New("something follows the object; send one alone")
	}
	return nil
}

// badAckRequest returns the error of an invalid request.
func badAckRequest(format string, args ...any) error {
	return &web.Problem{Status: http.StatusUnprocessableEntity, Detail: fmt.Sprintf(format, args...)}
}

// ackError returns the reply for an error. Client errors are returned in full; internal errors are only logged.
func (a *natsAcks) ackError(err error) bus.Reply {
	answer := ackAnswer{Error: err.Error()}
	var p *web.Problem
	switch {
	case errors.As(err, &p):
		answer.Status = p.Status
	case errors.Is(err, futurejobs.ErrNotFound):
		answer.Status = http.StatusNotFound
	case errors.Is(err, futurejobs.ErrJobEnded):
		answer.Status = http.StatusConflict
	default:
		answer.Status, answer.Error = http.StatusInternalServerError, "the node could not do it; its log says why"
		a.log.Error("an alert is not acknowledged", "err", err)
	}
	return answer.reply()
}

func (a ackAnswer) reply() bus.Reply {
	data, err := json.Marshal(a)
	if err != nil {
		panic(err) // text and times always marshal
	}
	return bus.Reply{Data: data, Why: a.Error, Code: a.Status}
}
