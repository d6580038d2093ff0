package pings

import (
	"strconv"
	"time"

	"github.com/google/uuid"

	"deadman/rules"
)

// Signal is the meaning of a ping.
type Signal struct {
	Kind rules.Signal
	Exit *int // the exit status it is derived from, 0 to 255; nil: none
}

// maxExit is the maximum exit status of a program.
const maxExit = 255

// readSignal parses the end of a ping's path. It returns ErrUnknown or ErrBadExitStatus.
func readSignal(parts []string) (Signal, error) {
	if len(parts) == 0 {
		return Signal{Kind: rules.Success}, nil
	}
	if len(parts) > 1 {
		return Signal{}, ErrUnknown
	}
	switch kind := rules.Signal(parts[0]); kind {
	case rules.Begun, rules.Failure, rules.Log:
		return Signal{Kind: kind}, nil
	}
	return readExit(parts[0])
}

// readExit parses an exit status: 0 is a success.
func readExit(s string) (Signal, error) {
	for _, digit := range s {
		if digit < '0' || digit > '9' {
			return Signal{}, ErrUnknown
		}
	}
	status, err := strconv.Atoi(s)
	switch {
	case s == "":
		return Signal{}, ErrUnknown
	case err != nil || status > maxExit:
		return Signal{}, ErrBadExitStatus
	case status == 0:
		return Signal{Kind: rules.Success, Exit: &status}, nil
	}
	return Signal{Kind: rules.Failure, Exit: &status}, nil
}

// ReadRun parses the id of a run, which is a UUID. It returns ErrBadRunID.
func ReadRun(s string) (string, error) {
	id, err := uuid.Parse(s)
	if err != nil || (len(s) != 36 && len(s) != 32) {
		return "", ErrBadRunID
	}
	return id.String(), nil
}

// fillDurations sets the durations of runs in a list of entries, newest first. A run ends with the first success or
// failure of its id after its start; for pings without a run id, with the next one.
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
