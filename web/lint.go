package web

import (
	"context"
	"errors"
	"net/http"

	"deadman/rules/document"

	"deadman/internal/access"
	"deadman/rules"
)

// LintResult is the problems of a rule.
type LintResult struct {
	Valid    bool            `json:"valid" doc:"Whether the rule can be saved."`
	Problems []ProblemDetail `json:"problems" nullable:"false" doc:"All errors of the rule, in the order of the text."`
	Warnings []string        `json:"warnings,omitempty" nullable:"false" doc:"Warnings, such as checks that could not be made, a schedule that has ended, or a heartbeat without keys."`
}

// lintIn is the text of a rule.
type lintIn struct {
	RawBody []byte `contentType:"application/yaml"`
}

// lintAPI has the operation that checks the text of a rule.
type lintAPI struct {
	rules  Rules
	trials *semaphore[tokenRef]
}

// lint tests a lookup with its source only if the caller may write rules, since the source's answer reveals its
// tables.
func (a *lintAPI) lint(ctx context.Context, in *lintIn) (LintResult, error) {
	c, err := a.rules.Save(ctx, in.RawBody, "", rules.SaveOptions{
		Version: rules.AnyVersion, DryRun: true, Adopt: true, SkipSource: principalOf(ctx).requireScope(access.Rules) != nil, May: mayName(ctx, access.Read),
	})
	out, err := lintOf(err)
	out.Warnings = c.Warnings
	return out, err
}

// lintOf returns the problems as the answer; other errors stay errors.
func lintOf(err error) (LintResult, error) {
	var wrong document.Problems
	if errors.As(err, &wrong) {
		return LintResult{Problems: details(wrong)}, nil
	}
	return LintResult{Valid: err == nil, Problems: []ProblemDetail{}}, err
}

// ruleInvalid returns the problem of a refused rule.
func ruleInvalid(wrong document.Problems) *Problem {
	p := problemIs(RuleInvalid, http.StatusUnprocessableEntity, "%s", wrong.Error())
	p.Errors = details(wrong)
	return p
}

func details(wrong document.Problems) []ProblemDetail {
	all := make([]ProblemDetail, len(wrong))
	for i, p := range wrong {
		all[i] = ProblemDetail{
			Location: p.Field(), Message: p.Message, Pointer: p.Pointer, File: p.File, Line: p.Line, Column: p.Column,
		}
		if all[i].Location == "" {
			all[i].Location = "body"
		}
	}
	return all
}

// invalidToken returns the problem of a refused token or quota.
func invalidToken(wrong access.Problems) *Problem {
	all := make([]ProblemDetail, len(wrong))
	for i, p := range wrong {
		all[i] = ProblemDetail{Location: "body." + p.Field, Message: p.Message}
	}
	return problemOfDetails(Invalid, http.StatusUnprocessableEntity, all)
}
