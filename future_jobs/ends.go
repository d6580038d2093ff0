package futurejobs

import (
	"time"

	"deadman/checks"
)

// OutcomeCount is how many jobs of one rule ended in one hour, in one way.
type OutcomeCount struct {
	Hour    time.Time // when it begins
	Rule    string
	Entity  string
	Outcome checks.Outcome
	Jobs    int64
}
