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
	"time"

	"github.com/aymanbagabas/go-udiff"

	"deadman/alerts"
	"deadman/calendars"
	"deadman/checks"
	futurejobs "deadman/future_jobs"
)

// Binder finds the streams that take in what a rule listens to, and makes one where there is
// none. The bus implements it.
type Binder interface {
	// Bind returns what to read for the subjects. A subject that can't be read from, as of
	// a work queue, is ErrSubject, with the remedy.
	Bind(ctx context.Context, subjects []string) ([]Read, error)
	// Find is Bind that makes nothing: what no stream takes in is left out.
	Find(ctx context.Context, subjects []string) ([]Read, error)
	// Past returns the events of a stream on the subjects that it took in at an instant or
	// later, up to a sequence. After an error there is nothing more.
	Past(ctx context.Context, stream string, subjects []string, since time.Time, through uint64) iter.Seq2[futurejobs.Event, error]
	// Roads returns by which streams subjects come, in their order.
	Roads(ctx context.Context, subjects []string) ([]Road, error)
	// Rest returns what a stream has on a subject after a sequence.
	Rest(ctx context.Context, stream, subject string, after uint64) (Rest, error)
	// Resume is how to read a subject from a stream from its first event after an instant.
	Resume(ctx context.Context, subject, stream string, after time.Time) (Read, error)
}

// Road is by which streams a subject comes.
type Road struct {
	Subject string
	Streams []string // sorted
	Takes   []string // what the streams take in of it; nil: all that there can be
	Capture bool     // Bind would have it captured, in part or as a whole
	Err     error    // ErrSubject, with the remedy; nil: it can be read
}

// Rest is what a stream has on a subject.
type Rest struct {
	Gone      bool // there is no such stream
	CreatedAt time.Time
	Unread    bool      // there are events after the sequence
	LastAt    time.Time // of the last event on the subject; zero: there is none
	CopyOf    Given     // what the last event is a copy of; without a stream: of nothing
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
	Book      *Book
	Jobs      Jobs
	Calendars calendars.Set
	Sources   Sources          // nil: nobody knows, and lookups are saved unchecked
	Handlers  *checks.Handlers // nil: none
	Log       *slog.Logger
	// Only Rebind needs these: Announce says what is to be known of streams, and Now is the
	// time.
	Announce func(ctx context.Context, r alerts.Remark) error
	Now      func() time.Time

	expecting sync.Map // by rule, the version whose expected beats are waited for
}

// Jobs are the pending jobs of rules, and how far events became jobs.
type Jobs interface {
	Cursor(ctx context.Context, stream string) (c futurejobs.Cursor, ok bool, err error)
	JobsOf(ctx context.Context, ruleID int32, after futurejobs.Ref, limit int) ([]futurejobs.Job, error)
	Apply(ctx context.Context, b futurejobs.Batch) (futurejobs.Applied, error)
	OpenCursor(ctx context.Context, c futurejobs.Cursor) error
	Now(ctx context.Context) (time.Time, error)
}

// Listing is a rule as people see it, at its newest version.
type Listing struct {
	Saved
	Document Document
	Err      error     // why its document can't be read; nil: it can
	BeganAt  time.Time // when its first version was saved
}

// NextTick is the first tick of the rule's schedule after now; ticks is false where it has none, and
// at is zero where it does not tick any more.
func (l Listing) NextTick(now time.Time) (at time.Time, ticks bool) {
	s := l.Document.schedule()
	if s == nil || l.Err != nil {
		return at, false
	}
	at, _ = s.From(l.BeganAt).Next(latest(now, l.SavedAt))
	return at, true
}

// SaveOptions say how a rule is saved.
type SaveOptions struct {
	Version int32  // what the rule has to be at: a number, 0 for a new one, or AnyVersion
	Bundle  string // the set of files that it comes with; empty: none
	Adopt   bool   // a rule of another bundle is taken over
	DryRun  bool   // nothing is written
	Pending bool   // pending jobs go on with the new version

	Since time.Time // what streams still have of events since then is taken in, too; zero: nothing
}

