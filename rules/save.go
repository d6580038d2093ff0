package rules

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/aymanbagabas/go-udiff"

	"deadman/internal/access"
)

// SaveOptions are the options of saving a rule.
type SaveOptions struct {
	Version int32  // the current version of the rule: a number, 0 for a new one, or AnyVersion
	Bundle  string // the bundle of files that it comes with; empty: none
	Adopt   bool   // a rule of another bundle is taken over
	Folder  bool   // it is read from the node's folder: from then on it is the node's
	DryRun  bool   // nothing is written
	Pending bool   // pending jobs move to the new version
	Unasked bool   // of a dry run: sources are not asked whether they accept the lookup

	// May refuses a rule by its name, before the existing rule is read; nil: none.
	May func(name string) error

	Since time.Time // events since then that streams still have are processed, too; zero: none
}

// Change is the result of saving a rule, or of a dry run.
type Change struct {
	Before   *ListedRule // nil: a new rule
	After    RuleVersion // in a dry run, without the fields that the store fills in
	Document Document
	Changed  bool
	Diff     string         // between the canonical texts, unified; empty: they are the same
	Moved    int            // pending jobs that were moved to the new version
	Past     int            // jobs created from events before the save, or in a dry run to be created
	Partly   []SubjectRoute // wildcards that streams store only in part; the rest is not received
	Warnings []string       // checks that could not be made, and why; and that the rule never ticks
}

// Save saves the one rule of a text, YAML or JSON. name is its required name; empty: any. Nothing is written if nothing
// would change. The error is Problems, ErrConflict, ErrBundle, ErrEntityChanged, ErrSubject or of the store or the
// binder.
func (r *Registry) Save(ctx context.Context, text []byte, name string, o SaveOptions) (Change, error) {
	documents, err := r.parse(ctx, text, "")
	if err != nil {
		return Change{}, err
	}
	if err := o.allow(documents); err != nil {
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
			continue // no version was requested, so the last save wins
		}
		return c, err
	}
}

// allow refuses documents that may not be saved.
func (o SaveOptions) allow(documents []parsedDocument) error {
	if o.May == nil {
		return nil
	}
	for _, d := range documents {
		if err := o.May(d.Name); err != nil {
			return err
		}
	}
	return nil
}

// saveTries bounds how often a rule is compared and saved again because of concurrent saves.
const saveTries = 20

// save saves a document over the existing rule.
func (r *Registry) save(ctx context.Context, d parsedDocument, before *ListedRule, o SaveOptions) (Change, error) {
	at := int32(0)
	if before != nil {
		at = before.Version
	}
	bounds := access.BoundsOf(ctx)
	if err := d.replaces(before, at, o, bounds); err != nil {
		return Change{}, err
	}
	canonical, err := d.Canonical()
	if err != nil {
		return Change{}, err
	}
	var warnings []string
	if !o.DryRun || !o.Unasked {
		if warnings, err = r.verify(ctx, d, before, canonical); err != nil {
			return Change{}, err
		}
	}
	reads, err := r.bind(ctx, d, o)
	if err != nil {
		return Change{}, err
	}
	c := Change{Before: before, Document: d.Document, Warnings: warnings, After: RuleVersion{
		Name: d.Name, Entity: d.Entity, Document: canonical, Reads: reads, Bundle: o.Bundle, Bounds: bounds,
	}}
	if before != nil {
		c.After.PausedAt, c.After.PausedBy = before.PausedAt, before.PausedBy
	}
	c.Changed = before == nil || !before.same(c.After) || o.Folder && !before.IsOfFolder()
	if c.Changed && r.Now != nil {
		c.Warnings = append(c.Warnings, d.IsOver(r.Now())...)
	}
	if other := rebound(before, bounds); other != "" {
		c.Warnings = append(c.Warnings, other)
	}
	c.Diff = diffOf(before, c.After)
	partly, risks, err := r.partly(ctx, d.Subjects())
	if err != nil {
		return c, wrapErr("bind "+d.Name, err)
	}
	c.Partly, c.Warnings = partly, append(c.Warnings, risks...)
	p, err := r.pastOf(ctx, &c, o)
	if p != nil {
		defer func() { p.giveBack(p.places) }()
	}
	if err != nil || o.DryRun {
		return c, err
	}
	return r.keep(ctx, c, p, at, o)
}

