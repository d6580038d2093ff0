package rules

import (
	"context"
	"errors"
	"time"

	futurejobs "deadman/future_jobs"
)

// What a store answers a change that it does not make.
var (
	// ErrEntityChanged means that a version names another entity than the rule's first one did.
	ErrEntityChanged = errors.New("the entity of a rule never changes; give the rule another name")
	// ErrConflict means that the rule is not at the version that the change was made for.
	ErrConflict = errors.New("look at the rule again before you change it")
)

// Read is one stream that a rule version listens to.
type Read struct {
	Subject string `json:"subject"` // as the rule has it, wildcards and all
	Stream  string `json:"stream"`
	From    uint64 `json:"from"` // the stream's last sequence at the save: only later events count

	// At is when the stream took in the last event by then. It tells later events in a stream
	// that was recreated since, and counts anew.
	At time.Time `json:"at,omitzero"`
}

// after reports whether an event of the stream came after the save.
func (r Read) after(e futurejobs.Event) bool {
	return e.Seq > r.From || !r.At.IsZero() && e.At.After(r.At)
}

// Saved is one version of a rule as it is kept. Versions are immutable; whether the rule is
// paused or deleted is the same for all of them.
type Saved struct {
	RuleID    int32
	Version   int32
	Name      string
	Entity    string // the same in all versions of a rule
	Document  []byte // the rule as JSON
	Reads     []Read
	Bundle    string // the set of files that it came with; empty: by API
	SavedAt   time.Time
	SavedBy   string    // who saved it; empty: nobody knows
	PausedAt  time.Time // no new waits begin, whatever the document says; zero: they do
	PausedBy  string
	DeletedAt time.Time // zero: it is in force
}

// AnyVersion is the version that a change is made for when it does not matter.
const AnyVersion int32 = -1

// Store keeps rules. Changes are for the rule of a name that is not deleted and, unless
// version is AnyVersion, whose newest version is that one (0: there is no such rule);
// otherwise they are ErrConflict, or futurejobs.ErrNotFound where nothing has the name and
// the change needs a rule. Each grows the revision, after those that rest on the old one are
// done. Implementations are safe for concurrent use.
type Store interface {
	// Revision is the rule set's revision; it grows with every change.
	Revision(ctx context.Context) (int64, error)
	// Load returns all versions of the rules that are not deleted, by rule and version,
	// and the revision they belong to, in one snapshot.
	Load(ctx context.Context) (int64, []Saved, error)
	// Named returns the versions of the rules that have or had the name, the newest rule and
	// its newest version first; none where nothing ever had it.
	Named(ctx context.Context, name string) ([]Saved, error)
	// Version returns one version, also of a deleted rule, or futurejobs.ErrNotFound.
	Version(ctx context.Context, ruleID, version int32) (Saved, error)
	// Save writes the next version of the rule of that name, or the first, and opens a
	// cursor at From for each stream that was never read. It fills in RuleID, Version, SavedAt
	// and SavedBy. Another entity than the rule's own is ErrEntityChanged.
	Save(ctx context.Context, s Saved, version int32) (Saved, error)
	// Pause keeps a rule from beginning new waits, or lets it again. One that is so already
	// stays as it is.
	Pause(ctx context.Context, name string, paused bool) error
	// Delete deletes a rule and returns its id. Its jobs are left; no alert of it is decided
	// any more.
	Delete(ctx context.Context, name string, version int32) (ruleID int32, err error)
	// Deleted returns the ids of deleted rules that still have pending jobs.
	Deleted(ctx context.Context) ([]int32, error)
}
