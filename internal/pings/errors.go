package pings

import (
	"context"
	"errors"
	"net/http"

	"deadman/rules/document"

	futurejobs "deadman/future_jobs"
	"deadman/rules"
)

// The errors of a ping.
var (
	// ErrMethodNotAllowed means that the HTTP method is not allowed for pings.
	ErrMethodNotAllowed = errors.New("a ping is a GET, a HEAD, a POST or a PUT")
	// ErrUnknown means that the ping URL does not exist.
	ErrUnknown = errors.New("not found")
	// ErrAmbiguous means that several rules have both the ping key and the key.
	ErrAmbiguous = errors.New("ambiguous slug")
	// ErrBadExitStatus means that an exit status is greater than 255.
	ErrBadExitStatus = errors.New("invalid url format")
	// ErrBadRunID means that a run id is not a UUID.
	ErrBadRunID = errors.New("invalid uuid format")
	// ErrBodyTruncated means that the body ended early or was sent too slowly.
	ErrBodyTruncated = errors.New("the body is incomplete")
	// ErrAddressExists means that another key has the id, or that the rule's key has another id.
	ErrAddressExists = errors.New("the id is already in use")
	// ErrTooManyAddresses means that a rule has MaxAddresses addresses.
	ErrTooManyAddresses = errors.New("the rule has the maximum number of ping addresses")
	// ErrQuota means that the job of the ping's key could not begin because of a quota.
	ErrQuota = errors.New("the quota of pending jobs is used up, and the key has no job: it is not monitored; end jobs, or have the quota raised")
	// ErrBusy means that the ping was not accepted, because the queue is full or the node is stopping. The sender can
	// retry.
	ErrBusy = errors.New("the ping queue is full, or the node is stopping; retry in a moment")
)

// ErrorInfo is the response to a ping that was not accepted.
type ErrorInfo struct {
	Status int // of HTTP
	Text   string
}

// IsClientError reports whether the sender must change the request. Any other error is the node's; the sender should
// retry.
func (f ErrorInfo) IsClientError() bool { return f.Status < http.StatusInternalServerError }

// statusLeft is counted only: the client has closed the connection.
const statusLeft = 499

// faults maps errors to responses.
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
	{ErrQuota, http.StatusUnprocessableEntity},
	{context.Canceled, statusLeft},
	{ErrBusy, http.StatusServiceUnavailable},
}

// ErrorInfoOf returns the response for an error. An unknown error has no text and is an error of the node.
func ErrorInfoOf(err error) ErrorInfo {
	if wrong := (document.Problems{}); errors.As(err, &wrong) {
		return ErrorInfo{http.StatusUnprocessableEntity, wrong.Error()}
	}
	for _, known := range faults {
		if errors.Is(err, known.is) {
			return ErrorInfo{known.status, known.is.Error()}
		}
	}
	return ErrorInfo{Status: http.StatusInternalServerError}
}
