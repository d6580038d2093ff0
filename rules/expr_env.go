package rules

import (
	"maps"
	"slices"
	"strings"
	"time"

	"github.com/expr-lang/expr/types"
)

// exprEnv is the environment of an expression at one place of a document: the names it can read, the meaning of a
// missing value, and the type of the result.
type exprEnv struct {
	names types.Map
	// lenient: a missing value is equal only to nil. Otherwise comparing it is an error, because the result is
	// undetermined.
	lenient bool
	// literal: numbers of a body are text as the producer wrote them, so that a key keeps every digit.
	literal bool
	yields  result
	place   string // as messages name it: since
	// subject is the subject of the event that can be read. hand: it is the event at hand, so that the tokens its
	// wildcards matched are known.
	subject string
	hand    bool
	pauses  bool // the condition begins a pause
	// constant is the remedy for a condition that is always the same; empty: remove it, or compare a field.
	constant string
	// patterns is the remaining size for the patterns of the rule; nil: only the expression has a limit.
	patterns *int
	// ended is closed once the caller has left; nil: the caller stays.
	ended <-chan struct{}
}

// roomForPatterns returns the remaining size for patterns.
func (d exprEnv) roomForPatterns() *int {
	if d.patterns != nil {
		return d.patterns
	}
	left := maxRulePatterns
	return &left
}

// result is the type that an expression has to yield.
type result int

const (
	anything  result = iota
	truth            // true or false
	identity         // text or a whole number
	instant          // a time, or text that is one
	perhaps          // an instant or nothing
	span             // a duration
	amount           // a whole number
	parameter        // text, a number, true or false, or an instant
)

// The names that expressions read. The last two cannot be written in an expression.
const (
	nameEvent = "event"
	nameState = "state"
	nameKey   = "key"
	nameSince = "since"
	nameStep  = "step"
	nameJob   = "job"
	nameMeter = "=meter"
	nameWild  = "=wild"
)

var typesOf = map[string]types.Type{
	nameEvent: types.Any, nameState: types.Any, nameKey: types.String, nameStep: types.String,
	nameSince: types.TypeOf(time.Time{}), nameMeter: types.TypeOf(&costMeter{}), nameWild: types.TypeOf([]string{}),
	nameJob: types.Map{
		"rule": types.String, "since": types.TypeOf(time.Time{}), "count": types.Int,
		"step": types.String, "turn": types.Int, "turns": types.Int,
	},
}

func vocabulary(names ...string) types.Map {
	m := types.Map{nameMeter: typesOf[nameMeter], nameWild: typesOf[nameWild]}
	for _, n := range names {
		m[n] = typesOf[n]
	}
	return m
}

var (
	inKey      = exprEnv{place: "key", names: vocabulary(nameEvent), literal: true, yields: identity, hand: true}
	inDistinct = exprEnv{place: "distinct", names: vocabulary(nameEvent), literal: true, yields: identity, hand: true}
	inIf       = exprEnv{place: "if", names: vocabulary(nameEvent), lenient: true, yields: truth, hand: true}
	inPause    = exprEnv{place: "if", names: vocabulary(nameEvent), lenient: true, yields: truth, hand: true, pauses: true}
	inKind     = exprEnv{place: "kind", names: vocabulary(nameEvent), literal: true, yields: identity, hand: true}
	inRun      = exprEnv{place: "run", names: vocabulary(nameEvent), literal: true, yields: identity, hand: true}
	inSince    = exprEnv{place: "since", names: vocabulary(nameEvent), lenient: true, yields: instant, hand: true}
	inNeed     = exprEnv{place: "need", names: vocabulary(nameEvent, nameState), yields: amount, hand: true}

	inWhile   = exprEnv{place: "while", names: vocabulary(nameEvent, nameState, nameKey, nameSince), yields: truth}
	inRecheck = exprEnv{place: "recheck", names: vocabulary(nameEvent, nameState, nameKey, nameSince), lenient: true, yields: perhaps}
	inAfter   = exprEnv{place: "after", names: vocabulary(nameEvent, nameKey, nameSince), lenient: true, yields: span}
	inAt      = exprEnv{place: "at", names: vocabulary(nameEvent, nameKey, nameSince), lenient: true, yields: instant}
	inLookup  = exprEnv{place: "lookup", names: vocabulary(nameEvent, nameState, nameKey, nameSince)}
	inLabel   = exprEnv{place: "labels", names: vocabulary(nameEvent, nameState, nameKey, nameSince, nameStep), lenient: true}
	inText    = exprEnv{place: "text", names: vocabulary(nameEvent, nameState, nameKey, nameSince, nameStep, nameJob), lenient: true}
)

// withSubject returns the environment with an event on the subject.
func (d exprEnv) withSubject(subject string) exprEnv {
	d.subject = subject
	return d
}

// withoutEvent returns the environment without an event to read.
func (d exprEnv) withoutEvent() exprEnv {
	d.names = maps.Clone(d.names)
	delete(d.names, nameEvent)
	return d
}

// readable returns the names that can be written, sorted.
func (d exprEnv) readable() []string {
	var all []string
	for n := range d.names {
		if n != nameMeter && n != nameWild {
			all = append(all, n)
		}
	}
	slices.Sort(all)
	return all
}

// field returns the path of a field as an expression writes it: behind the name that has it, unless the path begins with a
// name that can be read.
func (d exprEnv) field(path string) string {
	first, _, _ := strings.Cut(path, ".")
	for _, of := range []string{nameEvent, nameState} {
		if d.names[of] != nil && d.names[first] == nil {
			return of + "." + path
		}
	}
	return path
}
