package web

import (
	"cmp"
	"context"
	"encoding/json"
	"net/http"
	"time"

	"deadman/alerts"
	"deadman/internal/access"
)

// Handlers lists and tests the handlers of rules. Implementations are safe for concurrent use.
type Handlers interface {
	// List returns the handlers that rules name, the program registered or services offer, sorted by name.
	List(ctx context.Context) (HandlerList, error)
	// TryHandler calls a handler once with a made-up check, and changes nothing.
	TryHandler(ctx context.Context, name string, of HandlerTestRequest) (HandlerTestResult, error)
}

// HandlerList is the list of all handlers.
type HandlerList struct {
	Items          []Handler `json:"items" nullable:"false" doc:"Handlers, by name."`
	DiscoveryError string    `json:"discovery_error,omitempty" doc:"Reason why services on NATS could not be discovered, such as a missing permission. Absent if discovery succeeded."`
}

// Handler is a handler, as the answering node knows it.
type Handler struct {
	Name     string          `json:"name" doc:"Name of the handler." example:"shipping"`
	Rules    []string        `json:"rules" nullable:"false" doc:"Rules whose newest version uses the handler."`
	Provider HandlerProvider `json:"provider" enum:"program,service,none,unknown" doc:"program: the node process. service: a service on NATS. none: no service offers the handler, and none answered the last check. unknown: services could not be discovered; see discovery_error."`
	Service  string          `json:"service,omitempty" doc:"Name of the NATS service." example:"shipping"`
	Versions []string        `json:"versions" nullable:"false" doc:"Versions of the service instances."`
	// A service with a plain subscription answers checks, but not discovery.
	Instances int `json:"instances" doc:"Number of service instances. 0 if the handler answers checks without a NATS service, such as a plain subscription."`

	State      string    `json:"state,omitempty" enum:"new,up,failing,down,probing" doc:"State of a service. new: no check was sent yet. up: the last check was answered. failing: the last check failed. down: repeated timeouts; no checks are sent for a while. probing: the next check tests whether the service has recovered."`
	AnsweredAt time.Time `json:"answered_at,omitzero" doc:"Time of the last answer to a check since the node started."`
	Error      string    `json:"error,omitempty" doc:"Last error of the service, kept after recovery."`
	ErrorAt    time.Time `json:"error_at,omitzero" doc:"Time of the last error."`
}

// HandlerProvider is the kind of program that answers for a handler.
type HandlerProvider string

// The kinds of answerers.
const (
	ProvidedByProgram HandlerProvider = "program"
	ProvidedByService HandlerProvider = "service"
	ProvidedByNone    HandlerProvider = "none"
	ProviderUnknown   HandlerProvider = "unknown" // unknown, since discovery failed
)

// DefaultKey is the key of a made-up check.
const DefaultKey = "test"

// HandlerTestRequest is the made-up check of a test.
type HandlerTestRequest struct {
	Key   identifier      `json:"key,omitempty" doc:"Key of the test check. Default: test." example:"1042"`
	Event json.RawMessage `json:"event,omitempty" doc:"Body of the trigger event. Default: {}."`
}

// HandlerTestResult is the result of a test.
type HandlerTestResult struct {
	Handler    string         `json:"handler" doc:"Name of the handler."`
	Rule       string         `json:"rule,omitempty" doc:"Rule of the test check. Absent if no rule uses the handler."`
	Key        string         `json:"key" doc:"Key of the test check."`
	DurationMS float64        `json:"duration_ms" doc:"Duration of the call in milliseconds."`
	Error      string         `json:"error,omitempty" doc:"Error, with its place in the answer. Absent if the answer is valid and no guard would end the job because of it."`
	Answer     *HandlerAnswer `json:"answer,omitempty" doc:"Answer of the handler. Absent if there was none."`
}

// HandlerAnswer is a handler's answer, with defaults filled in.
type HandlerAnswer struct {
	Next    time.Time       `json:"next,omitzero" doc:"Time of the next check. Absent if the job would end."`
	Nominal bool            `json:"nominal,omitempty" doc:"Whether next is a planned time that does not depend on this check."`
	Outcome string          `json:"outcome,omitempty" doc:"Outcome with which the job would end."`
	Step    int             `json:"step" doc:"Number of steps taken after the check."`
	State   json.RawMessage `json:"state,omitempty" doc:"State of the job after the check."`
	Alerts  []alerts.Draft  `json:"alerts" nullable:"false" doc:"Alerts that would be raised."`
}

// handlerAPI has the operations on handlers.
type handlerAPI struct {
	handlers Handlers       // nil: the node has none
	keeper   *access.Tokens // of the audit log
}

func (a *handlerAPI) register(all *operations) {
	register(all, operation{
		ID: "list-handlers", Tag: tagNode, Method: "GET", Path: "/handlers", Summary: "list handlers, their providers and their state",
		Description: "Queries services on NATS for up to a second. The state is the one known to the node that answers.",
		Scope:       access.Read, Reach: reachAll,
	}, withBody(a.list))
	register(all, operation{
		ID: "test-handler", Tag: tagNode, Method: "POST", Path: "/handlers/{name}/test", Summary: "call a handler with a test check",
		Description: "The check is marked as manual and has no effect on jobs. If a rule uses the handler, the check is one of that rule. Handlers " +
			"with side effects (at_most_once) are not called. The test is recorded in the audit log.",
		Scope: access.Rules, Reach: reachAll, Status: http.StatusOK, Errors: []int{http.StatusNotFound},
	}, withBody(a.test))
}

func (a *handlerAPI) list(ctx context.Context, _ *nothing) (HandlerList, error) {
	if a.handlers == nil {
		return HandlerList{Items: []Handler{}}, nil
	}
	return a.handlers.List(ctx)
}

// handlerTrialIn has the handler and the check of a test.
type handlerTrialIn struct {
	Name identifier `path:"name" doc:"Name of the handler, as used in rules." example:"shipping"`
	Body HandlerTestRequest
}

func (a *handlerAPI) test(ctx context.Context, in *handlerTrialIn) (HandlerTestResult, error) {
	if a.handlers == nil {
		return HandlerTestResult{}, problem(http.StatusNotFound, "this node has no handlers")
	}
	tried, err := a.handlers.TryHandler(ctx, string(in.Name), in.Body)
	if err != nil {
		return tried, err
	}
	return tried, noteTest(ctx, a.keeper, access.HandlerTest, "handler/"+tried.Handler, cmp.Or(tried.Error, "answered"))
}
