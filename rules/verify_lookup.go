package rules

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"time"

	"deadman/checks/lookup"
	"deadman/internal/access"
)

// verifyTime bounds how long a source has to verify a question.
const verifyTime = 5 * time.Second

// verify asks the source of a lookup whether it accepts the question, and compares the columns that it finds with their
// use in the rule. Errors are Problems; a source that cannot be reached now is no reason to refuse a rule, and is a
// warning. A rule that is unchanged since its save is not verified again.
func (r *Registry) verify(ctx context.Context, d parsedDocument, before *ListedRule, canonical []byte) (warnings []string, err error) {
	if d.Lookup == nil || r.Sources == nil || before != nil && bytes.Equal(before.RuleVersion.Document, canonical) {
		return nil, nil
	}
	var c *compiler
	rule, err := r.compile(ctx, func(world environment) (*Rule, error) {
		c = newCompiler(d.Document, environment{calendars: r.Calendars, ended: world.ended}, nil, maxRulePatterns)
		rule, problems := c.rule(RuleVersion{})
		return rule, problems.orNil()
	})
	if err != nil {
		return nil, err
	}
	q := rule.question
	ctx, cancel := context.WithTimeout(ctx, verifyTime)
	defer cancel()
	world := r.outside()
	world.bounds = access.BoundsOf(ctx)
	columns, err := world.source(q.source).Verify(ctx, q.Question, q.params)
	switch {
	case errors.Is(err, lookup.ErrUndefined):
		return nil, Problems{d.nearest(d.Lookup.sourceAt(), err.Error())}
	case errors.Is(err, lookup.ErrQuestion):
		return nil, Problems{d.nearest(q.pointer, err.Error())}
	case err != nil:
		return []string{fmt.Sprintf("lookup: source %s can't be asked at the moment, so that nobody knows whether it takes the question: %v", q.source, err)}, nil
	}
	c.columns = columnsOf(columns)
	c.shapes(d.Document)
	for i, p := range c.problems {
		c.problems[i] = d.nearest(p.Pointer, p.Message)
	}
	return nil, c.problems.orNil()
}

// VerifyText asks sources whether they accept the lookups of the rules of a text, as saving does. A source that could
// not be queried is a warning, and an error is Problems. For a text that is invalid by itself, no source is queried.
func (r *Registry) VerifyText(ctx context.Context, data []byte, file string) (warnings []string, err error) {
	documents, err := r.parse(ctx, data, file)
	if err != nil {
		return nil, err
	}
	var found Problems
	for _, d := range documents {
		said, err := r.verify(ctx, d, nil, nil)
		var wrong Problems
		if err != nil && !errors.As(err, &wrong) {
			return nil, err
		}
		for _, p := range wrong {
			p.File = file
			found = append(found, p)
		}
		for _, warning := range said {
			warnings = append(warnings, d.Name+": "+warning)
		}
	}
	return warnings, found.orNil()
}
