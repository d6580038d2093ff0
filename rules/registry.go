package rules

import (
	"context"
	"errors"
	"fmt"
	"iter"
	"log/slog"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/aymanbagabas/go-udiff"

	"deadman/alerts"
	"deadman/checks"
	futurejobs "deadman/future_jobs"
	"deadman/internal/calendars"
)

// Binder finds the streams that store the subjects of a rule, and creates one if necessary. The bus implements it.
type Binder interface {
	// Bind returns the reads for the subjects. A subject that cannot be read, for example one of a work queue, is
	// ErrSubject, with the remedy.
	Bind(ctx context.Context, subjects []string) ([]StreamBinding, error)
	// Find is Bind without creating streams: subjects that no stream stores are left out.
	Find(ctx context.Context, subjects []string) ([]StreamBinding, error)
	// Replay returns the events of a stream on the subjects that it stored at or after since, up to a sequence. After
	// an error it ends.
	Replay(ctx context.Context, stream string, subjects []string, since time.Time, through uint64) iter.Seq2[futurejobs.Event, error]
	// Routes returns the routes of subjects, in their order.
	Routes(ctx context.Context, subjects []string) ([]SubjectRoute, error)
	// Pending returns the backlog of a stream on a subject after a sequence.
	Pending(ctx context.Context, stream, subject string, after uint64) (StreamBacklog, error)
	// ReadFrom returns the read of a subject from a stream, from its first event after a time.
	ReadFrom(ctx context.Context, subject, stream string, after time.Time) (StreamBinding, error)
}

// SubjectRoute is the set of streams that store a subject.
type SubjectRoute struct {
	Subject string
	Streams []string // sorted
	Takes   []string // the parts of it that the streams store; nil: all of it
	Risks   []string // why a stream may lose single events before they are read, according to its settings
	Capture bool     // Bind would capture it, in part or as a whole
	Err     error    // ErrSubject, with the remedy; nil: it can be read
}

// StreamBacklog is the backlog of a stream on a subject.
type StreamBacklog struct {
	Gone      bool // the stream does not exist
	CreatedAt time.Time
	Unread    bool       // the stream has events after the sequence
	LastAt    time.Time  // of the last event on the subject; zero: none
	CopyOf    CopiedFrom // the original of the last event, if it is a copy; without a stream: it is none
}

// The errors of changes that the registry refuses.
var (
	// ErrSubject means that events of a subject cannot be read, even after a retry.
	ErrSubject = errors.New("the subject can't be listened to")
	// ErrBundle means that a rule belongs to a bundle of files, and has to be changed there.
	ErrBundle = errors.New("the rule belongs to a bundle of files")
)

// Registry reads and changes rules. Its changes are in force once the nodes' catalogs are refreshed, within about a
// second; operations based on the rules before fail until then, and are evaluated again. It is safe for concurrent use.
type Registry struct {
	Store     Store
	Binder    Binder
	Book      *Catalog
	Jobs      Jobs
	Calendars calendars.Set
	Sources   Sources           // nil: unknown, and lookups are saved unchecked
	Handlers  *checks.Handlers  // nil: none
	Quotas    futurejobs.Quotas // nil: unlimited
	Log       *slog.Logger
	// As returns a context for acting in the name of a folder that is applied; nil: the caller's own name is used.
	As func(ctx context.Context, bundle string) context.Context
	// Only Rebind needs these: Announce raises alerts about streams, and Now returns the time.
	Announce func(ctx context.Context, r alerts.SystemAlert) error
	Now      func() time.Time

	parsing   lanes
	replays   lanes
	listed    atomic.Pointer[ruleListCache]
	expecting sync.Map // by rule, the version whose expected keys are synced, as expectedDone
	moved     sync.Map // by rule, the version that all pending jobs moved to
}

// Jobs accesses the pending jobs of rules, and the cursors of streams.
type Jobs interface {
	// Cursor is futurejobs.EffectStore.Cursor.
	Cursor(ctx context.Context, stream string) (c futurejobs.Cursor, ok bool, err error)
	// JobsOf is futurejobs.EffectStore.JobsOf.
	JobsOf(ctx context.Context, ruleID int32, after futurejobs.Ref, limit int) ([]futurejobs.Job, error)
	// Apply is futurejobs.EffectStore.Apply.
	Apply(ctx context.Context, b futurejobs.EffectBatch) (futurejobs.ApplyResult, error)
	// OpenCursor is futurejobs.EffectStore.OpenCursor.
	OpenCursor(ctx context.Context, c futurejobs.Cursor) error
	// Now returns the database's time.
	Now(ctx context.Context) (time.Time, error)
}

// ListedRule is a rule as users see it, at its newest version.
type ListedRule struct {
	RuleVersion
	Document Document
	Err      error     // why its document cannot be read, or is out of its bounds; nil: it can be run
	BeganAt  time.Time // when its first version was saved
}

// NextTick returns the first tick of the rule's schedule after now; ticks is false if it has no schedule, and at is
// zero if the schedule is over.
func (l ListedRule) NextTick(now time.Time) (at time.Time, ticks bool) {
	s := l.Document.schedule()
	if s == nil || l.Err != nil {
		return at, false
	}
	at, _ = s.From(l.BeganAt).Next(latest(now, l.SavedAt))
	return at, true
}

// outside returns the environment of the rules.
func (r *Registry) outside() environment {
	return environment{calendars: r.Calendars, sources: r.Sources, handlers: r.Handlers}
}

// ruleListCache holds the rules of a revision.
type ruleListCache struct {
	revision int64
	saved    []RuleVersion // all versions, by rule and version
	rules    []ListedRule
}

