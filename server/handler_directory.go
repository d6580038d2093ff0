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

// trialsMost bounds how many handlers are tried at once. One that does not return when its time
// is over keeps its place.
const trialsMost = 4

// answerers is who answers checks in the place of rules.
type answerers struct {
	services   *remotehandlers.Services
	registered []string
	whoever    bool // the program answers for names that nobody registered
	trials     chan struct{}

	rules *rules.Registry
	now   func() time.Time
}

var _ web.Handlers = (*answerers)(nil)

// newAnswerers are the handlers of the program, and services under the other names. rules and now
// are set before they are asked for.
func newAnswerers(own *checks.Handlers, services *remotehandlers.Services) *answerers {
	return &answerers{
		services: services, registered: own.Registered(), whoever: own != nil && own.Fallback != nil, trials: make(chan struct{}, trialsMost),
	}
}

// Roll returns the handlers, by name.
func (a *answerers) Roll(ctx context.Context) (web.HandlerRoll, error) {
	wanted, err := a.rules.Wanted(ctx)
	if err != nil {
		return web.HandlerRoll{}, err
	}
	roll := web.HandlerRoll{Items: []web.Handler{}}
	found, err := a.services.Find(ctx)
	if ctx.Err() != nil {
		return roll, ctx.Err()
	}
	if err != nil {
		roll.Unasked = err.Error()
	}
	names := slices.Concat(slices.Collect(maps.Keys(wanted)), a.registered, found.Names())
	slices.Sort(names)
	for _, name := range slices.Compact(names) {
		h := web.Handler{Name: name, Rules: append([]string{}, wanted[name]...), Versions: []string{}}
		if a.ours(name) {
			h.Answers = web.ByProgram
		} else {
			a.fill(&h, found, err)
		}
		roll.Items = append(roll.Items, h)
	}
	return roll, nil
}

// ours reports whether the program itself answers under a name.
func (a *answerers) ours(name string) bool {
	return a.whoever || slices.Contains(a.registered, name)
}

// fill says of a handler which service answers, and how that did.
func (a *answerers) fill(h *web.Handler, found remotehandlers.Roll, unasked error) {
	state := a.services.State(h.Name)
	h.State, h.AnsweredAt, h.Error, h.ErrorAt = string(state.Health), state.AnsweredAt, state.Error, state.ErrorAt
	is, says := found.Of(h.Name)
	switch {
	case says:
		h.Answers, h.Service, h.Versions, h.Instances = web.ByService, is.Service, is.Versions, is.Instances
	case state.Health == lookup.Up:
		h.Answers = web.ByService
	case unasked != nil:
		h.Answers = web.ByWhoever
	default:
		h.Answers = web.ByNobody
	}
}

// TryHandler asks a handler once. That it does not answer, or not well, is what came of it.
func (a *answerers) TryHandler(ctx context.Context, name string, of web.HandlerTrial) (web.TriedHandler, error) {
	tried := web.TriedHandler{Handler: name, Key: cmp.Or(string(of.Key), web.DefaultKey)}
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
	tried.Rule, tried.TookMS = trial.Rule, float64(time.Since(begun).Microseconds())/1000
	if trial.Err != nil {
		tried.Error = trial.Err.Error()
	} else {
		tried.Error, tried.Answer = trial.Breach, answerOf(trial.Answer)
	}
	return tried, nil
}

func answerOf(a checks.Answer) *web.HandlerAnswer {
	return &web.HandlerAnswer{
		Next: a.Next, Nominal: a.Nominal, Outcome: string(a.Outcome), Step: a.Step, State: a.State, Alerts: append([]alerts.Draft{}, a.Alerts...),
	}
}
