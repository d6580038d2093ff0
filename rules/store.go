package rules

import (
	"context"
	"errors"
	"slices"
	"strconv"
	"strings"
	"time"

	futurejobs "deadman/future_jobs"
	"deadman/internal/access"
)

// What a store answers a change that it does not make.
var (
	// ErrEntityChanged means that a version names another entity than the rule's first one did.
	ErrEntityChanged = errors.New("the entity of a rule never changes; give the rule another name")
	// ErrConflict means that the rule is not at the version that the change was made for.
	ErrConflict = errors.New("look at the rule again before you change it")
)

// StreamBinding is one stream that a rule version listens to.
type StreamBinding struct {
	Subject string `json:"subject"` // as the rule has it, wildcards and all
	Stream  string `json:"stream"`
	From    uint64 `json:"from"` // the stream's last sequence at the save: only later events count

	// At is when the stream took in the last event by then, or when it was created. It tells
	// later events in a stream that was recreated or restored since, and counts anew.
	At time.Time `json:"at,omitzero"`
	// CreatedAt is when the stream was created that From is of; zero: nobody knows.
	CreatedAt time.Time `json:"created_at,omitzero"`
	// Given are streams that gave the subject's events before this one did. Where this one
	// has copies of those, they are no news.
	Given []CopiedFrom `json:"given,omitempty"`
}

// CopiedFrom is how far a stream was read before its subject moved to another.
type CopiedFrom struct {
	Stream  string `json:"stream"`
	Through uint64 `json:"through"`
}

// after reports whether an event of the stream came after the save. In another stream of the
// same name only its time can tell; in the same one, where that was restored to what it was
// before the save.
func (r StreamBinding) after(e futurejobs.Event) bool {
	other := !r.CreatedAt.IsZero() && !e.StreamCreatedAt.IsZero() && !e.StreamCreatedAt.Equal(r.CreatedAt)
	return !other && e.Seq > r.From || !r.At.IsZero() && e.At.After(r.At)
}

// given reports whether the event is a copy of one that another stream gave before.
func (r StreamBinding) given(e futurejobs.Event) bool {
	if len(r.Given) == 0 {
		return false
	}
	stream, seq, ok := copyOf(e)
	return ok && slices.ContainsFunc(r.Given, func(g CopiedFrom) bool { return g.Stream == stream && seq <= g.Through })
}

// sourceHeader is where NATS says of which stream's message a message is a copy: the stream,
// the sequence there, and more.
const sourceHeader = "Nats-Stream-Source"

func copyOf(e futurejobs.Event) (stream string, seq uint64, ok bool) { return CopyOf(e.Header) }

// CopyOf returns the message that one with these headers is a copy of.
func CopyOf(header map[string][]string) (stream string, seq uint64, ok bool) {
	said := header[sourceHeader]
	if len(said) == 0 {
		return "", 0, false
	}
	fields := strings.Fields(said[0])
	if len(fields) < 2 {
		return "", 0, false
	}
	seq, err := strconv.ParseUint(fields[1], 10, 64)
	return fields[0], seq, err == nil
}

// RuleVersion is one version of a rule as it is kept. Versions are immutable; whether the rule is
// paused or deleted is the same for all of them.
type RuleVersion struct {
	RuleID   int32
	Version  int32
	Name     string
	Entity   string // the same in all versions of a rule
	Document []byte // the rule as JSON
	Reads    []StreamBinding
	Bundle   string // the set of files that it came with; empty: by API
	SavedAt  time.Time
	SavedBy  string // who saved it; empty: nobody knows

	// Bounds are those of the token that saved it: what is out of them, the version does not use. They stay when the token
	// ends. nil: there are none.
	Bounds *access.Bounds

	PausedAt  time.Time // no new waits begin, whatever the document says; zero: they do
	PausedBy  string
	DeletedAt time.Time // zero: it is in force
}

// IsOfFolder reports whether a node read the version from its folder of rule files: the node saves in the name of the bundle,
// which no token can have.
func (s RuleVersion) IsOfFolder() bool { return s.Bundle != "" && s.SavedBy == s.Bundle }

// HaltedBy is in the place of who paused a rule whose expressions cost too much. No token has such a name.
const HaltedBy = "deadman (costly)"

// isHalted reports whether the rule is paused because its expressions cost too much.
func (s RuleVersion) isHalted() bool { return !s.PausedAt.IsZero() && s.PausedBy == HaltedBy }

// WaitsFor returns the streams that can end or change the rule's pending jobs, sorted; nil where the
// document cannot be read.
func (s RuleVersion) WaitsFor() []string {
	d, err := decodeDocument(s.Document)
	if err != nil {
		return nil
	}
	return d.waitsFor(s.Reads)
}

// Changes are what changed in the rules between two revisions.
type Changes struct {
	Revision int64
	All      bool // Saved is all that there is, of the rules that are not deleted
	// Saved are the versions that were saved or read from other streams, by rule and version. Of a rule
	// that changed in what its versions have in common, one of version 0 says how. A rule may be deleted.
	Saved []RuleVersion
}

// AnyVersion is the version that a change is made for when it does not matter.
const AnyVersion int32 = -1

// Store keeps rules. Changes are for the rule of a name that is not deleted and, unless
// version is AnyVersion, whose newest version is that one (0: there is no such rule);
// otherwise they are ErrConflict, or futurejobs.ErrNotFound where nothing has the name and
// the change needs a rule. Each grows the revision, and fences what was evaluated before it:
// batches of events of the streams that the rule reads, or read before; batches by hand on the rule; and,
// where the rule is deleted or its jobs wait for other streams, decisions on its pending jobs. Implementations are safe for concurrent use.
type Store interface {
	// Revision is the rule set's revision; it grows with every change.
	Revision(ctx context.Context) (int64, error)
	// Changes returns what changed since a revision, in one snapshot; -1 stands for all versions of the rules that are not
	// deleted.
	Changes(ctx context.Context, since int64) (Changes, error)
	// Named returns the versions of the rules that have or had the name, the newest rule and
	// its newest version first; none where nothing ever had it.
	Named(ctx context.Context, name string) ([]RuleVersion, error)
	// Version returns one version, also of a deleted rule, or futurejobs.ErrNotFound.
	Version(ctx context.Context, ruleID, version int32) (RuleVersion, error)
	// Save writes the next version of the rule of that name, or the first, and opens a
	// cursor at From for each stream that was never read. It fills in RuleID, Version, SavedAt
	// and SavedBy. Another entity than the rule's own is ErrEntityChanged.
	Save(ctx context.Context, s RuleVersion, version int32) (RuleVersion, error)
	// Pause keeps a rule from beginning new waits, or lets it again. One that is so already
	// stays as it is.
	Pause(ctx context.Context, name string, paused bool) error
	// Delete deletes a rule and returns its id. Its jobs are left; no alert of it is decided
	// any more.
	Delete(ctx context.Context, name string, version int32) (ruleID int32, err error)
	// Rebind writes what versions of a rule read, by version, unless the rule was changed after the
	// revision that they were judged at, which is ErrConflict. A stream that nobody reads yet has
	// its cursor at From of what is new; one that was read past it is read again from there, and
	// what all rules had of it stays what they had.
	Rebind(ctx context.Context, name string, revision int64, reads map[int32][]StreamBinding) error
	// Deleted returns the ids of deleted rules that still have pending jobs.
	Deleted(ctx context.Context) ([]int32, error)
}