// Change is what saving a rule came to, or would.
type Change struct {
	Before   *Listing // nil: there was none
	After    Saved    // in a dry run, without what the store fills in
	Document Document
	Changed  bool
	Diff     string   // between the canonical texts, unified; empty: they are the same
	Moved    int      // pending jobs that were taken to the new version
	Past     int      // waits that began because of events before the save, or would
	Partly   []Road   // wildcards of which streams take in only a part; the rest is not heard
	Warnings []string // what could not be checked, and why
}

// outside is what rules may name.
func (r *Registry) outside() outside {
	return outside{calendars: r.Calendars, sources: r.Sources, handlers: r.Handlers}
}

// List returns the rules that are not deleted, by name.
func (r *Registry) List(ctx context.Context) ([]Listing, error) {
	_, saved, err := r.Store.Load(ctx)
	if err != nil {
		return nil, wrap("list rules", err)
	}
	var all []Listing
	began := make(map[int32]time.Time)
	for _, s := range slices.Backward(saved) { // by rule and version
		began[s.RuleID] = s.SavedAt
	}
	for _, s := range newestOf(saved) {
		all = append(all, listing(s, began[s.RuleID]))
	}
	slices.SortFunc(all, func(a, b Listing) int { return strings.Compare(a.Name, b.Name) })
	return all, nil
}

func listing(s Saved, began time.Time) Listing {
	d, err := decodeDocument(s.Document)
	return Listing{Saved: s, Document: d, Err: err, BeganAt: began}
}

// Get returns a rule, or futurejobs.ErrNotFound.
func (r *Registry) Get(ctx context.Context, name string) (Listing, error) {
	l, err := r.before(ctx, name)
	if l == nil && err == nil {
		err = fmt.Errorf("rule %s: %w", name, futurejobs.ErrNotFound)
	}
	if err != nil {
		return Listing{}, err
	}
	return *l, nil
}

// before is the rule of a name as it is, nil if there is none.
func (r *Registry) before(ctx context.Context, name string) (*Listing, error) {
	named, err := r.Store.Named(ctx, name)
	if err != nil || len(named) == 0 || !named[0].DeletedAt.IsZero() {
		return nil, err
	}
	l := listing(named[0], beganAt(named, named[0].RuleID))
	return &l, nil
}

// Versions returns all versions of a rule, newest first, or futurejobs.ErrNotFound. Those of
// rules that had the name and were deleted are among them.
func (r *Registry) Versions(ctx context.Context, name string) ([]Saved, error) {
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
		at := slices.IndexFunc(versions, func(s Saved) bool { return s.Version == number })
		if at < 0 {
			return "", fmt.Errorf("rule %s has no version %d: %w", name, number, futurejobs.ErrNotFound)
		}
		texts[i] = textOf(versions[at])
	}
	return udiff.Unified(fmt.Sprintf("%s version %d", name, from), fmt.Sprintf("%s version %d", name, to), texts[0], texts[1]), nil
}

// textOf is a version as people write it; as it is stored where it can't be read.
func textOf(s Saved) string {
	if d, err := decodeDocument(s.Document); err == nil {
		if text, err := d.YAML(); err == nil {
			return string(text)
		}
	}
	return string(s.Document) + "\n"
}

// Save saves the one rule of a text, YAML or JSON. name is what it has to be called; empty:
// anything. Where nothing would change nothing is written. The error is Problems,
// ErrConflict, ErrBundle, ErrEntityChanged, ErrSubject or of the store or the binder.
func (r *Registry) Save(ctx context.Context, text []byte, name string, o SaveOptions) (Change, error) {
	documents, err := parse(text, "", r.Calendars)
	if err != nil {
		return Change{}, err
	}
	if len(documents) > 1 {
		return Change{}, Problems{documents[1].problem("", "", "one rule at a time; the text has several")}
	}
	d := documents[0]
	if name != "" && d.Name != name {
		return Change{}, Problems{d.problem("", "/name", fmt.Sprintf("the rule is saved as %q; write that name, or save it under its own", name))}
	}
	for tries := 1; ; tries++ {
		before, err := r.before(ctx, d.Name)
		if err != nil {
			return Change{}, err
		}
		c, err := r.save(ctx, d, before, o)
		if o.Version == AnyVersion && errors.Is(err, ErrConflict) && c.After.Version == 0 && tries < saveTries {
			continue // nobody asked for a version, so the last one wins
		}
		return c, err
	}
}

