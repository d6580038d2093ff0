package web

import (
	"cmp"
	"context"
	"errors"
	"net/http"
	"slices"
	"strings"

	futurejobs "deadman/future_jobs"
	"deadman/internal/access"
	"deadman/rules"
)

// A node reads a folder of rule files when it starts, and saves them in the folder's name. Such rules, and the name, are
// the node's: whoever may change rules over the API does not change what the operator of the node wrote. Where
// a file was removed the rule stays, and a token with the scope admin takes it over or deletes it.

// maySaveInto refuses to save a rule that a node reads from its folder, and to add one to those.
func (a *api) maySaveInto(ctx context.Context, name string, in *SaveRuleInput) error {
	l, err := a.ruleOrNone(ctx, name)
	switch {
	case err != nil:
		return err
	case l.IsOfFolder() && !in.Adopt:
		return problemIs(RuleConflict, http.StatusConflict, "%s", readOnly(l.RuleVersion))
	case l.IsOfFolder() && mayTakeOver(ctx) != nil:
		return problem(http.StatusForbidden, "%s", readOnly(l.RuleVersion))
	case l.Bundle == string(in.Bundle):
		return nil
	}
	return a.mayAddTo(ctx, string(in.Bundle))
}

// mayTakeOver refuses those who may not change what the operator of the node wrote, as all who are bound to a prefix.
func mayTakeOver(ctx context.Context) error {
	v := principalOf(ctx)
	return cmp.Or(v.requireScope(access.Admin), v.requireUnrestricted())
}

// mayAddTo refuses to add a rule to those that a node reads from its folder.
func (a *api) mayAddTo(ctx context.Context, bundle string) error {
	if !strings.HasPrefix(bundle, rules.FilePrefix) {
		return nil
	}
	all, err := a.Rules.List(ctx)
	if err != nil {
		return err
	}
	if slices.ContainsFunc(all, func(l rules.ListedRule) bool { return l.IsOfFolder() && l.Bundle == bundle }) {
		return problemIs(RuleConflict, http.StatusConflict, "the bundle %s is the folder that a node reads rules from (--rules); put the rule's file there, or name another bundle (--bundle)", bundle)
	}
	return nil
}

// mayDelete refuses to delete a rule that a node reads from its folder.
func (a *api) mayDelete(ctx context.Context, name string) error {
	l, err := a.ruleOrNone(ctx, name)
	if err == nil && l.IsOfFolder() && mayTakeOver(ctx) != nil {
		err = problem(http.StatusForbidden, "%s", readOnly(l.RuleVersion))
	}
	return err
}

// ruleOrNone is the rule of a name; of no bundle where there is none.
func (a *api) ruleOrNone(ctx context.Context, name string) (rules.ListedRule, error) {
	l, err := a.Rules.Get(ctx, name)
	if errors.Is(err, futurejobs.ErrNotFound) {
		return rules.ListedRule{}, nil
	}
	return l, err
}

// readOnly says where a rule of a folder is changed.
func readOnly(s rules.RuleVersion) string {
	return "rule " + s.Name + " is read from the folder of a node (--rules, bundle " + s.Bundle + "): change its file there and restart the node. " +
		"Once it is in no file any more, a token with the scope admin takes it over (--adopt) or deletes it (--bundle " + s.Bundle + ")"
}
