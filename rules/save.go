package rules

import (
	"bytes"
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"deadman/rules/document"

	"github.com/aymanbagabas/go-udiff"

	futurejobs "deadman/future_jobs"
	"deadman/internal/access"
)

// SaveOptions are the options of saving a rule.
type SaveOptions struct {
	Version    int32  // the current version of the rule: a number, 0 for a new one, AnyVersion or AnyExisting
	Bundle     string // the bundle of files that it comes with; empty: none
	Adopt      bool   // a rule of another bundle is taken over
	Folder     bool   // it is read from the node's folder: from then on it is the node's
	DryRun     bool   // nothing is written
	Pending    bool   // pending jobs move to the new version
	SkipSource bool   // of a dry run: sources do not verify the lookup

	// May refuses a rule by its name, before the existing rule is read; nil: none.
	May func(name string) error

	Since     time.Time // events since then that streams still have are processed, too; zero: none
	RaisePast bool      // of Since: steps that were due before the save raise their alert; false: they are skipped
}

// Change is the result of saving a rule, or of a dry run.
type Change struct {
	Before        *ListedRule // nil: a new rule
	After         RuleVersion // in a dry run, without the fields that the store fills in
	Document      document.Document
	Changed       bool           // a version is saved
	TextChanged   bool           // only the author's text is replaced: its comments or layout
	Diff          string         // between the canonical texts, unified; empty: they are the same
	Moved         int            // pending jobs that were moved to the new version
	Backfilled    int            // jobs created from events before the save, or in a dry run to be created
	SkippedSteps  int            // of these, jobs with steps that were due before the save and are skipped
	Over          int            // jobs of events before the save that are not created: all of their steps were due before
	AlertsAtOnce  int            // alerts that the past steps raise at once, because of RaisePast
	UnknownAtOnce int            // jobs that are checked at once, because of RaisePast, and whose alerts are unknown before
	MissingEvents []string       // warnings of events since Since that streams have deleted
	PartialRoutes []SubjectRoute // wildcards that streams store only in part; the rest is not received
	Warnings      []string       // checks that could not be made, and why; and that the rule never ticks
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

// saving saves one document over the existing rule.
type saving struct {
	*Registry
	document parsedDocument
	before   *ListedRule // nil: a new rule
	options  SaveOptions
}

// run compares the document with the existing rule, and saves it unless it is a dry run.
func (s *saving) run(ctx context.Context) (Change, error) {
	if err := s.validate(access.BoundsOf(ctx)); err != nil {
		return Change{}, err
	}
	c, err := s.compare(ctx)
	if err != nil {
		return c, err
	}
	if s.options.Since.IsZero() {
		return s.finish(ctx, c, nil)
	}
	hasRun := false
	ended := s.replayLimit.do(ctx, replaysAtOnce, func() {
		hasRun = true
		c, err = s.runWithPast(ctx, c)
	})
	if !hasRun {
		return c, wrapErr("replay the past", ended)
	}
	return c, err
}

// runWithPast saves a change with the jobs of the events before it, unless it is a dry run.
func (s *saving) runWithPast(ctx context.Context, c Change) (Change, error) {
	p, err := s.backfill(ctx, &c)
	if p != nil {
		defer func() { p.releaseReserved(p.reserved) }()
	}
	if err != nil {
		return c, err
	}
	return s.finish(ctx, c, p)
}

// finish stores a change unless it is a dry run.
func (s *saving) finish(ctx context.Context, c Change, p *backfill) (Change, error) {
	if s.options.DryRun {
		return c, nil
	}
	return s.store(ctx, c, p)
}

// at returns the version of the existing rule; 0: there is none.
func (s *saving) at() int32 {
	if s.before == nil {
		return 0
	}
	return s.before.Version
}

// validate refuses a document that cannot be saved over the existing rule, at the requested version, or within the
// bounds.
func (s *saving) validate(b *access.Bounds) error {
	d, before, at, o := s.document, s.before, s.at(), s.options
	switch {
	case o.Version == 0 && before != nil:
		return ExistingRule{d.Name, at}
	case o.Version == AnyExisting && before == nil:
		return fmt.Errorf("rule %s does not exist: %w", d.Name, ErrConflict)
	case o.Version >= 0 && o.Version != at:
		return fmt.Errorf("rule %s is at version %d, not %d: %w", d.Name, at, o.Version, ErrConflict)
	case before != nil && before.Bundle != "" && before.Bundle != o.Bundle && !o.Adopt:
		return fmt.Errorf("%w, %s: change rule %s there, or adopt it (--adopt)", ErrBundle, before.Bundle, d.Name)
	case before != nil && before.Entity != d.Entity:
		return document.Problems{d.Problem("", "/entity", fmt.Sprintf("the entity of the rule is %q; %s", before.Entity, ErrEntityChanged))}
	}
	if b != nil && b.Prefix != "" {
		if problems := s.KeepMost.exceeded(d); problems != nil {
			return problems
		}
	}
	return d.within(b)
}

// compare returns the change that saving the document makes.
func (s *saving) compare(ctx context.Context) (Change, error) {
	d, before, bounds := s.document, s.before, access.BoundsOf(ctx)
	canonical, err := d.Canonical()
	if err != nil {
		return Change{}, err
	}
	warnings, err := s.verify(ctx, canonical)
	if err != nil {
		return Change{}, err
	}
	reads, err := s.bind(ctx)
	if err != nil {
		return Change{}, err
	}
	c := Change{Before: before, Document: d.Document, Warnings: warnings, After: RuleVersion{
		Name: d.Name, Entity: d.Entity, Document: canonical, Text: d.authorText(canonical), Reads: reads, Bundle: s.options.Bundle, Bounds: bounds, Keep: d.Keep,
	}}
	if before != nil {
		c.After.PausedAt, c.After.PausedBy = before.PausedAt, before.PausedBy
		c.After.Sets = numberSets(before.Document.Resolve, before.Sets, d.Resolve)
	}
	c.Changed = before == nil || !before.same(c.After) || s.options.Folder && !before.IsOfFolder()
	if !c.Changed && d.Text != "" { // JSON has no text, and leaves that of the version
		text, err := s.Store.Text(ctx, before.RuleID, before.Version)
		if err != nil {
			return c, err
		}
		c.TextChanged = text != c.After.Text
	}
	if c.Changed && s.Now != nil {
		c.Warnings = append(c.Warnings, IsOver(d.Document, s.Now())...)
	}
	if c.Changed || s.options.DryRun {
		c.Warnings = slices.Concat(c.Warnings, Cautions(d.Document), overtaking(d.Document, reads), s.unknownWebhook(d.Document))
	}
	if other := rebound(before, bounds); other != "" {
		c.Warnings = append(c.Warnings, other)
	}
	c.Diff = diffOf(before, c.After)
	partial, risks, err := s.routes(ctx)
	c.PartialRoutes, c.Warnings = partial, append(c.Warnings, risks...)
	return c, wrapErr("bind "+d.Name, err)
}

// unknownWebhook warns of events for a channel that this node does not have. The operator may add it later.
func (s *saving) unknownWebhook(d document.Document) []string {
	emit := d.Trigger.Emit
	if emit == nil || emit.Webhook == "" || s.Webhooks == nil {
		return nil
	}
	known := s.Webhooks()
	if slices.Contains(known, emit.Webhook) {
		return nil
	}
	return []string{fmt.Sprintf("trigger.emit.webhook: no channel of the kind webhook is named %s, so events are not posted; known are: %s", clip(emit.Webhook, 80), cmp.Or(strings.Join(known, ", "), "none"))}
}

// overtaking warns of a resolve in another stream than its trigger, if the job begins when the stream stored the trigger: a
// resolve that was stored before is older than the job and does not count.
func overtaking(d document.Document, reads []StreamBinding) []string {
	trigger := d.Trigger
	if trigger.Event == "" || trigger.Since != "" {
		return nil
	}
	streams := make(map[string]string)
	for _, r := range reads {
		streams[r.Subject] = futurejobs.StreamOf(r.Stream)
	}
	for i, r := range d.Resolve {
		from, other := streams[trigger.Event], streams[r.Event]
		if from != "" && other != "" && from != other {
			return []string{fmt.Sprintf("resolve[%d]: %s is in stream %s and the trigger %s in %s, so a resolve that is stored before its trigger does not count; write the time of the event in trigger.since, or let one stream take in both",
				i, r.Event, other, trigger.Event, from)}
		}
	}
	return nil
}

// verify asks the source of the document's lookup whether it accepts it, unless the document is saved already.
func (s *saving) verify(ctx context.Context, canonical []byte) (warnings []string, err error) {
	unchanged := s.before != nil && bytes.Equal(s.before.RuleVersion.Document, canonical)
	if unchanged || s.options.DryRun && s.options.SkipSource {
		return nil, nil
	}
	return lookupVerification{s.Registry, s.document}.run(ctx)
}

// store saves a change of the version that was compared, and applies its consequences. It returns the completed change.
func (s *saving) store(ctx context.Context, c Change, p *backfill) (_ Change, err error) {
	if c.Changed {
		if c.After, err = s.Store.Save(ctx, c.After, s.at()); err != nil {
			return c, err
		}
	} else {
		text := c.After.Text
		c.After = c.Before.RuleVersion
		if c.TextChanged {
			err = s.Store.SetText(ctx, c.After.RuleID, c.After.Version, text)
		}
		if err != nil {
			return c, err
		}
	}
	if s.options.Pending || c.recurs() && !s.isMovedTo(c.After) {
		if c.Moved, err = s.move(ctx, c.After); err != nil {
			return c, err
		}
	}
	if p != nil {
		c.Backfilled, err = p.startJobs(ctx, c.After)
	}
	return c, errors.Join(err, s.expectSaved(ctx, c))
}

// move moves the pending jobs of a rule to a version, and returns how many. Jobs that moved before are skipped, so that
// move can be repeated after an error.
func (s *saving) move(ctx context.Context, to RuleVersion) (int, error) {
	rule, err := newVersion(to, s.outside()).compiled()
	if err != nil {
		return 0, err
	}
	var failed error // of jobs that were left out
	n, err := s.pending(to.RuleID).each(ctx, futurejobs.ActionMove, func(j futurejobs.Job) (futurejobs.Effect, bool) {
		if j.Version >= to.Version {
			return futurejobs.Effect{}, false
		}
		steps, err := countAgain(ctx, s.Catalog, rule, j.Version)
		failed = cmp.Or(failed, err)
		return futurejobs.Effect{Rule: &rule.engine, Ref: j.Ref, Action: futurejobs.MoveToVersion{Steps: steps, Next: rule.nextOf}}, err == nil
	})
	if err = errors.Join(err, failed); err == nil {
		s.moved.Store(to.RuleID, to.Version)
	}
	return n, err
}

// isMovedTo reports whether the registry moved all pending jobs of a rule to a version, so that a save that changes
// nothing does not read each. A move that failed is repeated.
func (s *saving) isMovedTo(to RuleVersion) bool {
	version, known := s.moved.Load(to.RuleID)
	return known && version == to.Version
}

// expectSaved syncs a version that was saved. Upkeep completes the remainder, also once a paused rule is resumed.
func (s *saving) expectSaved(ctx context.Context, c Change) error {
	if !c.expected() {
		return nil
	}
	_, err := expectedUpdate{s.Registry, c.After, !c.After.PausedAt.IsZero()}.sync(ctx)
	return err
}

// bind returns the reads for the subjects of a document, and ensures that a stream stores its emitted events.
func (s *saving) bind(ctx context.Context) ([]StreamBinding, error) {
	d := s.document
	bind := s.Binder.Bind
	if s.options.DryRun {
		bind = s.Binder.Find
	}
	reads, err := bind(ctx, d.Subjects())
	if errors.Is(err, ErrSubject) {
		return nil, document.Problems{d.Problem("", "/trigger", err.Error())}
	}
	if err != nil {
		return nil, wrapErr("bind "+d.Name, err)
	}
	return onLineOf(access.BoundsOf(ctx), reads), s.bindEmitted(ctx, bind)
}

// bindEmitted ensures that a stream stores the events that the rule's ticks publish.
func (s *saving) bindEmitted(ctx context.Context, bind func(context.Context, []string) ([]StreamBinding, error)) error {
	d := s.document
	emit := d.Trigger.Emit
	if emit == nil || emit.Webhook != "" {
		return nil
	}
	_, err := bind(ctx, []string{emit.Subject})
	if errors.Is(err, ErrSubject) {
		return document.Problems{d.Problem("", "/trigger/emit/subject", err.Error())}
	}
	return wrapErr("bind "+d.Name, err)
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

// routes returns those of the subjects that no stream stores as a whole, and warnings of streams that may lose events.
func (s *saving) routes(ctx context.Context) (partial []SubjectRoute, warnings []string, err error) {
	subjects := s.document.Subjects()
	if len(subjects) == 0 {
		return nil, nil, nil
	}
	routes, err := s.Binder.Routes(ctx, slices.Compact(slices.Sorted(slices.Values(subjects))))
	for _, route := range routes {
		for _, risk := range route.Risks {
			warnings = append(warnings, fmt.Sprintf("%s: %s; an event that goes before it is read is lost, and alerted: set the stream to keep events until they are read", route.Subject, risk))
		}
	}
	return slices.DeleteFunc(routes, func(route SubjectRoute) bool { return route.Takes == nil }), warnings, err
}

// backfill plays the events before a change, and counts the jobs.
func (s *saving) backfill(ctx context.Context, c *Change) (*backfill, error) {
	saved := c.After
	if !c.Changed {
		saved = c.Before.RuleVersion
	}
	p, err := newBackfill(ctx, s.Registry, saved, s.options)
	if err == nil {
		err = p.countInto(ctx, c)
	}
	if ctx.Err() != nil {
		return nil, wrapErr("replay the past", ctx.Err())
	}
	if err == nil {
		err = p.reserve(int64(c.Backfilled))
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
