package rules

import (
	"time"

	"github.com/expr-lang/expr/types"
)

// dialect is what one place of a document may say: the names it can read, what a missing
// value means there, and what has to come out.
type dialect struct {
	names types.Map
	// lenient: a missing value is equal to nothing but nil. Otherwise comparing it is an
	// error, because nobody knows.
	lenient bool
	// literal: numbers of a body are text as the producer wrote them, so that a key keeps
	// every digit.
	literal bool
	bool    bool // true or false has to come out
	instant bool // an instant has to come out
}

func vocabulary(names ...string) types.Map {
	all := map[string]types.Type{
		nameEvent: types.Any, nameState: types.Any, nameKey: types.String, nameStep: types.String,
		nameSince: types.TypeOf(time.Time{}), nameMeter: types.TypeOf(&meter{}),
	}
	m := types.Map{nameMeter: all[nameMeter]}
	for _, n := range names {
		m[n] = all[n]
	}
	return m
}

// The names that expressions read. The meter's can't be written in one.
const (
	nameEvent = "event"
	nameState = "state"
	nameKey   = "key"
	nameSince = "since"
	nameStep  = "step"
	nameMeter = "=meter"
)

var (
	inKey   = dialect{names: vocabulary(nameEvent), literal: true}
	inIf    = dialect{names: vocabulary(nameEvent), lenient: true, bool: true}
	inSince = dialect{names: vocabulary(nameEvent), lenient: true, instant: true}
	inWhile = dialect{names: vocabulary(nameEvent, nameState, nameKey, nameSince), bool: true}
	inText  = dialect{names: vocabulary(nameEvent, nameState, nameKey, nameSince, nameStep), lenient: true}
)
