package pings

import (
	"errors"
	"strconv"

	"github.com/google/uuid"

	futurejobs "deadman/future_jobs"
	"deadman/rules"
)

// What a ping may be of.
var (
	// ErrUnknown means that no ping comes in there.
	ErrUnknown = errors.New("not found")
	// ErrAmbiguous means that several rules have the ping key and the key.
	ErrAmbiguous = errors.New("ambiguous slug")
	// ErrExit means that an exit status is over 255.
	ErrExit = errors.New("invalid url format")
	// ErrRun means that a run is named by no UUID.
	ErrRun = errors.New("invalid uuid format")
	// ErrTaken means that another key has an id, or that the rule's key has another id.
	ErrTaken = errors.New("the id is in use")
	// ErrFull means that a rule has as many addresses as it may have.
	ErrFull = errors.New("the rule has its most addresses")
)

// IsSenders reports whether an error says that who sent a ping has to do otherwise; any other means
// that the ping is lost for no fault of theirs.
func IsSenders(err error) bool {
	if wrong := (rules.Problems{}); errors.As(err, &wrong) {
		return true
	}
	for _, theirs := range []error{ErrUnknown, ErrAmbiguous, ErrExit, ErrRun, ErrFull, futurejobs.ErrNotFound, rules.ErrNoHeartbeat} {
		if errors.Is(err, theirs) {
			return true
		}
	}
	return false
}

// Signal is what a ping says.
type Signal struct {
	Kind rules.Signal
	Exit *int // the exit status that it is derived from, 0 to 255; nil: none
}

// maxExit is the greatest status that a program can exit with.
const maxExit = 255

// readSignal reads what the path of a ping ends with. It returns ErrUnknown, or ErrExit.
func readSignal(parts []string) (Signal, error) {
	if len(parts) == 0 {
		return Signal{Kind: rules.Success}, nil
	}
	if len(parts) > 1 {
		return Signal{}, ErrUnknown
	}
	switch says := rules.Signal(parts[0]); says {
	case rules.Begun, rules.Failure, rules.Log:
		return Signal{Kind: says}, nil
	}
	return readExit(parts[0])
}

// readExit reads an exit status: 0 is a success.
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
		return Signal{}, ErrExit
	case status == 0:
		return Signal{Kind: rules.Success, Exit: &status}, nil
	}
	return Signal{Kind: rules.Failure, Exit: &status}, nil
}

// ReadRun reads the id of a run, which is a UUID. It returns ErrRun.
func ReadRun(s string) (string, error) {
	id, err := uuid.Parse(s)
	if err != nil || (len(s) != 36 && len(s) != 32) {
		return "", ErrRun
	}
	return id.String(), nil
}
