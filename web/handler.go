package web

import (
	"context"
	"encoding/json"
	"net/http"
	"time"

	"deadman/alerts"
	"deadman/internal/access"
)

// Handlers is who answers checks in the place of rules. Implementations are safe for concurrent
// use.
type Handlers interface {
	// List returns the handlers that rules want, that the program registered and that services
	// answer for, by name.
	List(ctx context.Context) (HandlerList, error)
	// TryHandler asks a handler once about a check that is made up, and changes nothing.
	TryHandler(ctx context.Context, name string, of HandlerTestRequest) (HandlerTestResult, error)
}

// HandlerList are all handlers.
type HandlerList struct {
	Items   []Handler `json:"items" nullable:"false" doc:"By name."`
	Unasked string    `json:"unasked,omitempty" doc:"Why it is not known which services answer, such as a permission that the NATS user lacks; absent: it is known."`
}

// Handler is who answers under a name, as the node knows it that was asked.
type Handler struct {
	Name     string   `json:"name" example:"shipping"`
	Rules    []string `json:"rules" nullable:"false" doc:"That name it, at their newest version."`
	Answers  Answerer `json:"answers" enum:"program,service,nobody,unknown" doc:"program: the node's own has it. service: one on NATS. nobody: no service says that it does, and none did at the last check. unknown: nobody could be asked; see unasked."`
	Service  string   `json:"service,omitempty" doc:"What the service calls itself." example:"shipping"`
	Versions []string `json:"versions" nullable:"false" doc:"That its instances say they have."`
	// A service that is a plain subscription answers checks, and does not say so.
	Instances int `json:"instances" doc:"Of the service; 0 where it answers checks and does not say so, as a plain subscription."`

	State      string    `json:"state,omitempty" enum:"new,up,failing,down,trying" doc:"Of a service. new: nothing was asked yet. failing: the last check had no answer, or one that is none. down: it hung again and again and is left alone. trying: the next check tries whether it is back."`
	AnsweredAt time.Time `json:"answered_at,omitzero" doc:"When a service answered a check last, since the node started."`
	Error      string    `json:"error,omitempty" doc:"Why a service gave no answer last, also where it does again."`
	ErrorAt    time.Time `json:"error_at,omitzero" doc:"When that was."`
}

// Answerer is who answers under the name of a handler.
type Answerer string

// Who answers.
const (
	ByProgram Answerer = "program"
	ByService Answerer = "service"
	ByNobody  Answerer = "nobody"
	ByWhoever Answerer = "unknown" // it could not be found out
)

// DefaultKey is the key of a check that is made up.
const DefaultKey = "test"

// HandlerTestRequest is what a handler is asked about.
type HandlerTestRequest struct {
	Key   identifier      `json:"key,omitempty" doc:"Absent: test." example:"1042"`
	Event json.RawMessage `json:"event,omitempty" doc:"The body of the event that began the wait; absent: {}."`
}

// HandlerTestResult is what came of asking a handler.
type HandlerTestResult struct {
	Handler string         `json:"handler"`
	Rule    string         `json:"rule,omitempty" doc:"Whose check it was made up as; absent: no rule names the handler."`
	Key     string         `json:"key"`
	TookMS  float64        `json:"took_ms" doc:"How long it took, in milliseconds."`
	Error   string         `json:"error,omitempty" doc:"What is wrong, and where; absent: the answer is one, and no guard would end the wait for it."`
	Answer  *HandlerAnswer `json:"answer,omitempty" doc:"Absent: there was none."`
}

// HandlerAnswer is what a handler answered, with what it left out filled in.
type HandlerAnswer struct {
	Next    time.Time       `json:"next,omitzero" doc:"When it would be looked at again; absent: the wait would end."`
	Nominal bool            `json:"nominal,omitempty"`
	Outcome string          `json:"outcome,omitempty" doc:"How the wait would end."`
	Step    int             `json:"step"`
	State   json.RawMessage `json:"state,omitempty"`
	Alerts  []alerts.Draft  `json:"alerts" nullable:"false"`
}

func (a *api) mountHandlers() {
	register(a, operation{
		ID: "list-handlers", Tag: tagNode, Method: "GET", Path: "/handlers", Does: "lists the handlers that rules want, and who answers for them",
		Says:  "Services are asked who they are, for up to a second. How they did is as the node knows it that answers.",
		Scope: access.Read, Reach: reachAll,
	}, withBody(a.handlerRoll))
	register(a, operation{
		ID: "test-handler", Tag: tagNode, Method: "POST", Path: "/handlers/{name}/test", Does: "asks a handler once about a check that is made up, and says what is wrong with its answer",
		Says: "The check is marked as asked by a person (manual), and nothing comes of it. It is that of a rule that names the handler, where there is one. " +
			"A handler with effects (at_most_once) is not asked.",
		Scope: access.Rules, Reach: reachAll, Status: http.StatusOK, Errors: []int{http.StatusNotFound},
	}, withBody(a.testHandler))
}

func (a *api) handlerRoll(ctx context.Context, _ *nothing) (HandlerList, error) {
	if a.Handlers == nil {
		return HandlerList{Items: []Handler{}}, nil
	}
	return a.Handlers.List(ctx)
}

// handlerTrialIn is which handler to ask, and about what.
type handlerTrialIn struct {
	Name identifier `path:"name" doc:"The handler's name, as rules have it." example:"shipping"`
	Body HandlerTestRequest
}

func (a *api) testHandler(ctx context.Context, in *handlerTrialIn) (HandlerTestResult, error) {
	if a.Handlers == nil {
		return HandlerTestResult{}, problem(http.StatusNotFound, "this node has no handlers")
	}
	return a.Handlers.TryHandler(ctx, string(in.Name), in.Body)
}