// saveTries bounds how often a rule is compared and saved again because others save it, too.
const saveTries = 20

// save saves a document over the rule that is there.
func (r *Registry) save(ctx context.Context, d placed, before *Listing, o SaveOptions) (Change, error) {
	at := int32(0)
	if before != nil {
		at = before.Version
	}
	if err := d.replaces(before, at, o); err != nil {
		return Change{}, err
	}
	canonical, err := d.Canonical()
	if err != nil {
		return Change{}, err
	}
	warnings, err := r.verify(ctx, d, before, canonical)
	if err != nil {
		return Change{}, err
	}
	bind := r.Binder.Bind
	if o.DryRun {
		bind = r.Binder.Find
	}
	reads, err := bind(ctx, d.Subjects())
	if errors.Is(err, ErrSubject) {
		return Change{}, Problems{d.problem("", "/trigger", err.Error())}
	}
	if err != nil {
		return Change{}, wrap("bind "+d.Name, err)
	}
	if err := d.bindEmitted(ctx, bind); err != nil {
		return Change{}, err
	}
	c := Change{Before: before, Document: d.Document, Warnings: warnings, After: Saved{
		Name: d.Name, Entity: d.Entity, Document: canonical, Reads: reads, Bundle: o.Bundle,
	}}
	if before != nil {
		c.After.PausedAt, c.After.PausedBy = before.PausedAt, before.PausedBy
	}
	c.Changed = before == nil || !before.same(c.After)
	c.Diff = diffOf(before, c.After)
	if c.Partly, err = r.partly(ctx, d.Subjects()); err != nil {
		return c, wrap("bind "+d.Name, err)
	}
	p, err := r.pastOf(ctx, &c, o)
	if err != nil || o.DryRun {
		return c, err
	}
	if c.Changed {
		// The version that was compared is the one that is replaced.
		if c.After, err = r.Store.Save(ctx, c.After, at); err != nil {
			return c, err
		}
	} else {
		c.After = before.Saved
	}
	if o.Pending || c.recurs() {
		if c.Moved, err = r.move(ctx, c.After); err != nil {
			return c, err
		}
	}
	if p != nil {
		c.Past, err = p.begin(ctx, c.After)
	}
	return c, errors.Join(err, r.expectSaved(ctx, c))
}

// recurs reports whether the rule's trigger comes by the clock, and did before: then what is
// waited for goes on as the rule says now.
func (c Change) recurs() bool {
	byClock := func(t Trigger) bool { return t.Schedule != "" || t.Heartbeat != nil }
	return byClock(c.Document.Trigger) && c.Before != nil && byClock(c.Before.Document.Trigger)
}

// bindEmitted sees to it that a stream takes in what the rule's ticks publish.
func (d placed) bindEmitted(ctx context.Context, bind func(context.Context, []string) ([]Read, error)) error {
	emit := d.Trigger.Emit
	if emit == nil {
		return nil
	}
	_, err := bind(ctx, []string{emit.Subject})
	if errors.Is(err, ErrSubject) {
		return Problems{d.problem("", "/trigger/emit/subject", err.Error())}
	}
	return wrap("bind "+d.Name, err)
}

// partly are those of the subjects that no stream takes in as a whole.
func (r *Registry) partly(ctx context.Context, subjects []string) ([]Road, error) {
	wild := slices.DeleteFunc(slices.Clone(subjects), func(s string) bool { return !strings.ContainsAny(s, "*>") })
	if len(wild) == 0 {
		return nil, nil
	}
	slices.Sort(wild)
	roads, err := r.Binder.Roads(ctx, slices.Compact(wild))
	return slices.DeleteFunc(roads, func(road Road) bool { return road.Takes == nil }), err
}

