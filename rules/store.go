package rules

import (
	"context"
	"errors"
	"time"
)

// ErrEntityChanged means that a version names another entity than the rule's first one did.
var ErrEntityChanged = errors.New("the entity of a rule never changes; give the rule another name")

// Read is one stream that a rule version listens to.
type Read struct {
	Subject string `json:"subject"` // as the rule has it, wildcards and all
	Stream  string `json:"stream"`
	From    uint64 `json:"from"` // the stream's last sequence at the save: only later events count
}

// Saved is one version of a rule as it is kept. Versions are immutable.
type Saved struct {
	RuleID   int32
	Version  int32
	Name     string
	Entity   string // the same in all versions of a rule
	Document []byte // the rule as JSON
	Reads    []Read
	Bundle   string // the set of files that it came with; empty: by API
	SavedAt  time.Time
}

// Store keeps rules. Implementations are safe for concurrent use.
type Store interface {
	// Revision is the rule set's revision; it grows with every change.
	Revision(ctx context.Context) (int64, error)
	// Load returns all versions of the rules that are not deleted, by rule and version,
	// and the revision they belong to, in one snapshot.
	Load(ctx context.Context) (int64, []Saved, error)
	// Version returns one version, also of a deleted rule, or futurejobs.ErrNotFound.
	Version(ctx context.Context, ruleID, version int32) (Saved, error)
	// Save writes the next version of the rule of that name, or the first, and opens a
	// cursor at From for each stream that was never read. It fills in RuleID, Version and
	// SavedAt. Another entity than the rule's own is ErrEntityChanged.
	Save(ctx context.Context, s Saved) (Saved, error)
}
