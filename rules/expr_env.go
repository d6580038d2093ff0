package rules

import (
	"maps"
	"slices"
	"time"

	"github.com/expr-lang/expr/types"
)

// exprEnv is what one place of a document may say: the names it can read, what a missing
// value means there, and what has to come out.
type exprEnv struct {
	names types.Map
	// lenient: a missing value is equal to nothing but nil. Otherwise comparing it is an
	// error, because nobody knows.
	lenient bool
	// literal: numbers of a body are text as the producer wrote them, so that a key keeps
	// every digit.
	literal bool
	yields  result
	place   string // as messages name it: since
	// subject is of the event that can be read. hand: it is the event at hand, so that the
	// tokens its wildcards matched are known.
	subject string
	hand    bool
	// patterns is the size that is left for the patterns of the rule; nil: of the expression alone.
	patterns *int
	// ended is closed once nobody waits for the expression any more; nil: it is waited for.
	ended <-chan struct{}
}

// roomForPatterns is the size that is left for patterns.
func (d exprEnv) roomForPatterns() *int {
	if d.patterns != nil {
		return d.patterns
	}
	left := maxRulePatterns
	return &left
}

// result is what has to come out of an expression.
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

// The names that expressions read. The last two can't be written in one.
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

// withSubject is the dialect where the event that is read is of the subject.
func (d exprEnv) withSubject(subject string) exprEnv {
	d.subject = subject
	return d
}

// withoutEvent is the dialect where there is no event to read.
func (d exprEnv) withoutEvent() exprEnv {
	d.names = maps.Clone(d.names)
	delete(d.names, nameEvent)
	return d
}

// readable are the names that can be written, sorted.
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
