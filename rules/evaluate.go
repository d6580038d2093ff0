package rules

import (
	"encoding/json"
	"errors"
	"fmt"
	"math"
	"strconv"
	"strings"
	"sync"
	"time"
	"unicode/utf8"

	"deadman/rules/bodies"
	"deadman/rules/document"

	"github.com/expr-lang/expr/file"
	"github.com/expr-lang/expr/vm"
)

// scope holds the values that an expression can read.
type scope struct {
	event *bodies.Body
	state *bodies.Body
	key   string
	since time.Time
	spend *budget // nil: each expression has only its own limit
	step  string
	turn  int // of the step, from 1
	turns int
	count int // decided checks of the job so far
	rule  string
	own   []byte   // the state that the job keeps beside its event; nil: none
	wild  []string // the tokens of the event's subject that wildcards matched
}

// machine runs programs, one at a time. Machines are reused, since a new one for each check would be most of a check's
// cost.
type machine struct {
	vm    vm.VM
	env   map[string]any
	meter costMeter
}

var machines = sync.Pool{New: func() any {
	m := &machine{env: make(map[string]any, 8)}
	m.vm.MemoryBudget = maxMemory
	m.env[nameMeter] = &m.meter
	return m
}}

// run evaluates x. An error means that the result is undetermined.
func (x *expression) run(s scope) (any, error) {
	if x.bare {
		return s.key, nil
	}
	if x.traced != nil {
		x.traced(s)
	}
	m := machines.Get().(*machine)
	defer m.done(x)
	if err := m.load(x, s); err != nil {
		return nil, err
	}
	given := m.meter.left
	v, err := m.vm.Run(x.program, m.env)
	if err == nil {
		err = m.meter.weigh(costly, v)
	}
	s.spend.leave(given, m.meter.left)
	switch {
	case err == nil:
		return v, nil
	case m.meter.left >= 0:
		return nil, x.failed(err, m.env[nameEvent])
	case given < m.meter.most():
		return nil, x.blamed(s.spend.why())
	}
	return nil, x.blamed(errTooExpensive)
}

// blamed returns an error with the expression that caused it.
func (x *expression) blamed(err error) error { return fmt.Errorf("%s: %w", clip(x.source, 120), err) }

// load gives the machine the values that x reads.
func (m *machine) load(x *expression, s scope) (err error) {
	m.meter = costMeter{size: x.bytes(s)}
	if m.meter.left, err = s.spend.enter(x.unread(s), m.meter.most()); err != nil {
		return x.blamed(err)
	}
	if x.wild {
		m.env[nameWild] = s.wild
	}
	for _, name := range x.reads {
		switch name {
		case nameKey:
			m.env[name] = s.key
		case nameSince:
			m.env[name] = s.since
		case nameStep:
			m.env[name] = s.step
		case nameJob:
			m.env[name] = map[string]any{
				"rule": s.rule, "since": s.since, "count": s.count, "step": s.step, "turn": s.turn, "turns": s.turns,
			}
		case nameEvent:
			m.env[name], err = s.event.Value(x.dialect.literal, x.event)
		case nameState:
			m.env[name], err = s.state.Value(x.dialect.literal, x.state)
		}
		if err != nil {
			return err
		}
	}
	return nil
}

// bytes returns the size of the bodies that x reads.
func (x *expression) bytes(s scope) (n int) {
	for _, name := range x.reads {
		switch name {
		case nameEvent:
			n += s.event.Size()
		case nameState:
			n += s.state.Size()
		}
	}
	return n
}

// unread returns how many bytes x has to decode that no expression has decoded before.
func (x *expression) unread(s scope) (n int) {
	for _, name := range x.reads {
		switch name {
		case nameEvent:
			n += s.event.Unread(x.dialect.literal, x.event)
		case nameState:
			n += s.state.Unread(x.dialect.literal, x.state)
		}
	}
	return n
}

// done releases the values that x read.
func (m *machine) done(x *expression) {
	for _, name := range x.reads {
		delete(m.env, name)
	}
	delete(m.env, nameWild)
	clear(m.vm.Stack[:cap(m.vm.Stack)])
	clear(m.vm.Variables)
	machines.Put(m)
}

// noFields is the machine's error for reading a field of a list or of text.
const noFields = "invalid operation: int(text)"

// failed converts an error of the machine into a readable one for a dead letter. event is the event that it read, nil
// if none.
func (x *expression) failed(err error, event any) error {
	message := err.Error()
	var at *file.Error
	if errors.As(err, &at) {
		message = at.Message
		if at.Prev == nil { // the machine's own words
			message = plain.Replace(message)
		}
	}
	absent := strings.Contains(message, "missing value") || strings.Contains(message, "is nil, not")
	fieldless := message == noFields && !strings.Contains(x.source, "int(")
	_, isObject := event.(map[string]any)
	_, isList := event.([]any)
	switch {
	case event != nil && !isObject && (fieldless || !isList && strings.HasPrefix(message, "cannot fetch ")):
		message = "the body is " + naming(event) + ", not an object"
	case fieldless:
		message = "a field is read of a list or of text, which have none; of a list take an item, such as [0]"
	case strings.Contains(message, "is nil, not") || strings.Contains(message, "from a missing value"):
		message = "a value is missing or null where one is needed"
	case strings.Contains(message, "memory budget"):
		message = "it makes more values than an expression may"
	case strings.HasPrefix(message, "interface conversion"):
		message = "a value is not of the kind that is needed"
	}
	err = fmt.Errorf("%s: %s", clip(x.source, 120), clip(message, 200))
	if absent {
		return absentError{err}
	}
	return err
}

