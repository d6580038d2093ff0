package rules

import (
	"encoding/json"
	"errors"
	"fmt"
	"math"
	"slices"
	"strings"
	"time"

	"github.com/expr-lang/expr"
	"github.com/expr-lang/expr/vm/runtime"
)

// builtins are what the language has of the library's own functions: those whose time and
// memory grow no faster than what they read.
var builtins = []string{
	"all", "none", "any", "one", "filter", "map", "find", "findIndex", "findLast", "findLastIndex", "count", "sum",
	"len", "type", "abs", "ceil", "floor", "round", "int", "float", "string", "upper", "lower", "split",
	"indexOf", "lastIndexOf", "hasPrefix", "hasSuffix", "max", "min", "mean", "first", "last", "get", "keys", "values",
}

// Our own functions that have names which can't be written.
const (
	funcEqual  = "=equal"
	funcDiffer = "=differ"
	funcIn     = "=in"
	funcAdd    = "=add"
	funcTick   = "=tick"

	funcMeasure = "=measure"
)

var spans = map[string]time.Duration{"days": 24 * time.Hour, "hours": time.Hour, "minutes": time.Minute, "seconds": time.Second}

// functionNames are those that people may write.
func functionNames() []string {
	return append([]string{"date", "duration", "trim", "days", "hours", "minutes", "seconds"}, builtins...)
}

// constants check what is written out as the argument of a function.
var constants = map[string]func(string) error{
	"date":     func(s string) error { _, err := parseDate(s); return err },
	"duration": func(s string) error { _, err := ParseDuration(s); return err },
}

func functions(d dialect) []expr.Option {
	all := []expr.Option{
		expr.Function("date", func(p ...any) (any, error) { return toDate(p[0]) }, new(func(any) time.Time)),
		expr.Function("duration", func(p ...any) (any, error) { return toDuration(p[0]) }, new(func(any) time.Duration)),
		expr.Function("trim", func(p ...any) (any, error) { return trim(p[0]) }, new(func(any) string)),
		expr.Function(funcEqual, func(p ...any) (any, error) { return equal(p[0], p[1], d.lenient) }, new(func(any, any) bool)),
		expr.Function(funcDiffer, func(p ...any) (any, error) {
			same, err := equal(p[0], p[1], d.lenient)
			return !same, err
		}, new(func(any, any) bool)),
		expr.Function(funcIn, func(p ...any) (any, error) { return in(p[0].(*meter), p[1], p[2], d.lenient) }, new(func(*meter, any, any) bool)),
		expr.Function(funcAdd, func(p ...any) (any, error) { return add(p[0], p[1]) }, new(func(any, any) any)),
		expr.Function(funcTick, func(p ...any) (any, error) { return p[1], p[0].(*meter).pay(1) }, new(func(*meter, any) any)),
		expr.Function(funcMeasure, func(p ...any) (any, error) { return p[2], p[0].(*meter).measure(p[1].(int), p[2]) }, new(func(*meter, int, any) any)),
	}
	for name, span := range spans {
		all = append(all, expr.Function(name, func(p ...any) (any, error) { return times(p[0], span) }, new(func(any) time.Duration)))
	}
	return all
}

// meter bounds what one evaluation may cost. Its unit is a round: the body of a predicate
// once, which takes about a tenth of a microsecond.
type meter struct {
	left int // rounds
	size int // bytes that the expression can read
}

// maxRounds is enough to walk the longest list that a body can hold.
const maxRounds = MaxBody

var errCost = errors.New("the expression takes too long on this event: its loops multiply")

func (m *meter) pay(rounds int) error {
	if m.left -= rounds; m.left < 0 {
		return errCost
	}
	return nil
}

// measure pays for what is about to be read, a round for so many bytes.
func (m *meter) measure(bytes int, v any) error {
	switch v := v.(type) {
	case string:
		return m.pay(len(v) / bytes)
	case []any:
		return m.pay(len(v))
	case map[string]any:
		return m.pay(m.size / bytes)
	}
	return nil
}

var errMissing = errors.New(`a value is missing or null; say what it counts as, as in (state.status ?? "")`)