// List returns the rules that are not deleted, by name. Changes are read once a revision, and shared: callers must not
// modify the rules.
func (r *Registry) List(ctx context.Context) ([]ListedRule, error) {
	revision, err := r.Store.Revision(ctx)
	if err != nil {
		return nil, wrapErr("list rules", err)
	}
	known := r.listed.Load()
	if known == nil {
		known = &ruleListCache{revision: -1}
	}
	if known.revision == revision {
		return known.rules, nil
	}
	changes, err := r.Store.Changes(ctx, known.revision)
	if err != nil {
		return nil, wrapErr("list rules", err)
	}
	now := known.with(changes)
	r.listed.Store(now)
	return now.rules, nil
}

// with returns the list after changes. Documents that did not change are not decoded again.
func (l *ruleListCache) with(changes Changes) *ruleListCache {
	saved := changes.Saved
	if !changes.All {
		saved = mergeSaved(l.saved, changes.Saved)
	}
	before := make(map[id]ListedRule, len(l.rules))
	for _, r := range l.rules {
		before[id{r.RuleID, r.Version}] = r
	}
	began := make(map[int32]time.Time)
	for _, s := range slices.Backward(saved) { // by rule and version
		began[s.RuleID] = s.SavedAt
	}
	next := &ruleListCache{revision: changes.Revision, saved: saved}
	for _, s := range newestOf(saved) {
		now, isKnown := before[id{s.RuleID, s.Version}]
		if isKnown {
			now.RuleVersion, now.BeganAt = s, began[s.RuleID]
		} else {
			now = listing(s, began[s.RuleID])
		}
		next.rules = append(next.rules, now)
	}
	slices.SortFunc(next.rules, func(a, b ListedRule) int { return strings.Compare(a.Name, b.Name) })
	return next
}

func listing(s RuleVersion, began time.Time) ListedRule {
	d, err := decodeDocument(s.Document)
	if err == nil {
		err = d.outOf(s.Bounds).orNil()
	}
	return ListedRule{RuleVersion: s, Document: d, Err: err, BeganAt: began}
}

// Get returns a rule, or futurejobs.ErrNotFound.
func (r *Registry) Get(ctx context.Context, name string) (ListedRule, error) {
	l, err := r.before(ctx, name)
	if l == nil && err == nil {
		err = fmt.Errorf("rule %s: %w", name, futurejobs.ErrNotFound)
	}
	if err != nil {
		return ListedRule{}, err
	}
	return *l, nil
}

// before returns the named rule as it is, nil if it does not exist.
func (r *Registry) before(ctx context.Context, name string) (*ListedRule, error) {
	named, err := r.Store.Named(ctx, name)
	if err != nil || len(named) == 0 || !named[0].DeletedAt.IsZero() {
		return nil, err
	}
	l := listing(named[0], beganAt(named, named[0].RuleID))
	return &l, nil
}

// Versions returns all versions of a rule, newest first, or futurejobs.ErrNotFound. It includes those of deleted rules
// with the same name.
func (r *Registry) Versions(ctx context.Context, name string) ([]RuleVersion, error) {
	named, err := r.Store.Named(ctx, name)
	if err == nil && len(named) == 0 {
		err = fmt.Errorf("rule %s: %w", name, futurejobs.ErrNotFound)
	}
	return named, err
}

// Diff returns the changes between two versions of a rule, as a unified diff of their canonical texts.
func (r *Registry) Diff(ctx context.Context, name string, from, to int32) (string, error) {
	versions, err := r.Versions(ctx, name)
	if err != nil {
		return "", err
	}
	var texts [2]string
	for i, number := range []int32{from, to} {
		at := slices.IndexFunc(versions, func(s RuleVersion) bool { return s.Version == number })
		if at < 0 {
			return "", fmt.Errorf("rule %s has no version %d: %w", name, number, futurejobs.ErrNotFound)
		}
		texts[i] = textOf(versions[at])
	}
	return udiff.Unified(fmt.Sprintf("%s version %d", name, from), fmt.Sprintf("%s version %d", name, to), texts[0], texts[1]), nil
}

// textOf returns a version as authors write it; as it is stored if it cannot be read.
func textOf(s RuleVersion) string {
	if d, err := decodeDocument(s.Document); err == nil {
		if text, err := d.YAML(); err == nil {
			return string(text)
		}
	}
	return string(s.Document) + "\n"
}

// Delete deletes a rule. No further alert of it is raised; its pending jobs end, in the background if they are many.
// bundle is the bundle of files of the request.
func (r *Registry) Delete(ctx context.Context, name string, version int32, bundle string) error {
	before, err := r.Get(ctx, name)
	if err != nil {
		return err
	}
	if before.Bundle != "" && before.Bundle != bundle {
		return fmt.Errorf("%w, %s: take rule %s out of them and apply them with --prune, or delete it in their name (--bundle %s)", ErrBundle, before.Bundle, name, before.Bundle)
	}
	_, err = r.Store.Delete(ctx, name, version)
	return err
}

// Pause keeps a rule from creating new jobs, or resumes it. It is separate from the document, so that applying files
// does not undo it.
func (r *Registry) Pause(ctx context.Context, name string, paused bool) error {
	return r.Store.Pause(ctx, name, paused)
}

// EndJobsOfDeletedRules ends the pending jobs of rules that were deleted, and returns how many.
func (r *Registry) EndJobsOfDeletedRules(ctx context.Context) (int, error) {
	deleted, err := r.Store.Deleted(ctx)
	if err != nil {
		return 0, wrapErr("deleted rules", err)
	}
	total := 0
	for _, ruleID := range deleted {
		n, err := r.Purge(ctx, ruleID)
		total += n
		if err != nil {
			return total, wrapErr("end the jobs of deleted rules", err)
		}
	}
	return total, nil
}
