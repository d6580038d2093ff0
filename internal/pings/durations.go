package pings

import (
	"time"

	"deadman/rules"
)

// fillDurations fills in how long runs took, from the entries of a list, newest first. A run ends with the
// first success or failure of its id after its start; where pings name no run, with the next one.
func fillDurations(entries []Entry) {
	type lane struct {
		rule     int32
		key, run string
	}
	begun := make(map[lane]time.Time)
	for i := len(entries) - 1; i >= 0; i-- {
		e := &entries[i]
		at := lane{e.RuleID, e.Key, e.Run}
		switch e.Signal.Kind {
		case rules.Begun:
			begun[at] = e.At
		case rules.Success, rules.Failure:
			if start, ok := begun[at]; ok {
				e.Took = e.At.Sub(start)
				delete(begun, at)
			}
		}
	}
}
