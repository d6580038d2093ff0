package rules

import (
	"errors"
	"fmt"
	"math"
	"time"

	"deadman/rules/document"

	"github.com/expr-lang/expr"
)

// builtins are the functions of the library that the language includes: those whose time and memory grow no faster than
// their input.
var builtins = []string{
	"all", "none", "any", "one", "filter", "map", "find", "findIndex", "findLast", "findLastIndex", "count", "sum",
	"len", "type", "abs", "ceil", "floor", "round", "int", "float", "string", "upper", "lower", "split",
	"indexOf", "lastIndexOf", "hasPrefix", "hasSuffix", "max", "min", "mean", "first", "last", "get", "keys", "values",
}

// Our own functions with names that cannot be written.
const (
	funcEqual  = "=equal"
	funcDiffer = "=differ"
	funcIn     = "=in"
	funcAdd    = "=add"
	funcDivide = "=divide"
	funcTick   = "=tick"
	funcToken  = "=token"
	funcMatch  = "=match"

	funcMeasure = "=measure"
	funcWeigh   = "=weigh"
)

var spans = map[string]time.Duration{"days": 24 * time.Hour, "hours": time.Hour, "minutes": time.Minute, "seconds": time.Second}

// functionNames returns the functions that authors may write.
func functionNames() []string {
	return append([]string{"date", "duration", "trim", "wildcard", "days", "hours", "minutes", "seconds"}, builtins...)
}

// constants check literal arguments of functions.
var constants = map[string]func(string) error{
	"date":     func(s string) error { _, err := parseDate(s); return err },
	"duration": func(s string) error { _, err := document.ParseDuration(s); return err },
}

func functions(d exprEnv) []expr.Option {
	all := []expr.Option{
		expr.Function("date", func(p ...any) (any, error) { return toDate(p[0]) }, new(func(any) time.Time)),
		expr.Function("duration", func(p ...any) (any, error) { return toDuration(p[0]) }, new(func(any) time.Duration)),
		expr.Function("trim", func(p ...any) (any, error) { return trim(p[0]) }, new(func(any) string)),
		expr.Function("wildcard", func(...any) (any, error) { return nil, errNoToken }, new(func(int) string)),
		expr.Function(funcToken, func(p ...any) (any, error) { return tokenAt(p[0], p[1]) }, new(func([]string, int) string)),
		expr.Function(funcMatch, func(p ...any) (any, error) { return p[1].(*pattern).match(p[0].(*costMeter), p[2]) }, new(func(*costMeter, *pattern, any) bool)),
		expr.Function(funcEqual, func(p ...any) (any, error) { return equal(p[0], p[1], d.lenient) }, new(func(any, any) bool)),
		expr.Function(funcDiffer, func(p ...any) (any, error) {
			same, err := equal(p[0], p[1], d.lenient)
			return !same, err
		}, new(func(any, any) bool)),
		expr.Function(funcIn, func(p ...any) (any, error) { return in(p[0].(*costMeter), p[1], p[2], d.lenient) }, new(func(*costMeter, any, any) bool)),
		expr.Function(funcDivide, func(p ...any) (any, error) { return divide(p[0], p[1]) }, new(func(any, any) float64)),
		expr.Function(funcAdd, func(p ...any) (any, error) { return add(p[0].(*costMeter), p[1], p[2]) }, new(func(*costMeter, any, any) any)),
		expr.Function(funcTick, func(p ...any) (any, error) { return p[1], p[0].(*costMeter).charge(1) }, new(func(*costMeter, any) any)),
		expr.Function(funcMeasure, func(p ...any) (any, error) { return p[2], p[0].(*costMeter).measure(p[1].(int), p[2]) }, new(func(*costMeter, int, any) any)),
		expr.Function(funcWeigh, func(p ...any) (any, error) { return p[1], p[0].(*costMeter).weigh(cheap, p[1]) }, new(func(*costMeter, any) any)),
	}
	for name, span := range spans {
		all = append(all, expr.Function(name, func(p ...any) (any, error) { return times(p[0], span) }, new(func(any) time.Duration)))
	}
	return all
}

var errNoToken = errors.New("the subject has no such token")

// tokenAt returns the token that the n-th wildcard matched, from 1.
func tokenAt(matched, n any) (string, error) {
	tokens, _ := matched.([]string)
	i, _ := n.(int)
	if i < 1 || i > len(tokens) {
		return "", errNoToken
	}
	return tokens[i-1], nil
}

// layouts are the forms of instants that date reads; without a zone they are UTC.
var layouts = []string{time.RFC3339Nano, "2006-01-02T15:04:05.999999999", "2006-01-02 15:04:05.999999999", "2006-01-02"}

// maxInstant is the longest text of an instant or a span that is read, in bytes.
const maxInstant = 256

func parseDate(s string) (time.Time, error) {
	for _, layout := range layouts {
		if len(s) > maxInstant {
			break
		}
		if t, err := time.Parse(layout, s); err == nil {
			return bounded(t)
		}
	}
	return time.Time{}, fmt.Errorf(`%q is not an instant; write it like "2026-11-20T15:04:05Z"`, clip(s, 40))
}

// toDate converts text, or seconds since 1970, to an instant.
func toDate(v any) (time.Time, error) {
	switch v := v.(type) {
	case time.Time:
		return v, nil
	case string:
		return parseDate(v)
	case int:
		if v < 0 || v > maxYear*366*86400 {
			return bounded(time.Time{})
		}
		return bounded(time.Unix(int64(v), 0))
	case float64:
		if !(v >= 0 && v < maxYear*366*86400) {
			return bounded(time.Time{})
		}
		whole, part := math.Modf(v)
		return bounded(time.Unix(int64(whole), int64(part*1e9)))
	}
	return time.Time{}, fmt.Errorf("%s is not an instant; an instant is text, or seconds since 1970", naming(v))
}

const maxYear = 9999

func bounded(t time.Time) (time.Time, error) {
	if t.Year() < 1970 || t.Year() > maxYear {
		return time.Time{}, errors.New("the instant is not between 1970 and 9999; are these milliseconds? divide them by 1000")
	}
	return t.UTC().Round(time.Microsecond), nil
}

func toDuration(v any) (time.Duration, error) {
	s, ok := v.(string)
	if !ok {
		return 0, fmt.Errorf(`duration takes text such as "3d", not %s; or use hours(…)`, naming(v))
	}
	if len(s) > maxInstant {
		return 0, fmt.Errorf(`duration takes text such as "3d", not %d bytes of it`, len(s))
	}
	d, err := document.ParseDuration(s)
	return time.Duration(d), err
}

func times(v any, span time.Duration) (time.Duration, error) {
	var n float64
	switch v := v.(type) {
	case int:
		n = float64(v)
	case float64:
		n = v
	default:
		return 0, fmt.Errorf("a number is wanted, not %s", naming(v))
	}
	if d := n * float64(span); math.Abs(d) < math.MaxInt64/2 {
		return time.Duration(math.Round(d)), nil
	}
	return 0, errors.New("the span is longer than a hundred years")
}