// equal is strict: values of different kinds are never compared, since "false" would hide
// a mistake.
func equal(a, b any, lenient bool) (bool, error) {
	if a == nil || b == nil {
		if !lenient {
			return false, errMissing
		}
		return a == nil && b == nil, nil
	}
	ka, kb := kindOf(a), kindOf(b)
	switch {
	case ka == "" || kb == "":
		return false, fmt.Errorf("%s can't be compared; compare a field of it", cmpNot(a, b))
	case ka == kb:
		return runtime.Equal(a, b), nil
	case ka == "a number" && kb == "a long number", ka == "a long number" && kb == "a number":
		return false, nil // it would not be a long one
	}
	return false, fmt.Errorf("%s and %s are compared, which are never equal; convert one with int(), float() or string()", ka, kb)
}

// cmpNot names the side that is no single value.
func cmpNot(a, b any) string {
	for _, v := range []any{a, b} {
		switch v.(type) {
		case []any:
			return "a list"
		case map[string]any:
			return "an object"
		}
	}
	return "this value"
}

func kindOf(v any) string {
	switch v.(type) {
	case string:
		return "text"
	case bool:
		return "true or false"
	case int, int64, float64:
		return "a number"
	case json.Number:
		return "a long number"
	case time.Time:
		return "a time"
	case time.Duration:
		return "a duration"
	}
	return ""
}

// in looks for v among the items of a list or the names of an object.
func in(m *meter, v, list any, lenient bool) (bool, error) {
	switch l := list.(type) {
	case map[string]any:
		name, ok := v.(string)
		if !ok {
			return false, errors.New(`the left side of "in" has to be text where the right is an object`)
		}
		_, ok = l[name]
		return ok, nil
	case []any:
		return inList(m, v, l, lenient)
	case []string:
		s, ok := v.(string)
		if !ok && (v != nil || !lenient) {
			return inList(m, v, []any{""}, lenient)
		}
		return ok && slices.Contains(l, s), nil
	case []int:
		return inList(m, v, anys(l), lenient)
	case nil:
		return false, errMissing
	}
	return false, fmt.Errorf(`the right side of "in" has to be a list or an object`)
}

func inList(m *meter, v any, list []any, lenient bool) (bool, error) {
	if err := m.pay(len(list)); err != nil {
		return false, err
	}
	for _, item := range list {
		if item == nil && v != nil {
			continue
		}
		same, err := equal(v, item, lenient)
		if same || err != nil {
			return same, err
		}
	}
	return false, nil
}

func anys(list []int) []any {
	all := make([]any, len(list))
	for i, v := range list {
		all[i] = v
	}
	return all
}

// maxJoined bounds a text that is put together, in bytes.
const maxJoined = 64 << 10

func add(a, b any) (any, error) {
	s, isText := a.(string)
	t, both := b.(string)
	switch {
	case isText && both && len(s)+len(t) > maxJoined:
		return nil, fmt.Errorf("a text of more than %d bytes is put together", maxJoined)
	case isText && both:
		return s + t, nil
	case a == nil || b == nil:
		return nil, errMissing
	case isText != both:
		return nil, errors.New(`"+" joins text with text only; write string(…) around the other side`)
	}
	return runtime.Add(a, b), nil
}

func trim(v any) (string, error) {
	s, ok := v.(string)
	if !ok {
		return "", fmt.Errorf("trim takes text, not %s", naming(v))
	}
	return strings.TrimSpace(s), nil
}

func naming(v any) string {
	if v == nil {
		return "a missing value"
	}
	if k := kindOf(v); k != "" {
		return k
	}
	return cmpNot(v, nil)
}

// layouts are the instants that date reads; without a zone they are UTC.
var layouts = []string{time.RFC3339Nano, "2006-01-02T15:04:05.999999999", "2006-01-02 15:04:05.999999999", "2006-01-02"}

func parseDate(s string) (time.Time, error) {
	for _, layout := range layouts {
		if t, err := time.Parse(layout, s); err == nil {
			return bounded(t)
		}
	}
	return time.Time{}, fmt.Errorf(`%q is not an instant; write it like "2026-11-20T15:04:05Z"`, clip(s, 40))
}

// toDate reads an instant of text, or of seconds since 1970.
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
	d, err := ParseDuration(s)
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
