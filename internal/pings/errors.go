package pings

import (
	"context"
	"errors"
	"net/http"

	futurejobs "deadman/future_jobs"
	"deadman/rules"
)

// What may be wrong with a ping.
var (
	// ErrMethod means that a ping came by a method that none comes by.
	ErrMethod = errors.New("a ping is a GET, a HEAD, a POST or a PUT")
	// ErrUnknown means that no ping comes in there.
	ErrUnknown = errors.New("not found")
	// ErrAmbiguous means that several rules have the ping key and the key.
	ErrAmbiguous = errors.New("ambiguous slug")
	// ErrExit means that an exit status is over 255.
	ErrExit = errors.New("invalid url format")
	// ErrRun means that a run is named by no UUID.
	ErrRun = errors.New("invalid uuid format")
	// ErrCut means that a body broke off, or came too slowly.
	ErrCut = errors.New("the body broke off")
	// ErrTaken means that another key has an id, or that the rule's key has another id.
	ErrTaken = errors.New("the id is in use")
	// ErrFull means that a rule has as many addresses as it may have.
	ErrFull = errors.New("the rule has its most addresses")
	// ErrBusy means that the ping was not taken in: too many wait, or the node stops. It can be
	// sent again.
	ErrBusy = errors.New("too many pings wait to be written, or the node stops; send it again in a moment")
)

// Fault is what is wrong with a ping that was not taken in, as who sent it is told.
type Fault struct {
	Status int // of HTTP
	Text   string
}

// Senders reports whether who sent the ping has to do otherwise. Any other ping is lost for no fault
// of theirs, and is to be sent again.
func (f Fault) Senders() bool { return f.Status < http.StatusInternalServerError }

// statusLeft is for counting alone: nobody is there to read it.
const statusLeft = 499

// faults are what pings answer of their own, of the errors of all who take one in.
var faults = []struct {
	is     error
	status int
}{
	{ErrUnknown, http.StatusNotFound},
	{futurejobs.ErrNotFound, http.StatusNotFound},
	{ErrMethod, http.StatusMethodNotAllowed},
	{ErrAmbiguous, http.StatusConflict},
	{rules.ErrNoHeartbeat, http.StatusConflict},
	{ErrExit, http.StatusBadRequest},
	{ErrRun, http.StatusBadRequest},
	{ErrFull, http.StatusForbidden},
	{ErrCut, http.StatusRequestTimeout},
	{futurejobs.ErrRefused, http.StatusUnprocessableEntity},
	{context.Canceled, statusLeft},
	{ErrBusy, http.StatusServiceUnavailable},
}

// FaultOf is what is wrong with a ping by the error that it came to. One that is not known has no
// text, and is the node's own.
func FaultOf(err error) Fault {
	if wrong := (rules.Problems{}); errors.As(err, &wrong) {
		return Fault{http.StatusUnprocessableEntity, wrong.Error()}
	}
	for _, known := range faults {
		if errors.Is(err, known.is) {
			return Fault{known.status, known.is.Error()}
		}
	}
	return Fault{Status: http.StatusInternalServerError}
}
