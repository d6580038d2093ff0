package server

import (
	"cmp"
	"context"
	"encoding/json"
	"maps"
	"slices"
	"time"

	"deadman/alerts"
	"deadman/checks"
	"deadman/checks/lookup"
	"deadman/internal/remotehandlers"
	"deadman/rules"
	"deadman/web"
)

// maxTrials bounds concurrent handler trials. A trial that outlasts its timeout keeps its place until the handler
// returns.
const maxTrials = 4

// handlerDirectory lists and tests the handlers of rules.
type handlerDirectory struct {
	services   *remotehandlers.Services
	registered []string
	fallback   bool // the program's fallback serves all unregistered names
	trials     chan struct{}

	rules *rules.Registry
	now   func() time.Time
}

var _ web.Handlers = (*handlerDirectory)(nil)

// newHandlerDirectory returns a directory of the program's handlers, and of remote services under all other names.
// rules and now must be set before use.
func newHandlerDirectory(own *checks.Handlers, services *remotehandlers.Services) *handlerDirectory {
	return &handlerDirectory{
		services: services, registered: own.Registered(), fallback: own != nil && own.Fallback != nil, trials: make(chan struct{}, maxTrials),
	}
}

// List returns the handlers, sorted by name.
func (a *handlerDirectory) List(ctx context.Context) (web.HandlerList, error) {
	wanted, err := a.rules.Wanted(ctx)
	if err != nil {
		return web.HandlerList{}, err
	}
	roll := web.HandlerList{Items: []web.Handler{}}
	found, err := a.services.Discover(ctx)
	if ctx.Err() != nil {
		return roll, ctx.Err()
	}
	if err != nil {
		roll.DiscoveryError = err.Error()
	}
	names := slices.Concat(slices.Collect(maps.Keys(wanted)), a.registered, found.Names())
	slices.Sort(names)
	for _, name := range slices.Compact(names) {
		h := web.Handler{Name: name, Rules: append([]string{}, wanted[name]...), Versions: []string{}}
		if a.isLocal(name) {
			h.Provider = web.ProvidedByProgram
		} else {
			a.describeRemote(&h, found, err)
		}
		roll.Items = append(roll.Items, h)
	}
	return roll, nil
}

// isLocal reports whether the program itself serves a handler name.
func (a *handlerDirectory) isLocal(name string) bool {
	return a.fallback || slices.Contains(a.registered, name)
}

// describeRemote adds the service of a remote handler and its health.
func (a *handlerDirectory) describeRemote(h *web.Handler, found remotehandlers.Directory, listErr error) {
	state := a.services.State(h.Name)
	h.State, h.AnsweredAt, h.Error, h.ErrorAt = string(state.Health), state.AnsweredAt, state.Error, state.ErrorAt
	is, provided := found.Of(h.Name)
	switch {
	case provided:
		h.Provider, h.Service, h.Versions, h.Instances = web.ProvidedByService, is.Service, is.Versions, is.Instances
	case state.Health == lookup.Up:
		h.Provider = web.ProvidedByService
	case listErr != nil:
		h.Provider = web.ProviderUnknown
	default:
		h.Provider = web.ProvidedByNone
	}
}

// TryHandler calls a handler once. A failure of the handler is part of the result.
func (a *handlerDirectory) TryHandler(ctx context.Context, name string, of web.HandlerTestRequest) (web.HandlerTestResult, error) {
	tried := web.HandlerTestResult{Handler: name, Key: cmp.Or(string(of.Key), web.DefaultKey)}
	select {
	case a.trials <- struct{}{}:
	default:
		tried.Error = "handlers that were tried before have not returned; try again once they have"
		return tried, nil
	}
	event := of.Event
	if event == nil {
		event = json.RawMessage("{}")
	}
	begun := time.Now()
	trial, err := a.rules.TryHandler(ctx, name, tried.Key, event, a.now())
	if err != nil {
		<-a.trials
		return tried, err
	}
	go func() {
		<-trial.Returned
		<-a.trials
	}()
	tried.Rule, tried.DurationMS = trial.Rule, float64(time.Since(begun).Microseconds())/1000
	if trial.Err != nil {
		tried.Error = trial.Err.Error()
	} else {
		tried.Error, tried.Answer = trial.Breach, toHandlerAnswer(trial.Answer)
	}
	return tried, nil
}

func toHandlerAnswer(a checks.Answer) *web.HandlerAnswer {
	return &web.HandlerAnswer{
		Next: a.Next, Nominal: a.Nominal, Outcome: string(a.Outcome), Step: a.Step, State: a.State, Alerts: append([]alerts.Draft{}, a.Alerts...),
	}
}
