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
	// ErrMethodNotAllowed means that a ping came by a method that none comes by.
	ErrMethodNotAllowed = errors.New("a ping is a GET, a HEAD, a POST or a PUT")
	// ErrUnknown means that no ping comes in there.
	ErrUnknown = errors.New("not found")
	// ErrAmbiguous means that several rules have the ping key and the key.
	ErrAmbiguous = errors.New("ambiguous slug")
	// ErrBadExitStatus means that an exit status is over 255.
	ErrBadExitStatus = errors.New("invalid url format")
	// ErrBadRunID means that a run is named by no UUID.
	ErrBadRunID = errors.New("invalid uuid format")
	// ErrBodyTruncated means that a body broke off, or came too slowly.
	ErrBodyTruncated = errors.New("the body broke off")
	// ErrAddressExists means that another key has an id, or that the rule's key has another id.
	ErrAddressExists = errors.New("the id is in use")
	// ErrTooManyAddresses means that a rule has as many addresses as it may have.
	ErrTooManyAddresses = errors.New("the rule has its most addresses")
	// ErrBusy means that the ping was not taken in: too many wait, or the node stops. It can be
	// sent again.
	ErrBusy = errors.New("too many pings wait to be written, or the node stops; send it again in a moment")
)

// ErrorInfo is what is wrong with a ping that was not taken in, as who sent it is told.
type ErrorInfo struct {
	Status int // of HTTP
	Text   string
}

// IsClientError reports whether who sent the ping has to do otherwise. Any other ping is lost for no fault
// of theirs, and is to be sent again.
func (f ErrorInfo) IsClientError() bool { return f.Status < http.StatusInternalServerError }

// statusLeft is for counting alone: nobody is there to read it.
const statusLeft = 499

// faults are what pings answer of their own, of the errors of all who take one in.
var faults = []struct {
	is     error
	status int
}{
	{ErrUnknown, http.StatusNotFound},
	{futurejobs.ErrNotFound, http.StatusNotFound},
	{ErrMethodNotAllowed, http.StatusMethodNotAllowed},
	{ErrAmbiguous, http.StatusConflict},
	{rules.ErrNoHeartbeat, http.StatusConflict},
	{ErrBadExitStatus, http.StatusBadRequest},
	{ErrBadRunID, http.StatusBadRequest},
	{ErrTooManyAddresses, http.StatusForbidden},
	{ErrBodyTruncated, http.StatusRequestTimeout},
	{futurejobs.ErrRefused, http.StatusUnprocessableEntity},
	{context.Canceled, statusLeft},
	{ErrBusy, http.StatusServiceUnavailable},
}

// ErrorInfoOf is what is wrong with a ping by the error that it came to. One that is not known has no
// text, and is the node's own.
func ErrorInfoOf(err error) ErrorInfo {
	if wrong := (rules.Problems{}); errors.As(err, &wrong) {
		return ErrorInfo{http.StatusUnprocessableEntity, wrong.Error()}
	}
	for _, known := range faults {
		if errors.Is(err, known.is) {
			return ErrorInfo{known.status, known.is.Error()}
		}
	}
	return ErrorInfo{Status: http.StatusInternalServerError}
}
