package rules

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"time"

	futurejobs "deadman/future_jobs"
	"deadman/internal/access"
	"deadman/rules/document"
)

// The errors of changes that a store refuses.
var (
	// ErrEntityChanged means that a version names another entity than the rule's first one.
	ErrEntityChanged = errors.New("the entity of a rule never changes; give the rule another name")
	// ErrConflict means that the rule is not at the version that the change was made for.
	ErrConflict = errors.New("the rule has changed; read it again before you change it")
)

// StreamBinding is one stream that a rule version reads.
type StreamBinding struct {
	Subject string `json:"subject"` // as in the rule, with wildcards
	Stream  string `json:"stream"`  // or its tenants' line; see futurejobs.TenantsLine
	From    uint64 `json:"from"`    // the stream's last sequence at the save: only later events count

	// At is when the stream stored its last event by then, or when it was created. It identifies later events in a
	// stream that was recreated or restored since, and counts anew.
	At time.Time `json:"at,omitzero"`
	// CreatedAt is when the stream of From was created; zero: unknown.
	CreatedAt time.Time `json:"created_at,omitzero"`
	// Given are the streams that the subject's events were read from before. Copies of those events in this stream are
	// skipped.
	Given []CopiedFrom `json:"given,omitempty"`
}

// CopiedFrom is the position up to which a stream was read before its subject moved to another.
type CopiedFrom struct {
	Stream  string `json:"stream"`
	Through uint64 `json:"through"`
}

// source returns the stream of the broker.
func (r StreamBinding) source() string { return futurejobs.StreamOf(r.Stream) }

// onLineOf returns reads on the lines for a rule with the bounds.
func onLineOf(b *access.Bounds, reads []StreamBinding) []StreamBinding {
	reads = slices.Clone(reads)
	for i, r := range reads {
		reads[i].Stream = lineOf(b, r.source())
	}
	return reads
}

// lineOf returns the line of a stream for a rule with the bounds.
func lineOf(b *access.Bounds, stream string) string {
	if b == nil {
		return stream
	}
	return futurejobs.TenantsLine(stream)
}

// after reports whether an event of the stream came after the save. In another stream of the same name only its time
// can tell; likewise in the same stream after it was restored to a state before the save.
func (r StreamBinding) after(e futurejobs.Event) bool {
	other := !r.CreatedAt.IsZero() && !e.StreamCreatedAt.IsZero() && !e.StreamCreatedAt.Equal(r.CreatedAt)
	return !other && e.Seq > r.From || !r.At.IsZero() && e.At.After(r.At)
}

// given reports whether the event is a copy of one that was read from another stream before.
func (r StreamBinding) given(e futurejobs.Event) bool {
	if len(r.Given) == 0 {
		return false
	}
	stream, seq, ok := copyOf(e)
	return ok && slices.ContainsFunc(r.Given, func(g CopiedFrom) bool { return g.Stream == stream && seq <= g.Through })
}

// sourceHeader is the NATS header of a copied message: the stream of the original, its sequence, and more.
const sourceHeader = "Nats-Stream-Source"

func copyOf(e futurejobs.Event) (stream string, seq uint64, ok bool) { return CopyOf(e.Header) }

// CopyOf returns the original of a message with these headers, if it is a copy.
func CopyOf(header map[string][]string) (stream string, seq uint64, ok bool) {
	values := header[sourceHeader]
	if len(values) == 0 {
		return "", 0, false
	}
	fields := strings.Fields(values[0])
	if len(fields) < 2 {
		return "", 0, false
	}
	seq, err := strconv.ParseUint(fields[1], 10, 64)
	return fields[0], seq, err == nil
}

// RuleVersion is one version of a rule as it is stored. Versions are immutable; the pause and the deletion of the rule
// are the same for all of them.
type RuleVersion struct {
	RuleID   int32
	Version  int32
	Name     string
	Entity   string // the same in all versions of a rule
	Document []byte // the rule as JSON
	Text     string // the YAML of its author, written by Save; reads leave it out, and Store.Text returns it
	Reads    []StreamBinding
	Bundle   string // the bundle of files that it came with; empty: by API
	Sets     []byte // the numbers of the sets of members of its resolves, and the next number; nil: their places

	Keep *document.Retention // of the document, written by Save; reads leave it out

	SavedAt time.Time
	SavedBy string // the actor of the save; empty: unknown

	// Bounds are those of the token that saved it: the version uses nothing out of them. They stay when the token ends.
	// nil: unlimited.
	Bounds *access.Bounds

	PausedAt  time.Time // no new jobs are created, regardless of the document; zero: not paused
	PausedBy  string
	DeletedAt time.Time // zero: it is in force
}

// IsOfFolder reports whether a node read the version from its folder of rule files: the node saves in the name of the
// bundle, a name that no token can have.
func (s RuleVersion) IsOfFolder() bool { return s.Bundle != "" && s.SavedBy == s.Bundle }

// HaltedBy is the actor of the pause of a rule whose expressions cost too much. No token has such a name.
const HaltedBy = "deadman (costly)"