// keep saves a change of the version that was compared, and applies its consequences. It returns the completed change.
func (r *Registry) keep(ctx context.Context, c Change, p *backfill, at int32, o SaveOptions) (_ Change, err error) {
	if c.Changed {
		if c.After, err = r.Store.Save(ctx, c.After, at); err != nil {
			return c, err
		}
	} else {
		c.After = c.Before.RuleVersion
	}
	if o.Pending || c.recurs() && !r.hasMoved(c.After) {
		if c.Moved, err = r.move(ctx, c.After); err != nil {
			return c, err
		}
	}
	if p != nil {
		c.Past, err = p.startJobs(ctx, c.After)
	}
	return c, errors.Join(err, r.expectSaved(ctx, c))
}

// bind returns the reads for the subjects of a document, and ensures that a stream stores its emitted events.
func (r *Registry) bind(ctx context.Context, d parsedDocument, o SaveOptions) ([]StreamBinding, error) {
	bind := r.Binder.Bind
	if o.DryRun {
		bind = r.Binder.Find
	}
	reads, err := bind(ctx, d.Subjects())
	if errors.Is(err, ErrSubject) {
		return nil, Problems{d.problem("", "/trigger", err.Error())}
	}
	if err != nil {
		return nil, wrapErr("bind "+d.Name, err)
	}
	return reads, d.bindEmitted(ctx, bind)
}

// recurs reports whether the rule's trigger is a heartbeat or schedule, and was one before: then pending jobs move to
// the new version. Jobs of a heartbeat do so only while the rule has one.
func (c Change) recurs() bool {
	if c.Before == nil {
		return false
	}
	now, before := c.Document.Trigger, c.Before.Document.Trigger
	return now.Heartbeat != nil && before.Heartbeat != nil || (now.Heartbeat != nil || now.Schedule != "") && before.Schedule != ""
}

// partly returns those of the subjects that no stream stores as a whole, and warnings of streams that may lose events.
func (r *Registry) partly(ctx context.Context, subjects []string) (partly []SubjectRoute, warnings []string, err error) {
	if len(subjects) == 0 {
		return nil, nil, nil
	}
	roads, err := r.Binder.Routes(ctx, slices.Compact(slices.Sorted(slices.Values(subjects))))
	for _, road := range roads {
		for _, risk := range road.Risks {
			warnings = append(warnings, fmt.Sprintf("%s: %s; an event that goes before it is read is lost, and alerted: set the stream to keep events until they are read", road.Subject, risk))
		}
	}
	return slices.DeleteFunc(roads, func(road SubjectRoute) bool { return road.Takes == nil }), warnings, err
}

// pastOf plays the events before a change, if requested, and counts the jobs; nil if not requested.
func (r *Registry) pastOf(ctx context.Context, c *Change, o SaveOptions) (*backfill, error) {
	if o.Since.IsZero() {
		return nil, nil
	}
	saved := c.After
	if !c.Changed {
		saved = c.Before.RuleVersion
	}
	var p *backfill
	var err error
	if ended := r.replays.do(ctx, replaysAtOnce, func() { p, err = r.newBackfill(ctx, saved, o.Since) }); ended != nil {
		return nil, wrapErr("replay the past", ended)
	}
	if err == nil {
		c.Past = len(p.remaining(saved))
		err = p.reserve()
	}
	return p, err
}

func diffOf(before *ListedRule, after RuleVersion) string {
	old, from := "", "nothing"
	if before != nil {
		old, from = textOf(before.RuleVersion), fmt.Sprintf("%s version %d", before.Name, before.Version)
	}
	return udiff.Unified(from, after.Name, old, textOf(after))
}

// expected is rule.expected of the saved document and the one before.
func (c Change) expected() bool {
	versions := []*version{{document: c.Document}}
	if c.Before != nil {
		versions = append(versions, &version{document: c.Before.Document})
	}
	return (&rule{versions: versions}).expected()
}
