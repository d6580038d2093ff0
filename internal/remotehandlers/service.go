// Package remotehandlers asks handlers in any language: services that answer on NATS.
package remotehandlers

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"strings"
	"sync"
	"time"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/micro"
	"github.com/sony/gobreaker/v2"

	"deadman/checks"
)

// Subject is where the handler of a name answers.
func Subject(name string) string { return subjects + name }

const subjects = "deadman.handlers."

// deadlineHeader is until when an answer counts, RFC 3339.
const deadlineHeader = "Deadman-Deadline"

// When a service is left alone, so that it holds up nobody but those who need it.
const (
	maxConsecutiveTimeouts = 5 // checks in a row that had no answer in time
	backoffAfterTimeouts   = 10 * time.Second
)

// Requester carries a request to whoever answers on a subject. Its errors are nats.ErrNoResponders,
// that of ctx, and those that mean that nobody can be asked at the moment.
type Requester interface {
	Request(ctx context.Context, m *nats.Msg) (*nats.Msg, error)
	// RequestMany asks all who answer on a subject, and returns up to most answers: those that came
	// until nothing did for quiet after the first, or until ctx's deadline. That nobody answers is
	// no error.
	RequestMany(ctx context.Context, subject string, most int, quiet time.Duration) ([]*nats.Msg, error)
}

// Services are the handlers that answer elsewhere, by name. It is safe for concurrent use.
type Services struct {
	wire Requester

	mu    sync.Mutex
	known map[string]*service
}

// NewServices returns the services that answer over a wire.
func NewServices(wire Requester) *Services {
	return &Services{wire: wire, known: make(map[string]*service)}
}

// Named is the handler that answers under a name, whether or not it does at the moment.
func (s *Services) Named(name string) checks.Handler {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.known[name] == nil {
		s.known[name] = &service{name: name, wire: s.wire, breaker: gobreaker.NewCircuitBreaker[checks.Answer](gobreaker.Settings{
			Timeout:      backoffAfterTimeouts,
			ReadyToTrip:  func(c gobreaker.Counts) bool { return c.ConsecutiveFailures >= maxConsecutiveTimeouts },
			IsSuccessful: func(err error) bool { return !errors.Is(err, context.DeadlineExceeded) },
			IsExcluded:   func(err error) bool { return errors.Is(err, context.Canceled) },
		})}
	}
	return s.known[name]
}

// service is one handler, however many rules name it.
type service struct {
	name    string
	wire    Requester
	breaker *gobreaker.CircuitBreaker[checks.Answer]
	tally   stats
}

var _ checks.Handler = (*service)(nil)

// errBackingOff means that a service hung, and is not asked for a while.
var errBackingOff = fmt.Errorf("%d checks in a row had no answer in time, so that it is not asked for %s; see what it waits for, or raise guards.timeout", maxConsecutiveTimeouts, backoffAfterTimeouts)

// Check asks the service. That it can't be asked at all is a checks.Outage.
func (s *service) Check(ctx context.Context, c checks.Check) (checks.Answer, error) {
	answer, err := s.breaker.Execute(func() (checks.Answer, error) {
		answer, err := s.ask(ctx, c)
		s.tally.heard(err, time.Now().UTC())
		return answer, err
	})
	if errors.Is(err, gobreaker.ErrOpenState) || errors.Is(err, gobreaker.ErrTooManyRequests) {
		return checks.Answer{}, s.outage(errBackingOff)
	}
	return answer, err
}

func (s *service) outage(err error) error {
	return &checks.Outage{Source: checks.HandlerSource(s.name), Err: err}
}

func (s *service) ask(ctx context.Context, c checks.Check) (checks.Answer, error) {
	m, err := s.message(ctx, c)
	if err != nil {
		return checks.Answer{}, err
	}
	got, err := s.wire.Request(ctx, m)
	switch {
	case errors.Is(err, nats.ErrNoResponders):
		return checks.Answer{}, s.outage(fmt.Errorf("no service answers on %s; start one, or correct the name in the rule", m.Subject))
	case ctx.Err() != nil:
		return checks.Answer{}, fmt.Errorf("the service on %s did not answer in time: %w", m.Subject, ctx.Err())
	case errors.Is(err, nats.ErrMaxPayload):
		return checks.Answer{}, fmt.Errorf("the check has %d bytes, which NATS does not take; have the events of the rule carry less, or raise max_payload there", len(m.Data))
	case err != nil:
		return checks.Answer{}, s.outage(err)
	}
	answer, err := answered(got, c)
	if err != nil {
		return checks.Answer{}, fmt.Errorf("the answer on %s is none: %w", m.Subject, err)
	}
	return answer, nil
}

// message is a check on its way.
func (s *service) message(ctx context.Context, c checks.Check) (*nats.Msg, error) {
	m, asked := nats.NewMsg(Subject(s.name)), newRequest(c)
	if until, bounded := ctx.Deadline(); bounded {
		asked.Deadline = until.UTC()
		m.Header.Set(deadlineHeader, asked.Deadline.Format(time.RFC3339Nano))
	}
	var err error
	if m.Data, err = json.Marshal(asked); err != nil {
		return nil, fmt.Errorf("the check as JSON: %w", err)
	}
	return m, nil
}

// answered reads what a service answered to a check.
func answered(m *nats.Msg, c checks.Check) (checks.Answer, error) {
	if code := m.Header.Get(micro.ErrorCodeHeader); code != "" {
		return checks.Answer{}, fmt.Errorf("the service says %s: %s", code, clip(m.Header.Get(micro.ErrorHeader)))
	}
	return readAnswer(m.Data, c)
}

// clipMost is how much is quoted of what somebody else wrote, in bytes.
const clipMost = 200

func clip(text string) string {
	if len(text) <= clipMost {
		return text
	}
	return strings.ToValidUTF8(text[:clipMost], "") + "…"
}
