package rules

import (
	"encoding/json"
	"errors"
	"fmt"
	"math"
	"slices"
	"strings"
	"time"

	"github.com/expr-lang/expr/vm/runtime"
)

var errMissing = errors.New(`a value is missing or null; write a default, such as (state.status ?? "")`)

// equal is strict: it never compares values of different kinds, since "false" would hide a mistake.
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
		return false, fmt.Errorf("%s can't be compared; compare a field of it", composite(a, b))
	case ka == kb:
		return runtime.Equal(a, b), nil
	case ka == "a long number" && isInt(b), kb == "a long number" && isInt(a):
		return false, nil // an int would not have been read as a long one
	}
	return false, fmt.Errorf("%s and %s are never equal; convert one with int(), float() or string()", ka, kb)
}

// composite names the side that is a list or an object.
func composite(a, b any) string {
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

func isInt(v any) bool {
	_, ok := v.(int)
	return ok
}

func kindOf(v any) string {
	switch v.(type) {
	case string:
		return "text"
	case bool:
		return "true or false"
	case int, float64:
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

// in searches for v among the items of a list or the names of an object.
func in(m *costMeter, v, list any, lenient bool) (bool, error) {
	switch l := list.(type) {
	case map[string]any:
		name, ok := v.(string)
		if !ok {
			return false, errors.New(`the left side of "in" must be text where the right is an object`)
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
		return inList(m, v, toAnySlice(l), lenient)
	case nil:
		return false, errMissing
	}
	return false, fmt.Errorf(`the right side of "in" must be a list or an object`)
}

func inList(m *costMeter, v any, list []any, lenient bool) (bool, error) {
	each := 1
	if s, ok := v.(string); ok {
		each += len(s) / quick
	}
	if err := m.charge(len(list) * each); err != nil {
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

func toAnySlice(list []int) []any {
	all := make([]any, len(list))
	for i, v := range list {
		all[i] = v
	}
	return all
}

// maxJoined bounds a concatenated text, in bytes.
const maxJoined = 64 << 10

func add(m *costMeter, a, b any) (any, error) {
	s, isText := a.(string)
	t, both := b.(string)
	switch {
	case isText && both && len(s)+len(t) > maxJoined:
		return nil, fmt.Errorf("the joined text has more than %d bytes", maxJoined)
	case isText && both:
		if err := m.charge((len(s) + len(t)) / cheap); err != nil {
			return nil, err
		}
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
	return composite(v, nil)
}

// divide divides, and refuses zero as divisor: the result would be no number, and compare as "false".
func divide(a, b any) (float64, error) {
	if a == nil || b == nil {
		return 0, errMissing
	}
	q := runtime.Divide(a, b)
	if math.IsNaN(q) || math.IsInf(q, 0) {
		return 0, errors.New("a division by zero, or out of a number's range")
	}
	return q, nil
}
