package rules

import (
	"context"
	"encoding/json"

	futurejobs "deadman/future_jobs"
)

// Trial is the result of calling a handler with a made-up check.
type Trial struct {
	futurejobs.Trial
	Rule string // the rule of the made-up check; empty: no rule names the handler
}

// ruleNaming returns a rule that names a handler: preferably an existing one that declares effects, then any existing one,
// then a made-up one.
func ruleNaming(ctx context.Context, r *Registry, handler string) (rule *Rule, named string, err error) {
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