// replaces refuses a document that can't be saved over the rule that is there, at a version.
func (d placed) replaces(before *Listing, at int32, o SaveOptions) error {
	switch {
	case o.Version == 0 && before != nil:
		return fmt.Errorf("there is a rule %s already, at version %d: %w", d.Name, at, ErrConflict)
	case o.Version != AnyVersion && o.Version != at:
		return fmt.Errorf("rule %s is at version %d, not %d: %w", d.Name, at, o.Version, ErrConflict)
	case before != nil && before.Bundle != "" && before.Bundle != o.Bundle && !o.Adopt:
		return fmt.Errorf("%w, %s: change rule %s there, or adopt it (--adopt)", ErrBundle, before.Bundle, d.Name)
	case before != nil && before.Entity != d.Entity:
		return Problems{d.problem("", "/entity", fmt.Sprintf("the rule waits for %q; %s", before.Entity, ErrEntityChanged))}
	}
	return nil
}

// pastOf plays what was before a change, where that is asked for, and counts it; nil where it
// is not.
func (r *Registry) pastOf(ctx context.Context, c *Change, o SaveOptions) (*past, error) {
	if o.Since.IsZero() {
		return nil, nil
	}
	saved := c.After
	if !c.Changed {
		saved = c.Before.Saved
	}
	p, err := r.past(ctx, saved, o.Since)
	if err == nil {
		c.Past = len(p.waits(saved))
	}
	return p, err
}

func diffOf(before *Listing, after Saved) string {
	old, from := "", "nothing"
	if before != nil {
		old, from = textOf(before.Saved), fmt.Sprintf("%s version %d", before.Name, before.Version)
	}
	return udiff.Unified(from, after.Name, old, textOf(after))
}

// pageMost is how many jobs are changed at a time.
const pageMost = 500

// move takes the pending jobs of a rule to a version, and returns how many. Those that moved
// before stay where they are, so that it can be done again after an error.
func (r *Registry) move(ctx context.Context, to Saved) (int, error) {
	rule, err := newVersion(to, r.outside()).compiled()
	if err != nil {
		return 0, err
	}
	return r.each(ctx, to.RuleID, "job.move", func(j futurejobs.Job) (futurejobs.Effect, bool) {
		return futurejobs.Effect{Rule: &rule.engine, Ref: j.Ref, Ask: futurejobs.Move{Next: rule.nextOf}}, j.Version < to.Version
	})
}

// Purge ends the pending jobs of a deleted rule, and returns how many. What the rule was does
// not matter any more: it may be one that can't be read.
func (r *Registry) Purge(ctx context.Context, ruleID int32) (int, error) {
	deleted := &futurejobs.Rule{ID: ruleID, Deleted: true}
	return r.each(ctx, ruleID, "", func(j futurejobs.Job) (futurejobs.Effect, bool) {
		return futurejobs.Purge(deleted, j.Ref), true
	})
}

// each applies an effect to the pending jobs of a rule.
func (r *Registry) each(ctx context.Context, ruleID int32, deed string, effect func(futurejobs.Job) (futurejobs.Effect, bool)) (n int, err error) {
	var after futurejobs.Ref
	for {
		b := futurejobs.Batch{RuleSet: r.Book.Revision(), Deed: deed}
		jobs, err := r.Jobs.JobsOf(ctx, ruleID, after, pageMost)
		if err != nil || len(jobs) == 0 {
			return n, err
		}
		for _, j := range jobs {
			if e, wanted := effect(j); wanted {
				b.Effects = append(b.Effects, e)
			}
		}
		applied, err := r.Jobs.Apply(ctx, b)
		if errors.Is(err, futurejobs.ErrRulesChanged) {
			if err := r.Book.Refresh(ctx); err != nil {
				return n, err
			}
			continue
		}
		if err != nil {
			return n, err
		}
		n += applied.Ended + applied.Changed
		after = jobs[len(jobs)-1].Ref
	}
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

// Sweep ends the pending jobs of rules that were deleted, and returns how many.
func (r *Registry) Sweep(ctx context.Context) (int, error) {
	deleted, err := r.Store.Deleted(ctx)
	if err != nil {
		return 0, wrap("deleted rules", err)
	}
	total := 0
	for _, ruleID := range deleted {
		n, err := r.Purge(ctx, ruleID)
		total += n
		if err != nil {
			return total, wrap("end the jobs of deleted rules", err)
		}
	}
	return total, nil
}
