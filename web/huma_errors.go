package web

import (
	"errors"
	"fmt"
	"maps"
	"net/http"
	"slices"
	"strings"

	"github.com/danielgtaylor/huma/v2"
	"github.com/danielgtaylor/huma/v2/validation"

	"deadman/internal/configfile"
)

// Requests that huma itself refuses get a Problem. This function variable is huma's only hook, and global to the
// process: errors of operations outside deadman are passed on, for programs that embed deadman beside a huma API of
// their own.
func init() {
	others := huma.NewErrorWithContext
	huma.NewErrorWithContext = func(ctx huma.Context, status int, message string, errs ...error) huma.StatusError {
		if _, ours := operationOf(ctx); !ours {
			return others(ctx, status, message, errs...)
		}
		return explain(ctx.Operation(), status, errs)
	}
}

// explain returns the problem of a request that huma refuses with errs. It contains no values of headers or bodies,
// since they could be secrets.
func explain(op *huma.Operation, status int, errs []error) *Problem {
	switch status {
	case http.StatusRequestEntityTooLarge:
		limit := op.MaxBodyBytes - 1
		return problem(status, "the body exceeds the limit of %d bytes (%d KiB)", limit, limit>>10)
	case http.StatusUnsupportedMediaType:
		return problem(status, "unsupported Content-Type; send the body with Content-Type: application/json")
	case http.StatusRequestTimeout:
		return problem(status, "the body did not arrive within %s", readTime)
	case http.StatusInternalServerError: // from huma only if the body could not be read
		return problem(http.StatusBadRequest, "the body ended early")
	}
	kind, wrong := BadRequest, []ProblemDetail{}
	for _, err := range errs {
		d := detailOf(op, err)
		if strings.HasPrefix(d.Location, "body") && status == http.StatusUnprocessableEntity {
			kind = strongerKind(kind, err, d)
		}
		wrong = append(wrong, d)
	}
	if len(wrong) == 0 {
		return problemOfDetails(BadRequest, http.StatusBadRequest, []ProblemDetail{{Location: "body", Message: "it is missing; send a JSON body"}})
	}
	slices.SortFunc(wrong, func(a, b ProblemDetail) int { return strings.Compare(a.Location, b.Location) })
	if kind == BadRequest {
		status = http.StatusBadRequest
	}
	return problemOfDetails(kind, status, wrong)
}

// strongerKind returns the kind of a body's problem: an unknown field is more specific than a wrong value, and that is
// more specific than invalid JSON.
func strongerKind(kind Kind, err error, detail ProblemDetail) Kind {
	var d *huma.ErrorDetail
	checked := errors.As(err, &d)
	switch {
	case kind == UnknownField, checked && d.Message == validation.MsgUnexpectedProperty:
		return UnknownField
	case !checked && detail.Location == "body":
		return kind
	}
	return Invalid
}

// detailOf converts an error to a Detail in the words of deadman.
func detailOf(op *huma.Operation, err error) ProblemDetail {
	var ours ProblemDetail
	if errors.As(err, &ours) {
		return ours
	}
	var d *huma.ErrorDetail
	if !errors.As(err, &d) {
		return ProblemDetail{Location: "request", Message: err.Error()}
	}
	where, rest, _ := strings.Cut(d.Location, ".")
	if where == "body" {
		return ProblemDetail{Location: d.Location, Message: bodyMessage(op, rest, d.Message)}
	}
	i := slices.IndexFunc(op.Parameters, func(p *huma.Param) bool { return p.In == where && p.Name == rest })
	if i < 0 {
		return ProblemDetail{Location: d.Location, Message: d.Message}
	}
	return ProblemDetail{Location: d.Location, Message: parameterMessage(op.Parameters[i], d)}
}

func parameterMessage(p *huma.Param, d *huma.ErrorDetail) string {
	given := fmt.Sprint(d.Value)
	if runes := []rune(given); len(runes) > 80 {
		given = string(runes[:80]) + "…"
	}
	s := p.Schema
	switch {
	case strings.HasSuffix(d.Message, "is missing"):
		return "it is missing; " + p.Description
	case p.In == "header":
		return d.Message
	case s.Type == huma.TypeInteger && s.Minimum != nil && s.Maximum != nil:
		return fmt.Sprintf("%q is not an integer from %v to %v", given, *s.Minimum, *s.Maximum)
	case s.Type == huma.TypeInteger:
		return fmt.Sprintf("%q is not a valid integer", given)
	case s.Type == huma.TypeBoolean:
		return fmt.Sprintf("%q is neither true nor false", given)
	case s.Format == "date-time":
		return fmt.Sprintf("%q is not a time; write it as in 2026-01-31T15:04:05Z (and + as %%2B)", given)
	case len(s.Enum) > 0:
		return betterDetail(given, s.Enum)
	}
	return fmt.Sprintf("%q is invalid: %s", given, strings.TrimPrefix(d.Message, "invalid value: "))
}

func betterDetail(given string, enum []any) string {
	known := make([]string, len(enum))
	for i, v := range enum {
		known[i] = fmt.Sprint(v)
	}
	message := fmt.Sprintf("%q is not one of %s", given, strings.Join(known, ", "))
	if near := configfile.Suggest(given, known); near != "" {
		message += "; did you mean " + near + "?"
	}
	return message
}

// lengthMessage rewrites huma's messages about lengths for users; others stay.
func lengthMessage(message string) string {
	limit := 0
	if n, _ := fmt.Sscanf(message, validation.MsgExpectedMinLength, &limit); n == 1 {
		if limit == 1 {
			return "it is empty"
		}
		return fmt.Sprintf("it is too short; the minimum is %d characters", limit)
	}
	if n, _ := fmt.Sscanf(message, validation.MsgExpectedMaxLength, &limit); n == 1 {
		return fmt.Sprintf("it is too long; the maximum is %d characters", limit)
	}
	return message
}

// bodyMessage describes a wrong field of the body; message is huma's.
func bodyMessage(op *huma.Operation, field, message string) string {
	if message != validation.MsgUnexpectedProperty {
		return lengthMessage(message)
	}
	parent, name := "", field
	if i := strings.LastIndexByte(field, '.'); i >= 0 {
		parent, name = field[:i], field[i+1:]
	}
	return unknown("field", name, fieldsOf(op, parent))
}

// fieldsOf returns the names of the fields of a part of the body, such as event or then[0].
func fieldsOf(op *huma.Operation, part string) []string {
	o, ok := op.Metadata[metaKey].(operation)
	if !ok || op.RequestBody == nil || op.RequestBody.Content["application/json"] == nil {
		return nil
	}
	s := o.resolve(op.RequestBody.Content["application/json"].Schema)
	for name := range strings.FieldsFuncSeq(part, func(r rune) bool { return strings.ContainsRune(".[]", r) }) {
		switch {
		case s == nil:
			return nil
		case s.Type == huma.TypeArray:
			s = o.resolve(s.Items)
		default:
			s = o.resolve(s.Properties[name])
		}
	}
	if s == nil {
		return nil
	}
	return slices.Sorted(maps.Keys(s.Properties))
}
