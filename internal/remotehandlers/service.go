// Package remotehandlers calls handlers written in any language: services that answer on NATS.
package remotehandlers

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"sync"
	"time"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/micro"
	"github.com/sony/gobreaker/v2"

	"deadman/checks"
	"deadman/checks/lookup"
	"deadman/internal/configfile"
	"deadman/internal/subjects"
)

// Subject returns the NATS subject of a handler, without a namespace.
func Subject(name string) string { return prefix + name }

const prefix = "deadman.handlers."

// deadlineHeader is the header with the time until which an answer counts, in RFC 3339.
const deadlineHeader = "Deadman-Deadline"

// When a service that hangs is not called for a while, so that it delays only the jobs that need it.
const (
	maxConsecutiveTimeouts = 5 // consecutive checks without an answer in time
	backoffAfterTimeouts   = 10 * time.Second
)

// Requester sends a request to the services on a subject. Its errors are nats.ErrNoResponders, the error of ctx, and
// errors that mean that no request can be sent at the moment.
type Requester interface {
	Request(ctx context.Context, m *nats.Msg) (*nats.Msg, error)
	// RequestMany sends a request to all services on a subject and returns up to limit answers. It ends when no answer
	// arrives for quiet after the first one, or at ctx's deadline. Having no answers is not an error.
	RequestMany(ctx context.Context, subject string, limit int, quiet time.Duration) ([]*nats.Msg, error)
}

// Services are the remote handlers by name. It is safe for concurrent use.
type Services struct {
	wire      Requester
	namespace subjects.Namespace

	mu    sync.Mutex
	known map[string]*service
}

// NewServices returns the handlers of a namespace reachable through wire.
func NewServices(wire Requester, namespace subjects.Namespace) *Services {
	return &Services{wire: wire, namespace: namespace, known: make(map[string]*service)}
}

// Named returns the handler of a name, whether or not a service answers at the moment.
func (s *Services) Named(name string) checks.Handler {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.known[name] == nil {
		s.known[name] = &service{name: name, subject: s.namespace.Subject(Subject(name)), wire: s.wire, breaker: gobreaker.NewCircuitBreaker[checks.Answer](gobreaker.Settings{
			Timeout:      backoffAfterTimeouts,
			ReadyToTrip:  func(c gobreaker.Counts) bool { return c.ConsecutiveFailures >= maxConsecutiveTimeouts },
			IsSuccessful: func(err error) bool { return !errors.Is(err, context.DeadlineExceeded) },
			IsExcluded:   func(err error) bool { return errors.Is(err, context.Canceled) },
		})}
	}
	return s.known[name]
}

// Discover queries all services of NATS for up to a second, and returns those that answer as handlers, by handler name.
// A plain subscription is not discovered. The errors are those of Requester.RequestMany.
func (s *Services) Discover(ctx context.Context) (Directory, error) {
	ctx, cancel := context.WithTimeout(ctx, findTime)
	defer cancel()
	answers, err := s.wire.RequestMany(ctx, Discovery, findMost, findQuiet)
	if err != nil {
		return nil, fmt.Errorf("discover handlers: %w", err)
	}
	all := make(Directory)
	for _, m := range answers {
		var info micro.Info
		if json.Unmarshal(m.Data, &info) != nil || info.Type != micro.InfoResponseType {
			continue // not a NATS service
		}
		for _, name := range handlerNames(info, s.namespace.Subject(prefix)) {
			all[name] = all[name].and(info)
		}
	}
	return all, nil
}

// State returns the state of the service of a name.
func (s *Services) State(name string) State {
	s.mu.Lock()
	one := s.known[name]
	s.mu.Unlock()
	if one == nil {
		return State{Health: lookup.New}
	}
	state := one.tally.state()
	switch one.breaker.State() {
	case gobreaker.StateOpen:
		state.Health = lookup.Down
	case gobreaker.StateHalfOpen:
		state.Health = lookup.Probing
	case gobreaker.StateClosed:
	}
	return state
}

// service is one handler, shared by all rules that name it.
type service struct {
	name    string
	subject string
	wire    Requester
	breaker *gobreaker.CircuitBreaker[checks.Answer]
	tally   stats
}

var _ checks.Handler = (*service)(nil)

// errBackingOff means that a service hung and is not called for a while.
var errBackingOff = fmt.Errorf("%d consecutive checks had no answer in time, so the handler is not called for %s; fix the service, or increase guards.timeout", maxConsecutiveTimeouts, backoffAfterTimeouts)

// Check calls the service. If the service is unreachable, the error is a checks.Outage.
func (s *service) Check(ctx context.Context, c checks.Check) (checks.Answer, error) {
	answer, err := s.breaker.Execute(func() (checks.Answer, error) {
		answer, err := s.request(ctx, c)
		s.tally.record(err, time.Now().UTC())
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

func (s *service) request(ctx context.Context, c checks.Check) (checks.Answer, error) {
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
		return checks.Answer{}, fmt.Errorf("the check has %d bytes, more than NATS accepts; make the events of the rule smaller, or increase max_payload", len(m.Data))
	case err != nil:
		return checks.Answer{}, s.outage(err)
	}
	answer, err := answered(got, c)
	if err != nil {
		return checks.Answer{}, fmt.Errorf("invalid answer on %s: %w", m.Subject, err)
	}
	return answer, nil
}

// message encodes a check as a NATS message.
func (s *service) message(ctx context.Context, c checks.Check) (*nats.Msg, error) {
	m, request := nats.NewMsg(s.subject), newRequest(c)
	if until, bounded := ctx.Deadline(); bounded {
		request.Deadline = until.UTC()
		m.Header.Set(deadlineHeader, request.Deadline.Format(time.RFC3339Nano))
	}
	var err error
	if m.Data, err = json.Marshal(request); err != nil {
		return nil, fmt.Errorf("encode the check: %w", err)
	}
	return m, nil
}

// answered parses a service's answer to a check.
func answered(m *nats.Msg, c checks.Check) (checks.Answer, error) {
	if code := m.Header.Get(micro.ErrorCodeHeader); code != "" {
		return checks.Answer{}, fmt.Errorf("the service responded with error %s: %s", code, clip(m.Header.Get(micro.ErrorHeader)))
	}
	return readAnswer(m.Data, c)
}

// clip limits the length of a text quoted from an answer.
func clip(text string) string { return configfile.Truncate(text, 200) }