// isHalted reports whether the rule is paused because its expressions cost too much.
func (s RuleVersion) isHalted() bool { return !s.PausedAt.IsZero() && s.PausedBy == HaltedBy }

// WaitsFor returns the lines that can end or change the rule's pending jobs, sorted; nil if the document cannot be
// read.
func (s RuleVersion) WaitsFor() []string {
	d, err := decodeDocument(s.Document)
	if err != nil {
		return nil
	}
	return streamRoles{d, s.Reads}.changing()
}

// Changes are the changes of the rules between two revisions.
type Changes struct {
	Revision int64
	All      bool // Saved has all versions of the rules that are not deleted
	// Saved are the versions that were saved or read from other streams, by rule and version. For a change of the
	// fields that all versions of a rule share, it has one of version 0 with the new values. A rule may be deleted.
	Saved []RuleVersion
}

// ExistingRule is ErrConflict for a rule that was to be created.
type ExistingRule struct {
	Name    string
	Version int32
}

// Error implements error.
func (e ExistingRule) Error() string {
	return fmt.Sprintf("rule %s already exists, at version %d", e.Name, e.Version)
}

// Is reports whether target is ErrConflict.
func (ExistingRule) Is(target error) bool { return target == ErrConflict }

const (
	// AnyVersion is the version of a change that applies to any version, or creates the first one.
	AnyVersion int32 = -1
	// AnyExisting is the version of a change that applies to any version, and creates none.
	AnyExisting int32 = -2
)

// ChangeReader reads the versions that a catalog holds. Implementations are safe for concurrent use.
type ChangeReader interface {
	// Revision returns the rule set's revision; it grows with every change.
	Revision(ctx context.Context) (int64, error)
	// Changes returns the changes since a revision, in one snapshot; -1 requests all versions of the rules that are not
	// deleted.
	Changes(ctx context.Context, since int64) (Changes, error)
	// Version returns one version, also of a deleted rule, or futurejobs.ErrNotFound.
	Version(ctx context.Context, ruleID, version int32) (RuleVersion, error)
	// Calendars returns the newest versions of the calendars that changed after a revision, by name; of all calendars, also
	// deleted ones, for -1.
	Calendars(ctx context.Context, since int64) ([]CalendarVersion, error)
}

// VersionReader reads rules and their versions. Implementations are safe for concurrent use.
type VersionReader interface {
	ChangeReader
	// Named returns the versions of the rules that have or had the name, the newest rule and its newest version first;
	// none if no rule ever had it.
	Named(ctx context.Context, name string) ([]RuleVersion, error)
	// Text returns the author's text of a version, or futurejobs.ErrNotFound; empty: none was saved.
	Text(ctx context.Context, ruleID, version int32) (string, error)
	// Deleted returns the ids of deleted rules that still have pending jobs.
	Deleted(ctx context.Context) ([]int32, error)
}

// Store keeps rules. Changes apply to the rule of a name that is not deleted and, unless version is AnyVersion, has
// that newest version (0: no such rule exists; AnyExisting: the rule exists); otherwise they are ErrConflict, or
// futurejobs.ErrNotFound if no rule has the name and the change needs one. Each change increases the revision, and fences all evaluations before it:
// batches of events of the streams that the rule reads, or read before; batches by hand on the rule; and, if the rule
// is deleted or its jobs wait for other streams, decisions on its pending jobs. Implementations are safe for concurrent
// use.
type Store interface {
	VersionReader
	CalendarStore
	// Save writes the next version of the rule of that name, or the first, and opens a
	// cursor at From for each stream that was never read. It fills in RuleID, Version, SavedAt
	// and SavedBy. Another entity than the rule's own is ErrEntityChanged.
	Save(ctx context.Context, s RuleVersion, version int32) (RuleVersion, error)
	// SetText replaces the author's text of a version. It changes no version and fences nothing.
	SetText(ctx context.Context, ruleID, version int32, text string) error
	// Pause keeps a rule from creating new jobs, or resumes it. A rule that is in that state already stays as it is.
	Pause(ctx context.Context, name string, paused bool) error
	// Delete deletes a rule and returns its id. Its jobs are left; no further alert of it is raised.
	Delete(ctx context.Context, name string, version int32) (ruleID int32, err error)
	// Rebind writes the reads of versions of a rule, by version, unless the rule was changed after the revision of
	// their evaluation, which is ErrConflict. A stream that no rule reads yet gets its cursor at From of the new read;
	// one that was read past it is read again from there, and the positions of all other rules in it are kept.
	Rebind(ctx context.Context, name string, revision int64, reads map[int32][]StreamBinding) error
}

// same reports whether saving t after s would change nothing. It ignores the streams that the subjects are read from:
// Rebind follows them without missing an event, while a version that is saved receives only events after the save.
func (s RuleVersion) same(t RuleVersion) bool {
	return s.Bundle == t.Bundle && s.Bounds.Equal(t.Bounds) && bytes.Equal(s.Document, t.Document) && slices.Equal(subjectsOf(s.Reads), subjectsOf(t.Reads))
}
