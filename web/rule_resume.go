package web

import (
	"context"
	"errors"
	"net/http"
	"strings"

	futurejobs "deadman/future_jobs"
	"deadman/internal/access"
	"deadman/rules"
)

// resumedAtOnce is the largest number of rules that one request resumes. Each is a transaction with its audit entry.
const resumedAtOnce = 200

// Resumed is the result of resuming several rules.
type Resumed struct {
	Resumed int      `json:"resumed" doc:"The number of rules that were resumed." example:"3"`
	Rules   []string `json:"rules" nullable:"false" doc:"The names of the resumed rules, in order."`
	Next    string   `json:"next,omitempty" doc:"The after of the next call; absent: that was all." example:"acme-late"`
}

// RuleResumeSelection selects paused rules. All of them must be selected explicitly.
type RuleResumeSelection struct {
	Prefix identifier `query:"prefix" doc:"Names that begin so, with a * at the end or without." example:"acme-*"`
	Reason string     `query:"reason" enum:"cost,manual" doc:"cost: rules that deadman paused because their expressions or effects cost too much. manual: rules that a user paused."`
	All    bool       `query:"all" doc:"All paused rules; in place of prefix and reason."`
	After  identifier `query:"after" doc:"Only names after this one." example:"acme-late"`
}

func (in RuleResumeSelection) check() error {
	some := in.Prefix != "" || in.Reason != ""
	switch {
	case !some && !in.All:
		return refused("query", "it selects no rules; give prefix, reason, or all=true")
	case some && in.All:
		return refused("query.all", "it comes with prefix or reason, and all leaves none out; give one or the other")
	}
	return nil
}

// selects reports whether a rule is paused and selected.
func (in RuleResumeSelection) selects(r rules.ListedRule) bool {
	if r.PausedAt.IsZero() || r.Name <= string(in.After) || !strings.HasPrefix(r.Name, strings.TrimSuffix(string(in.Prefix), "*")) {
		return false
	}
	return in.Reason == "" || (in.Reason == "cost") == (r.PausedBy == rules.HaltedBy)
}

// ruleResumeAPI has the operation that resumes several rules.
type ruleResumeAPI struct {
	rules Rules
}

func (a *ruleResumeAPI) register(all *operations) {
	register(all, operation{
		ID: "resume-rules", Tag: tagRules, Method: "POST", Path: "/rules/resume", Summary: "resume the paused rules of a prefix, or those paused for a reason",
		Description: "In the order of their names, up to 200 in one call; next, where the answer has it, is the after of the call that goes on. " +
			"Each rule has its entry in the audit log. A token with a prefix resumes rules of its prefix only.",
		Scope: access.Rules, Reach: reachFiltered, Status: http.StatusOK,
	}, withBody(a.resume))
}

func (a *ruleResumeAPI) resume(ctx context.Context, in *RuleResumeSelection) (Resumed, error) {
	done := Resumed{Rules: []string{}}
	if err := in.check(); err != nil {
		return done, err
	}
	all, err := a.rules.List(ctx)
	if err != nil {
		return done, err
	}
	for _, r := range all { // by name
		if !in.selects(r) || principalOf(ctx).requireRule(access.Rules, r.Name) != nil {
			continue
		}
		if done.Resumed == resumedAtOnce {
			done.Next = done.Rules[done.Resumed-1]
			return done, nil
		}
		err := a.rules.Pause(ctx, r.Name, false)
		switch {
		case errors.Is(err, futurejobs.ErrNotFound): // it was deleted meanwhile
		case err != nil:
			return done, err
		default:
			done.Resumed, done.Rules = done.Resumed+1, append(done.Rules, r.Name)
		}
	}
	return done, nil
}