// absentError means that a value is missing, and no other error occurred.
type absentError struct{ error }

// plain replaces words of Go with words of the rule language.
var plain = strings.NewReplacer(
	"map[string]interface {}", "an object", "[]interface {}", "a list", "interface {}", "a value",
	"json.Number", "a long number", "float64", "a number", "time.Duration", "a duration", "time.Time", "a time",
	"string", "text", "<nil>", "a missing value", "> int", "> a number", "< int", "< a number", "= int", "= a number",
	": int ", ": a number ",
)

// holds evaluates a condition.
func (x *expression) holds(s scope) (bool, error) {
	v, err := x.run(s)
	if err != nil {
		return false, err
	}
	is, ok := v.(bool)
	if !ok {
		return false, fmt.Errorf("%s: expected true or false, not %s", clip(x.source, 120), naming(v))
	}
	return is, nil
}

// keyOf evaluates a key.
func (x *expression) keyOf(s scope) (string, error) {
	key, err := x.wordOf(s, "key ")
	if err != nil {
		return "", err
	}
	return key, checkKey(key)
}

// wordOf evaluates a word or a whole number. For any other value, the error names the expression after the parameter
// "what".
func (x *expression) wordOf(s scope, what string) (string, error) {
	v, err := x.run(s)
	if err != nil {
		return "", err
	}
	switch v := v.(type) {
	case string:
		return v, nil
	case int:
		return strconv.Itoa(v), nil
	}
	return "", fmt.Errorf("%s%s: expected text or a number, not %s", what, clip(x.source, 120), naming(v))
}

func checkKey(key string) error {
	switch {
	case key == "":
		return errors.New("the key is empty")
	case len(key) > document.MaxKey:
		return fmt.Errorf("the key has %d bytes, the most is %d", len(key), document.MaxKey)
	case strings.ContainsRune(key, 0):
		return errors.New(`the key holds a NUL character ("\u0000")`)
	case strings.ContainsRune(key, utf8.RuneError):
		return errors.New("the key holds a character that can't be read (U+FFFD)")
	}
	return nil
}

// instant evaluates an instant.
func (x *expression) instant(s scope) (time.Time, error) {
	v, err := x.run(s)
	if err != nil {
		return time.Time{}, err
	}
	return x.toInstant(v)
}

// instantOrNone evaluates an optional instant. The result is the zero time if the value is nil, or is computed from a
// missing value.
func (x *expression) instantOrNone(s scope) (time.Time, error) {
	v, err := x.run(s)
	if absent := (absentError{}); errors.As(err, &absent) {
		return time.Time{}, nil
	}
	if v == nil || err != nil {
		return time.Time{}, err
	}
	return x.toInstant(v)
}

func (x *expression) toInstant(v any) (time.Time, error) {
	switch v := v.(type) {
	case time.Time:
		return bounded(v)
	case string:
		return parseDate(v)
	}
	return time.Time{}, fmt.Errorf("%s %s: expected an instant as text, not %s; for seconds since 1970 write date(…)",
		x.dialect.place, clip(x.source, 120), naming(v))
}

// span evaluates a duration. It may be negative.
func (x *expression) span(s scope) (time.Duration, error) {
	v, err := x.run(s)
	if err != nil {
		return 0, err
	}
	d, ok := v.(time.Duration)
	if !ok {
		return 0, fmt.Errorf("%s %s: expected a duration, not %s; write hours(…) or duration(…)", x.dialect.place, clip(x.source, 120), naming(v))
	}
	return d, nil
}

// whole evaluates the number of members that are needed.
func (x *expression) whole(s scope) (int, error) {
	v, err := x.run(s)
	if err != nil {
		return 0, err
	}
	var n int
	switch v := v.(type) {
	case int:
		n = v
	case float64:
		if v != math.Trunc(v) || math.Abs(v) > document.MaxNeed {
			return 0, fmt.Errorf("%s %s: %v is not a whole number between 1 and %d", x.dialect.place, clip(x.source, 120), v, document.MaxNeed)
		}
		n = int(v)
	case nil:
		return 0, absentError{fmt.Errorf("%s %s: expected a number, not a missing value", x.dialect.place, clip(x.source, 120))}
	default:
		return 0, fmt.Errorf("%s %s: expected a number, not %s", x.dialect.place, clip(x.source, 120), naming(v))
	}
	if n < 1 || n > document.MaxNeed {
		return 0, fmt.Errorf("%s %s: %d is not between 1 and %d", x.dialect.place, clip(x.source, 120), n, document.MaxNeed)
	}
	return n, nil
}

// show returns a value as a text shows it.
func show(v any) (string, error) {
	switch v := v.(type) {
	case nil:
		return "", errors.New("missing")
	case map[string]any:
		if v == nil {
			return "", errors.New("missing")
		}
	case string:
		return v, nil
	case time.Time:
		return v.UTC().Format(time.RFC3339), nil
	case time.Duration:
		return document.Duration(v).String(), nil
	case float64:
		return strconv.FormatFloat(v, 'f', -1, 64), nil
	}
	text, err := json.Marshal(v)
	return string(text), err
}
