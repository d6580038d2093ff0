// Package lookup asks sources of truth on behalf of rules: in batches, with a bound on what
// a source that hangs or fails can hold up. The clients are in sources.
package lookup

import (
	"context"
	"errors"

	"deadman/checks"
)

// BatchMost is how many keys are asked about in one round trip at most.
const BatchMost = 2000

// Question is what a rule asks a source, the same for all keys. One of its parts is set.
type Question struct {
	SQL  string // a query for one key, with parameters $1, $2, …
	HTTP *HTTP
	NATS bool   // a request on Ask.Subject
	KV   string // a bucket

	Subject string // of NATS: the pattern of what is asked on; empty: nobody knows
}

// HTTP is how the answer to a GET is read.
type HTTP struct {
	Absent []int // statuses that mean that there is no such entity
}

// KeyQuery is what a question has of one key. What belongs to the question is set.
type KeyQuery struct {
	Params  []any  // of SQL: nil, bool, int, float64, string, json.Number or time.Time
	Path    string // of HTTP, escaped
	Subject string // of NATS
	Key     string // of KV
}

// Column is one field of what a question finds.
type Column struct {
	Name string
	Type Type
}

// Type is what the values of a column are, as JSON.
type Type string

// The types.
const (
	Text    Type = "text"
	Number  Type = "number"
	Boolean Type = "boolean"
	Any     Type = "any"
)

// Limits of what one key may find; what is over them is an error of that key.
const (
	MaxValue = 64 << 10 // bytes of JSON
	MaxDepth = 64       // levels of it
)

// ErrQuestion means that a source refuses a question as such, now and later. It says what is
// wrong with it.
var ErrQuestion = errors.New("the source refuses the question")

// ErrUndefined means that a source is not defined on this node.
var ErrUndefined = errors.New("no such source is defined")

// Client asks one source. It has no bound of its own on how many ask at once: Source has. It
// keeps no secret in an error. Implementations are in sources, and safe for concurrent use.
type Client interface {
	// Ask asks a question about many keys, at most BatchMost, in as few round trips as it
	// can; finding i is of asks[i]. An error of one key is in its finding and touches no
	// other. The error that is returned is of the source as a whole: nobody can be found out
	// about at the moment; wrapping ErrQuestion, nobody ever will be by this question.
	Ask(ctx context.Context, q Question, asks []KeyQuery) ([]checks.Finding, error)
	// Verify finds out what is wrong with a question without asking it: ErrQuestion, with
	// params being how many parameters it is given. columns are what it finds, where that
	// can be known. Any other error: the source can't be asked at the moment.
	Verify(ctx context.Context, q Question, params int) (columns []Column, err error)
	// Reach reports why the source can't be reached, without asking it about anybody.
	Reach(ctx context.Context) error
	// Close lets go of connections.
	Close()
}

// Cautious is a Client that knows what it may do beyond answering questions.
type Cautious interface {
	// Caution says what that is and what to do about it; empty: nothing, or there was no connection yet.
	Caution() string
}
