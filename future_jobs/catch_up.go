package futurejobs

import (
	"fmt"
	"time"
)

// CatchUp configures jobs that are found later than After behind their slot.
type CatchUp struct {
	After time.Duration // 0: no limit
	Do    LateAction
}

// LateAction is the treatment of a late job.
type LateAction uint8

// The treatments of late jobs.
const (
	Run    LateAction = iota // check it nevertheless
	Skip                     // check it a slot later
	Expire                   // end it with an alert
)

// exceeded returns the reason to skip or to expire a job that is found late after its slot; empty: the job is checked.
func (c CatchUp) exceeded(late time.Duration) (reason string) {
	if c.After == 0 || late <= c.After || c.Do == Run {
		return ""
	}
	return fmt.Sprintf("found %s after its slot, more than catch_up.after, %s", spell(late.Truncate(time.Second)), spell(c.After))
}

// streamTimeout returns how long a job waits for streams that are not read past its slot.
func (c CatchUp) streamTimeout() time.Duration {
	if c.After == 0 {
		return defaultStreamTimeout
	}
	return c.After
}

// defaultStreamTimeout is how long a job waits for its streams, for rules without catch_up.after.
const defaultStreamTimeout = time.Hour
