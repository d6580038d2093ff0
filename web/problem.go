package web

import (
	"context"
	"fmt"
	"net/http"
	"slices"
	"strconv"
	"strings"
	"time"

	"deadman/alerts"
	futurejobs "deadman/future_jobs"
	"deadman/internal/access"
	"deadman/internal/pings"
	"deadman/internal/replay"
	"deadman/internal/replaytasks"
	"deadman/internal/webhooks"
	"deadman/rules"
)

// Problem is an error answer as of RFC 9457. Its type is one of the Kinds.
type Problem struct {
	Type   string          `json:"type" format:"uri" doc:"URN of the problem kind. It is stable; texts may change." example:"urn:deadman:problem:not-found"`
	Title  string          `json:"title" doc:"Text of the HTTP status." example:"Not Found"`
	Status int             `json:"status" doc:"HTTP status code." example:"404"`
	Detail string          `json:"detail,omitempty" doc:"Error and remedy." example:"rule order-unshipped: not found"`
	Errors []ProblemDetail `json:"errors,omitempty" nullable:"false" doc:"Single errors and their locations."`

	retry time.Duration // earliest retry; 0: after a second
}

// ProblemDetail is one error in a request, with its location.
type ProblemDetail struct {
	Location string `json:"location" doc:"Location of the error, such as query.limit, body.until or escalate[1].after." example:"query.limit"`
	Message  string `json:"message" doc:"Error and remedy."`
	Pointer  string `json:"pointer,omitempty" doc:"JSON pointer (RFC 6901) into the rule."`
	File     string `json:"file,omitempty" doc:"Rule file."`
	Line     int    `json:"line,omitempty" doc:"Line in the text of the rule, starting with 1."`
	Column   int    `json:"column,omitempty" doc:"Column in characters, starting with 1."`
}

// Error implements error.
func (d ProblemDetail) Error() string { return d.Location + ": " + d.Message }

// Error implements error.
func (p *Problem) Error() string {
	if p.Detail == "" {
		return p.Title
	}
	return p.Detail
}

// GetStatus implements huma.StatusError.
func (p *Problem) GetStatus() int { return p.Status }

// ContentType implements huma.ContentTypeFilter.
func (p *Problem) ContentType(string) string { return problemType }

const problemType = "application/problem+json"

// GetHeaders implements huma.HeadersError: it returns the headers of the answer.
func (p *Problem) GetHeaders() http.Header {
	h := http.Header{}
	switch p.Status {
	case http.StatusServiceUnavailable, http.StatusTooManyRequests:
		h.Set("Retry-After", strconv.Itoa(seconds(p.retry)))
	case http.StatusUnauthorized:
		h.Set("WWW-Authenticate", `Bearer realm="deadman"`)
	}
	return h
}

func problem(status int, format string, args ...any) *Problem {
	return problemIs(kindOf(status), status, format, args...)
}

func problemIs(k Kind, status int, format string, args ...any) *Problem {
	return &Problem{
		Type: k.URN(), Title: http.StatusText(status), Status: status, Detail: fmt.Sprintf(format, args...),
	}
}

// problemOfDetails returns a problem that lists all errors of a request.
func problemOfDetails(k Kind, status int, wrong []ProblemDetail) *Problem {
	messages := make([]string, len(wrong))
	for i, d := range wrong {
		messages[i] = d.Error()
	}
	p := problemIs(k, status, "%s", strings.Join(messages, "; "))
	p.Errors = wrong
	return p
}

// refused returns a problem with one error.
func refused(location, format string, args ...any) *Problem {
	status := http.StatusBadRequest
	if strings.HasPrefix(location, "body") {
		status = http.StatusUnprocessableEntity
	}
	return problemOfDetails(kindOf(status), status, []ProblemDetail{{Location: location, Message: fmt.Sprintf(format, args...)}})
}

// ErrorStatus is a row of the table that maps errors to statuses.
type ErrorStatus struct {
	Is     error // a sentinel
	Status int
	// Remedy is the message for the client with a status of 500 and above, since such errors stay internal. Below, the
	// message is the error.
	Remedy string
	Kind   Kind          // empty: the default of the status
	Retry  time.Duration // earliest retry with a status of 503; 0: after a second
}

