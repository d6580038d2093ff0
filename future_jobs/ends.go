package futurejobs

import (
	"time"

	"deadman/checks"
)

// Ends is how many jobs of one rule ended in one hour, in one way.
type Ends struct {
	Hour    time.Time // when it begins
	Rule    string
	Entity  string
	Outcome checks.Outcome
	Jobs    int64
}
