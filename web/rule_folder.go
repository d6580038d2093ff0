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

// A node reads a folder of rule files when it starts, and saves them in the folder's bundle. Such rules, and the bundle,
// are the node's: users of the API cannot change files of the node's operator. After a file is removed its rule stays,
// and a token with the scope admin takes it over or deletes it.

// ruleFolders guards the rules that a node reads from a folder.
type ruleFolders struct {
	rules Rules
}

// maySaveInto refuses to change a rule of a node's folder, and to add one to its bundle.
func (a *ruleFolders) maySaveInto(ctx context.Context, name string, in *SaveRuleInput) error {
	l, err := a.ruleOrNone(ctx, name)
	switch {
	case err != nil:
		return err
	case l.IsOfFolder() && !in.Adopt:
		return problemIs(RuleConflict, http.StatusConflict, "%s", readOnly(l.RuleVersion)+toBackfill(in))
	case l.IsOfFolder() && mayTakeOver(ctx) != nil:
		return problem(http.StatusForbidden, "%s", readOnly(l.RuleVersion))
	case l.Bundle == string(in.Bundle):
		return nil
	}
	return a.mayAddTo(ctx, string(in.Bundle))
}

// mayTakeOver refuses visitors who may not change the operator's rules, as all with a prefix.
func mayTakeOver(ctx context.Context) error {
	v := principalOf(ctx)
	return cmp.Or(v.requireScope(access.Admin), v.requireUnrestricted())
}

// mayAddTo refuses to add a rule to the bundle of a node's folder.
func (a *ruleFolders) mayAddTo(ctx context.Context, bundle string) error {
	if !strings.HasPrefix(bundle, rules.FilePrefix) {
		return nil
	}
	all, err := a.rules.List(ctx)
	if err != nil {
		return err
	}
	if slices.ContainsFunc(all, func(l rules.ListedRule) bool { return l.IsOfFolder() && l.Bundle == bundle }) {
		return problemIs(RuleConflict, http.StatusConflict, "the bundle %s is the rules folder of a node (--rules); put the rule file there, or use another bundle (--bundle)", bundle)
	}
	return nil
}

// mayDelete refuses to delete a rule of a node's folder.
func (a *ruleFolders) mayDelete(ctx context.Context, name string) error {
	l, err := a.ruleOrNone(ctx, name)
	if err == nil && l.IsOfFolder() && mayTakeOver(ctx) != nil {
		err = problem(http.StatusForbidden, "%s", readOnly(l.RuleVersion))
	}
	return err
}

// ruleOrNone returns the rule of a name, or the zero rule if it does not exist.
func (a *ruleFolders) ruleOrNone(ctx context.Context, name string) (rules.ListedRule, error) {
	l, err := a.rules.Get(ctx, name)
	if errors.Is(err, futurejobs.ErrNotFound) {
		return rules.ListedRule{}, nil
	}
	return l, err
}

// readOnly explains how to change a rule of a folder.
func readOnly(s rules.RuleVersion) string {
	return "rule " + s.Name + " is read from the folder of a node (--rules, bundle " + s.Bundle + "): change its file there and send the node SIGHUP, or restart it. " +
		"Once it is in no file any more, a token with the scope admin takes it over (--adopt) or deletes it (--bundle " + s.Bundle + ")"
}

// toBackfill explains how the past events of a rule of a folder are processed; empty: the request does not ask for it.
func toBackfill(in *SaveRuleInput) string {
	if in.Since.IsZero() {
		return ""
	}
	return ". To process its past events (--backfill, since), apply the same file with --adopt, too, and a token with the scope admin; " +
		"the node takes the rule back from its file at its next start, or on SIGHUP"
}
