package server

import (
	"bytes"
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"strings"
	"unicode"

	"github.com/google/uuid"

	futurejobs "deadman/future_jobs"
	"deadman/internal/access"
	"deadman/internal/bus"
	"deadman/web"
)

const (
	ackSubject = "deadman.acks." // the alert's id follows
	ackGroup   = "deadman"       // one node answers
)

// maxAckNameLen is the longest that a name may be, in bytes.
const maxAckNameLen = 100

// ackRequest is what somebody sends who acknowledges an alert over NATS.
type ackRequest struct {
	web.AckRequest
	By string `json:"by"`
}

// ackAnswer is what they get: what stands now, or an error with the status that HTTP has for it.
type ackAnswer struct {
	Rule         string            `json:"rule,omitempty"`
	Key          string            `json:"key,omitempty"`
	Acknowledged *web.Acknowledged `json:"acknowledged,omitempty"`
	Error        string            `json:"error,omitempty"`
	Status       int               `json:"status,omitempty"`
}

// serveAcks acknowledges alerts for those who ask for it over NATS, until ctx ends. Who may
// publish there may do it: the broker knows who that is, and the name is what they say.
func (n *node) serveAcks(ctx context.Context) error {
	return n.bus.Respond(ctx, ackSubject+"*", ackGroup, func(ctx context.Context, subject string, body []byte) bus.Reply {
		job, err := n.handleAck(ctx, subject, body)
		if err != nil {
			return n.ackError(err)
		}
		return ackAnswer{Rule: job.Rule, Key: job.Key, Acknowledged: web.AcknowledgedAs(job.Ack, n.clock.Now())}.reply()
	})
}

// handleAck does what a request asks for.
func (n *node) handleAck(ctx context.Context, subject string, body []byte) (futurejobs.ListedJob, error) {
	id, err := uuid.Parse(strings.TrimPrefix(subject, ackSubject))
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
	ack, err := of.Ack(n.clock.Now())
	if err != nil {
		return futurejobs.ListedJob{}, err
	}
	return n.Acknowledge(access.As(ctx, access.Actor{Name: "nats:" + cmp.Or(of.By, "somebody")}), id, ack)
}

// read reads a request strictly: what it does not know is an error, as is what follows it.
func (of *ackRequest) read(body []byte) error {
	d := json.NewDecoder(bytes.NewReader(body))
	d.DisallowUnknownFields()
	err := d.Decode(of)
	var kind *json.UnmarshalTypeError
	switch {
	case errors.As(err, &kind) && kind.Field == "":
		return fmt.Errorf("it is no object but of the type %s", kind.Value)
	case errors.As(err, &kind):
		name := kind.Field[strings.LastIndexByte(kind.Field, '.')+1:] // without the struct that it is embedded by
		return fmt.Errorf("%s cannot be of the type %s", name, kind.Value)
	case err != nil:
		return err
	}
	if _, err := d.Token(); !errors.Is(err, io.EOF) {
		return errors.New("something follows the object; send one alone")
	}
	return nil
}

// badAckRequest is a request that says nothing that could be done.
func badAckRequest(format string, args ...any) error {
	return &web.Problem{Status: http.StatusUnprocessableEntity, Detail: fmt.Sprintf(format, args...)}
}

// ackError is the answer to whom an error is to blame for; what the node is to blame for is
// in its log.
func (n *node) ackError(err error) bus.Reply {
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
		n.log.Error("an alert is not acknowledged", "err", err)
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
