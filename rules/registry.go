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

// Binder finds the streams that take in what a rule listens to, and makes one where there is
// none. The bus implements it.
type Binder interface {
	// Bind returns what to read for the subjects. A subject that can't be read from, as of
	// a work queue, is ErrSubject, with the remedy.
	Bind(ctx context.Context, subjects []string) ([]StreamBinding, error)
	// Find is Bind that makes nothing: what no stream takes in is left out.
	Find(ctx context.Context, subjects []string) ([]StreamBinding, error)
	// Replay returns the events of a stream on the subjects that it took in at an instant or
	// later, up to a sequence. After an error there is nothing more.
	Replay(ctx context.Context, stream string, subjects []string, since time.Time, through uint64) iter.Seq2[futurejobs.Event, error]
	// Routes returns by which streams subjects come, in their order.
	Routes(ctx context.Context, subjects []string) ([]SubjectRoute, error)
	// Pending returns what a stream has on a subject after a sequence.
	Pending(ctx context.Context, stream, subject string, after uint64) (StreamBacklog, error)
	// ReadFrom is how to read a subject from a stream from its first event after an instant.
	ReadFrom(ctx context.Context, subject, stream string, after time.Time) (StreamBinding, error)
}

// SubjectRoute is by which streams a subject comes.
type SubjectRoute struct {
	Subject string
	Streams []string // sorted
	Takes   []string // what the streams take in of it; nil: all that there can be
	Risks   []string // why a stream may lose single events before they are read, which its settings allow
	Capture bool     // Bind would have it captured, in part or as a whole
	Err     error    // ErrSubject, with the remedy; nil: it can be read
}

// StreamBacklog is what a stream has on a subject.
type StreamBacklog struct {
	Gone      bool // there is no such stream
	CreatedAt time.Time
	Unread    bool       // there are events after the sequence
	LastAt    time.Time  // of the last event on the subject; zero: there is none
	CopyOf    CopiedFrom // what the last event is a copy of; without a stream: of nothing
}

// What the registry answers a change that it does not make.
var (
	// ErrSubject means that events of a subject can't be read, whatever is retried.
	ErrSubject = errors.New("the subject can't be listened to")
	// ErrBundle means that a rule belongs to a set of files, and is changed there.
	ErrBundle = errors.New("the rule belongs to a bundle of files")
)

// Registry is where rules are looked at and changed. What it changes is in force once the
// nodes' books are refreshed, within about a second; what rests on the rules before fails
// until then, and is evaluated again. It is safe for concurrent use.
type Registry struct {
	Store     Store
	Binder    Binder
	Book      *Catalog
	Jobs      Jobs
	Calendars calendars.Set
	Sources   Sources           // nil: nobody knows, and lookups are saved unchecked
	Handlers  *checks.Handlers  // nil: none
	Quotas    futurejobs.Quotas // nil: there are none
	Log       *slog.Logger
	// As has what is done in the context be done in the name of a folder that is applied; nil: in that of whoever applies it.
	As func(ctx context.Context, bundle string) context.Context
	// Only Rebind needs these: Announce says what is to be known of streams, and Now is the
	// time.
	Announce func(ctx context.Context, r alerts.SystemAlert) error
	Now      func() time.Time

	parsing   lanes
	replays   lanes
	listed    atomic.Pointer[ruleListCache]
	expecting sync.Map // by rule, the version whose expected beats are waited for, as takenUp
	moved     sync.Map // by rule, the version that all that is waited for went on with
}

// Jobs are the pending jobs of rules, and how far events became jobs.
type Jobs interface {
	Cursor(ctx context.Context, stream string) (c futurejobs.Cursor, ok bool, err error)
	JobsOf(ctx context.Context, ruleID int32, after futurejobs.Ref, limit int) ([]futurejobs.Job, error)
	Apply(ctx context.Context, b futurejobs.EffectBatch) (futurejobs.ApplyResult, error)
	OpenCursor(ctx context.Context, c futurejobs.Cursor) error
	Now(ctx context.Context) (time.Time, error)
}

// ListedRule is a rule as people see it, at its newest version.
type ListedRule struct {
	RuleVersion
	Document Document
	Err      error     // why its document can't be read, or is out of its bounds; nil: it can be run
	BeganAt  time.Time // when its first version was saved
}

// NextTick is the first tick of the rule's schedule after now; ticks is false where it has none, and
// at is zero where it does not tick any more.
func (l ListedRule) NextTick(now time.Time) (at time.Time, ticks bool) {
	s := l.Document.schedule()
	if s == nil || l.Err != nil {
		return at, false
	}
	at, _ = s.From(l.BeganAt).Next(latest(now, l.SavedAt))
	return at, true
}

// outside is what rules may name.
func (r *Registry) outside() environment {
	return environment{calendars: r.Calendars, sources: r.Sources, handlers: r.Handlers}
}

// ruleListCache are the rules of a revision.
type ruleListCache struct {
	revision int64
	saved    []RuleVersion // all versions, by rule and version
	rules    []ListedRule
}

// List returns the rules that are not deleted, by name. What changed is read once a revision, and shared: whoever
// gets the rules leaves them as they are.
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

// with is what is listed after changes. Documents that did not change are not decoded again.
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

// before is the rule of a name as it is, nil if there is none.
func (r *Registry) before(ctx context.Context, name string) (*ListedRule, error) {
	named, err := r.Store.Named(ctx, name)
	if err != nil || len(named) == 0 || !named[0].DeletedAt.IsZero() {
		return nil, err
	}
	l := listing(named[0], beganAt(named, named[0].RuleID))
	return &l, nil
}

// Versions returns all versions of a rule, newest first, or futurejobs.ErrNotFound. Those of
// rules that had the name and were deleted are among them.
func (r *Registry) Versions(ctx context.Context, name string) ([]RuleVersion, error) {
	named, err := r.Store.Named(ctx, name)
	if err == nil && len(named) == 0 {
		err = fmt.Errorf("rule %s: %w", name, futurejobs.ErrNotFound)
	}
	return named, err
}

// Diff is what changed between two versions of a rule, as a unified diff of their canonical
// texts.
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

// textOf is a version as people write it; as it is stored where it can't be read.
func textOf(s RuleVersion) string {
	if d, err := decodeDocument(s.Document); err == nil {
		if text, err := d.YAML(); err == nil {
			return string(text)
		}
	}
	return string(s.Document) + "\n"
}

// Delete deletes a rule. No alert of it is decided any more; its pending jobs end, in the
// background where they are many. bundle is the set of files that asks for it.
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

// Pause keeps a rule from beginning new waits, or lets it again. It is apart from the
// document, so that applying files does not undo it.
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
