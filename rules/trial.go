package rules

import (
	"context"
	"encoding/json"
	"fmt"
	"time"

	futurejobs "deadman/future_jobs"
	"deadman/internal/access"
)

// Trial is the result of calling a handler with a made-up check.
type Trial struct {
	futurejobs.Trial
	Rule string // the rule of the made-up check; empty: no rule names the handler
}

// Wanted returns the names of handlers that rules name in their newest versions, and the rules of each.
func (r *Registry) Wanted(ctx context.Context) (map[string][]string, error) {
	all, err := r.List(ctx)
	if err != nil {
		return nil, err
	}
	wanted := make(map[string][]string)
	for _, l := range all {
		if name := l.Document.Handler; name != "" {
			wanted[name] = append(wanted[name], l.Name)
		}
	}
	return wanted, nil
}

// TryHandler calls a handler once about an entity, with a check at the last slot before now of a rule that names it, or
// of a made-up rule. Its answer is not applied. The error is Problems or of the store.
func (r *Registry) TryHandler(ctx context.Context, name, key string, event json.RawMessage, now time.Time) (Trial, error) {
	body := newBody(event)
	if !namePattern.MatchString(name) {
		return Trial{}, Problems{{Pointer: "/name", Message: fmt.Sprintf("%q is not a name; write %s", clip(name, 80), nameForm)}}
	}
	if err := checkKey(key); err != nil {
		return Trial{}, Problems{{Pointer: "/key", Message: err.Error()}}
	}
	if err := body.check(); err != nil {
		return Trial{}, Problems{{Pointer: "/event", Message: err.Error()}}
	}
	if err := access.BoundsOf(ctx).MayCall(name); err != nil {
		return Trial{}, Problems{{Pointer: "/name", Message: err.Error()}}
	}
	rule, named, err := r.naming(ctx, name)
	if err != nil {
		return Trial{}, err
	}
	slot := rule.engine.Grid.Up(now.Add(-time.Duration(rule.engine.Grid)))
	trial := rule.engine.Try(ctx, futurejobs.Job{
		Ref: futurejobs.Ref{RuleID: rule.engine.ID, Key: key}, Version: rule.engine.Version,
		Since: slot, FirstCheckAt: slot, NextCheckAt: slot, Event: body.valid(),
	}, now)
	return Trial{Trial: trial, Rule: named}, nil
}

// naming returns a rule that names a handler: preferably an existing one that declares effects, then any existing one,
// then a made-up one.
func (r *Registry) naming(ctx context.Context, handler string) (rule *Rule, named string, err error) {
	all, err := r.List(ctx)
	if err != nil {
		return nil, "", err
	}
	var of *ListedRule
	for i := range all {
		if l := &all[i]; l.Document.Handler == handler && (of == nil || l.Document.AtMostOnce && !of.Document.AtMostOnce) {
			of = l
		}
	}
	if of != nil {
		rule, err = compileAmid(of.Document, of.RuleVersion, r.outside())
		return rule, of.Name, err
	}
	text, err := json.Marshal(map[string]any{
		"name": "handler-test", "entity": "thing", "trigger": map[string]string{"event": "handler.test", "key": "event.id"}, "handler": handler,
	})
	if err != nil {
		return nil, "", wrapErr("make up a rule", err)
	}
	made, err := r.parse(ctx, text, "")
	if err != nil {
		return nil, "", err
	}
	rule, err = compileAmid(made[0].Document, RuleVersion{Version: 1}, r.outside())
	return rule, "", err
}
