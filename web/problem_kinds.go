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
	{BadRequest, []int{400, 408}, "The request cannot be read: its path, its query, its headers, or its body is cut short or is no JSON."},
	{BadCursor, []int{400}, "The cursor is not one of this list. Leave it out to begin at the start."},
	{Unauthorized, []int{401}, "There is no token, or one that is unknown, expired or revoked."},
	{Forbidden, []int{403}, "The token does not allow this, or the request came from a page of another site or for another host."},
	{NotFound, []int{404}, "There is no such rule, version, job, alert, letter or token, or no such address."},
	{NotAllowed, []int{405}, "The method cannot be done to this address; the header Allow says which can."},
	{Conflict, []int{409}, "It is there already, or no stream takes it in."},
	{RuleConflict, []int{409, 412}, "412: somebody else changed the rule meanwhile. 409: it exists already, or belongs to a bundle of files."},
	{TooLarge, []int{413}, "The body is over the limit."},
	{UnsupportedType, []int{415}, "The body's Content-Type is not one that is read here."},
	{Invalid, []int{422}, "A field of the body has a value that it cannot have."},
	{UnknownField, []int{422}, "The body has a field that is not known; the nearest known one is named."},
	{RuleInvalid, []int{422}, "The rule is refused; each of its errors has a place and a remedy."},
	{IdempotencyConflict, []int{409, 422}, "422: the Idempotency-Key came with another body before. 409: the first request is still being answered."},
	{TooManyRequests, []int{429}, "A limit of the token or of the address is reached, or of what is at work for the token; the header Retry-After says when to try again."},
	{QuotaUsedUp, []int{422, 429}, "A quota of the prefix is used up. 422: of rules, jobs or their bytes, until some are gone or an admin raises it. 429: of events or their bytes, for the seconds of Retry-After."},
	{Internal, []int{500}, "The node could not do it; its log says why."},
	{Unavailable, []int{503}, "The database or the broker does not answer, or somebody was faster; try again."},
	{TimedOut, []int{504}, "The node could not find out in time; try again."},
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