// statusClientLeft is only logged: the client has disconnected.
const statusClientLeft = 499

var errorStatuses = []ErrorStatus{
	{Is: futurejobs.ErrBadCursor, Status: http.StatusBadRequest, Kind: BadCursor},
	{Is: futurejobs.ErrNotFound, Status: http.StatusNotFound},
	{Is: futurejobs.ErrExists, Status: http.StatusConflict},
	{Is: alerts.ErrTooManyMutes, Status: http.StatusConflict},
	{Is: futurejobs.ErrPaused, Status: http.StatusConflict},
	{Is: futurejobs.ErrJobEnded, Status: http.StatusConflict},
	{Is: futurejobs.ErrRulesChanged, Status: http.StatusServiceUnavailable, Remedy: "the rules are changing; retry"},
	{Is: futurejobs.ErrScheduleHeld, Status: http.StatusServiceUnavailable, Remedy: futurejobs.ErrScheduleHeld.Error(), Retry: futurejobs.HoldTickFor},
	{Is: futurejobs.ErrCursorMoved, Status: http.StatusServiceUnavailable, Remedy: "another node was faster; retry"},
	{Is: access.ErrQuota, Status: http.StatusUnprocessableEntity, Kind: QuotaUsedUp},
	{Is: rules.ErrConflict, Status: http.StatusPreconditionFailed, Kind: RuleConflict},
	{Is: rules.ErrBundle, Status: http.StatusConflict, Kind: RuleConflict},
	{Is: rules.ErrCalendarFile, Status: http.StatusConflict},
	{Is: rules.ErrCalendarOwner, Status: http.StatusForbidden},
	{Is: rules.ErrCalendarUsed, Status: http.StatusConflict},
	{Is: rules.ErrEntityChanged, Status: http.StatusUnprocessableEntity, Kind: RuleInvalid},
	{Is: rules.ErrSubject, Status: http.StatusUnprocessableEntity, Kind: RuleInvalid},
	{Is: rules.ErrPreview, Status: http.StatusUnprocessableEntity},
	{Is: rules.ErrReplay, Status: http.StatusUnprocessableEntity},
	{Is: replay.ErrRule, Status: http.StatusUnprocessableEntity},
	{Is: replaytasks.ErrRequest, Status: http.StatusUnprocessableEntity},
	{Is: replaytasks.ErrStopping, Status: http.StatusServiceUnavailable, Remedy: replaytasks.ErrStopping.Error()},
	{Is: webhooks.ErrDenied, Status: http.StatusUnauthorized},
	{Is: access.ErrDenied, Status: http.StatusUnauthorized},
	{Is: access.ErrExists, Status: http.StatusConflict},
	{Is: access.ErrRunning, Status: http.StatusConflict, Kind: IdempotencyConflict},
	{Is: access.ErrDone, Status: http.StatusConflict, Kind: IdempotencyConflict},
	{Is: access.ErrOtherBody, Status: http.StatusUnprocessableEntity, Kind: IdempotencyConflict},
	{Is: context.DeadlineExceeded, Status: http.StatusGatewayTimeout, Remedy: "the operation timed out; retry, and check /readyz"},
	{Is: context.Canceled, Status: statusClientLeft},
}

// apiPaths are the paths for programs, including all below those that end in a slash.
var apiPaths = []string{"/api/", "/healthz", "/readyz", "/metrics", profilesPath, specPath, StaticPath, hooksPath, pings.Prefix}

// forPeople reports whether a browser requests a page, outside the paths for programs.
func forPeople(r *http.Request) bool {
	return acceptsPage(r) && !isStream(r) && !isMachine(r.URL.Path)
}

// isMachine reports whether a path is one for programs.
func isMachine(path string) bool {
	return slices.ContainsFunc(apiPaths, func(at string) bool {
		return path == strings.TrimSuffix(at, "/") || strings.HasSuffix(at, "/") && strings.HasPrefix(path, at)
	})
}
