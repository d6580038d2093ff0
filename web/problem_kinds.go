package web

import "net/http"

// Kind identifies a problem, independent of its message. Clients may rely on it.
type Kind string

// The kinds of problems.
const (
	BadRequest          Kind = "bad-request"
	BadCursor           Kind = "bad-cursor"
	Unauthorized        Kind = "unauthorized"
	Forbidden           Kind = "forbidden"
	NotFound            Kind = "not-found"
	NotAllowed          Kind = "method-not-allowed"
	Conflict            Kind = "conflict"
	RuleConflict        Kind = "rule-conflict"
	TooLarge            Kind = "too-large"
	UnsupportedType     Kind = "unsupported-type"
	Invalid             Kind = "invalid"
	UnknownField        Kind = "unknown-field"
	RuleInvalid         Kind = "rule-invalid"
	IdempotencyConflict Kind = "idempotency-conflict"
	TooManyRequests     Kind = "too-many-requests"
	QuotaUsedUp         Kind = "quota-used-up"
	Internal            Kind = "internal"
	Unavailable         Kind = "unavailable"
	TimedOut            Kind = "timed-out"
)

// URN returns the type of a problem of this kind.
func (k Kind) URN() string { return "urn:deadman:problem:" + string(k) }

// kinds are all kinds, with their statuses and meanings. The first kind of a status is its default.
var kinds = []struct {
	Kind
	Statuses []int
	Means    string
}{
	{BadRequest, []int{400, 408}, "The path, query, headers or body of the request cannot be parsed, or the body is incomplete."},
	{BadCursor, []int{400}, "The cursor does not belong to this list. Omit it to start at the first page."},
	{Unauthorized, []int{401}, "The token is missing, unknown, expired or revoked."},
	{Forbidden, []int{403}, "The token does not permit the operation, or the request came from a page of another site or names another host."},
	{NotFound, []int{404}, "The rule, version, job, alert, dead letter, token or path does not exist."},
	{NotAllowed, []int{405}, "The path does not support the method; the header Allow lists the supported ones."},
	{Conflict, []int{409}, "The object exists already, or no stream covers the subject."},
	{RuleConflict, []int{409, 412}, "412: the rule was changed in the meantime. 409: the rule exists already, or belongs to a bundle of files."},
	{TooLarge, []int{413}, "The body exceeds the limit."},
	{UnsupportedType, []int{415}, "The Content-Type of the body is not supported."},
	{Invalid, []int{422}, "A field of the body has an invalid value."},
	{UnknownField, []int{422}, "The body has an unknown field; the message names the closest known field."},
	{RuleInvalid, []int{422}, "The rule is invalid; errors has the location and remedy of each error."},
	{IdempotencyConflict, []int{409, 422}, "422: the Idempotency-Key was used with another body. 409: the first request is still in progress."},
	{TooManyRequests, []int{429}, "A rate or concurrency limit of the token or client address is reached; retry after the seconds of the header Retry-After."},
	{QuotaUsedUp, []int{422, 429}, "A quota of the prefix is used up. 422: rules, versions, subjects, stored schedules, jobs or their bytes; delete some, or have the quota raised. 429: events or their bytes, or kept answers; retry after the seconds of the header Retry-After."},
	{Internal, []int{500}, "Internal error; the log of the node has the cause."},
	{Unavailable, []int{503}, "The database or NATS server does not answer, or a concurrent change was faster; retry."},
	{TimedOut, []int{504}, "The operation timed out; retry."},
}

// kindOf returns the default kind of a status.
func kindOf(status int) Kind {
	for _, k := range kinds {
		for _, s := range k.Statuses {
			if s == status {
				return k.Kind
			}
		}
	}
	if status < http.StatusInternalServerError {
		return BadRequest
	}
	return Internal
}
