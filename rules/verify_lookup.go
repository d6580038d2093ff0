package rules

import (
	"context"
	"errors"
	"fmt"
	"time"

	"deadman/rules/document"

	"deadman/checks/lookup"
	"deadman/internal/access"
)

// verifyTime bounds how long a source has to verify a question.
const verifyTime = 5 * time.Second

// lookupVerification verifies the lookup of a document with its source.
type lookupVerification struct {
	*Registry
	document parsedDocument
}

// run asks the source of a lookup whether it accepts the question, and compares the columns that it finds with their
// use in the rule. Errors are Problems; a source that cannot be reached now is no reason to refuse a rule, and is a
// warning.
func (v lookupVerification) run(ctx context.Context) (warnings []string, err error) {
	d := v.document
	if d.Lookup == nil || v.Sources == nil {
		return nil, nil
	}
	var c *compiler
	rule, err := v.compile(ctx, func(env environment) (*Rule, error) {
		c = newCompiler(d.Document, environment{calendars: v.Calendars, ended: env.ended}, nil, maxRulePatterns)
		rule, problems := c.rule(RuleVersion{})
		return rule, problems.OrNil()
	})
	if err != nil {
		return nil, err
	}
	q := rule.question
	ctx, cancel := context.WithTimeout(ctx, verifyTime)
	defer cancel()
	env := v.outside()
	env.bounds = access.BoundsOf(ctx)
	columns, err := env.source(q.source).Verify(ctx, q.Question, q.params)
	switch {
	case errors.Is(err, lookup.ErrUndefined):
		return nil, document.Problems{d.Nearest(d.Lookup.SourceAt(), err.Error())}
	case errors.Is(err, lookup.ErrQuestion):
		return nil, document.Problems{d.Nearest(q.pointer, err.Error())}
	case err != nil:
		return []string{fmt.Sprintf("lookup: source %s is not reachable, so the query is not verified: %v", q.source, err)}, nil
	}
	c.columns = columnsOf(columns)
	c.shapes(d.Document)
	for i, p := range c.problems {
		c.problems[i] = d.Nearest(p.Pointer, p.Message)
	}
	return nil, c.problems.OrNil()
}
