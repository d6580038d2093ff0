package web

import (
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
	Items   []Handler `json:"items" nullable:"false" doc:"By name."`
	Unasked string    `json:"unasked,omitempty" doc:"Why it is not known which services answer, such as a permission that the NATS user lacks; absent: it is known."`
}

// Handler is a handler, as the answering node knows it.
type Handler struct {
	Name     string   `json:"name" example:"shipping"`
	Rules    []string `json:"rules" nullable:"false" doc:"That name it, at their newest version."`
	Answers  Answerer `json:"answers" enum:"program,service,nobody,unknown" doc:"program: the node's own has it. service: one on NATS. nobody: no service says that it does, and none did at the last check. unknown: nobody could be asked; see unasked."`
	Service  string   `json:"service,omitempty" doc:"What the service calls itself." example:"shipping"`
	Versions []string `json:"versions" nullable:"false" doc:"That its instances say they have."`
	// A service with a plain subscription answers checks, but not discovery.
	Instances int `json:"instances" doc:"Of the service; 0 where it answers checks and does not say so, as a plain subscription."`

	State      string    `json:"state,omitempty" enum:"new,up,failing,down,trying" doc:"Of a service. new: nothing was asked yet. failing: the last check had no answer, or one that is none. down: it hung again and again and is left alone. trying: the next check tries whether it is back."`
	AnsweredAt time.Time `json:"answered_at,omitzero" doc:"When a service answered a check last, since the node started."`
	Error      string    `json:"error,omitempty" doc:"Why a service gave no answer last, also where it does again."`
	ErrorAt    time.Time `json:"error_at,omitzero" doc:"When that was."`
}

// Answerer is the kind of program that answers for a handler.
type Answerer string

// The kinds of answerers.
const (
	ByProgram Answerer = "program"
	ByService Answerer = "service"
	ByNobody  Answerer = "nobody"
	ByWhoever Answerer = "unknown" // unknown, since discovery failed
)

// DefaultKey is the key of a made-up check.
const DefaultKey = "test"

// HandlerTestRequest is the made-up check of a test.
type HandlerTestRequest struct {
	Key   identifier      `json:"key,omitempty" doc:"Absent: test." example:"1042"`
	Event json.RawMessage `json:"event,omitempty" doc:"The body of the event that began the wait; absent: {}."`
}

// HandlerTestResult is the result of a test.
type HandlerTestResult struct {
	Handler string         `json:"handler"`
	Rule    string         `json:"rule,omitempty" doc:"Whose check it was made up as; absent: no rule names the handler."`
	Key     string         `json:"key"`
	TookMS  float64        `json:"took_ms" doc:"How long it took, in milliseconds."`
	Error   string         `json:"error,omitempty" doc:"What is wrong, and where; absent: the answer is one, and no guard would end the wait for it."`
	Answer  *HandlerAnswer `json:"answer,omitempty" doc:"Absent: there was none."`
}

// HandlerAnswer is a handler's answer, with defaults filled in.
type HandlerAnswer struct {
	Next    time.Time       `json:"next,omitzero" doc:"When it would be looked at again; absent: the wait would end."`
	Nominal bool            `json:"nominal,omitempty"`
	Outcome string          `json:"outcome,omitempty" doc:"How the wait would end."`
	Step    int             `json:"step"`
	State   json.RawMessage `json:"state,omitempty"`
	Alerts  []alerts.Draft  `json:"alerts" nullable:"false"`
}

// handlerAPI has the operations on handlers.
type handlerAPI struct {
	handlers Handlers // nil: the node has none
}

func (a *handlerAPI) register(all *operations) {
	register(all, operation{
		ID: "list-handlers", Tag: tagNode, Method: "GET", Path: "/handlers", Does: "lists the handlers that rules want, and who answers for them",
		Says:  "Services are asked who they are, for up to a second. How they did is as the node knows it that answers.",
		Scope: access.Read, Reach: reachAll,
	}, withBody(a.list))
	register(all, operation{
		ID: "test-handler", Tag: tagNode, Method: "POST", Path: "/handlers/{name}/test", Does: "asks a handler once about a check that is made up, and says what is wrong with its answer",
		Says: "The check is marked as asked by a person (manual), and nothing comes of it. It is that of a rule that names the handler, where there is one. " +
			"A handler with effects (at_most_once) is not asked.",
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
	Name identifier `path:"name" doc:"The handler's name, as rules have it." example:"shipping"`
	Body HandlerTestRequest
}

func (a *handlerAPI) test(ctx context.Context, in *handlerTrialIn) (HandlerTestResult, error) {
	if a.handlers == nil {
		return HandlerTestResult{}, problem(http.StatusNotFound, "this node has no handlers")
	}
	return a.handlers.TryHandler(ctx, string(in.Name), in.Body)
}
