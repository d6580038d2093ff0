package access

import "time"

// AuditEntry is a line of the audit. It is written in the transaction of what it tells, and
// never changed.
type AuditEntry struct {
	ID     int64     `json:"id"` // later entries have greater ones
	At     time.Time `json:"at"`
	Actor  Actor     `json:"actor"`
	Action string    `json:"action"` // such as rule.save, job.cancel, token.create
	Object string    `json:"object"` // such as rule/order-unshipped, job/<rule>/<key>, token/<name>
	Detail string    `json:"detail,omitzero"`
}

// AuditFilter narrows the audit. Zero values narrow nothing. Actor, Action and Object are whole,
// or what one begins with and a "*".
type AuditFilter struct {
	Actor  string // its name
	Action string
	Object string
	After  time.Time // inclusive
	Before time.Time // exclusive
	Cursor string    // where the last page ended; opaque
	Limit  int       // 1 to 500; 0: 50
}
