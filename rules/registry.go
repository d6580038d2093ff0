package rules

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"deadman/rules/bodies"
	"deadman/rules/document"

	"github.com/aymanbagabas/go-udiff"

	"deadman/alerts"
	"deadman/checks"
	futurejobs "deadman/future_jobs"
	"deadman/internal/access"
	"deadman/internal/calendars"
)

// Registry reads and changes rules. Its changes are in force once the nodes' catalogs are refreshed, within about a
// second; operations based on the rules before fail until then, and are evaluated again. It is safe for concurrent use.
type Registry struct {
	Store     Store
	Binder    Binder
	Catalog   *Catalog
	Jobs      Jobs
	Calendars calendars.Set     // of a registry without a catalog, which knows the calendars otherwise
	Sources   Sources           // nil: unknown, and lookups are saved unchecked
	Handlers  *checks.Handlers  // nil: none
	Webhooks  func() []string   // the names of the channels that can post events; nil: unknown
	Quotas    futurejobs.Quotas // nil: unlimited
	KeepMost  KeptMost          // of rules that a token with a prefix saves
	Log       *slog.Logger
	// As returns a context for applying a file in the name of its folder; nil: the caller's own name is used.
	As func(ctx context.Context, bundle, file string) context.Context
	// Announce raises alerts about streams; only Rebind needs it. Now returns the time.
	Announce func(ctx context.Context, r alerts.SystemAlert) error
	Now      func() time.Time

	parseLimit  semaphore
	replayLimit semaphore
	listed      atomic.Pointer[ruleListCache]
	expecting   sync.Map // by rule, the version whose expected keys are synced, as expectedDone
	moved       sync.Map // by rule, the version that all pending jobs moved to
}

// pending returns the pending jobs of a rule.
func (r *Registry) pending(ruleID int32) pendingJobs {
	return pendingJobs{jobs: r.Jobs, catalog: r.Catalog, ruleID: ruleID}
}

// outside returns the environment of the rules.
func (r *Registry) outside() environment {
	env := environment{calendars: r.Calendars, sources: r.Sources, handlers: r.Handlers}
	if r.Catalog != nil {
		env.calendars = r.Catalog.environment().calendars
	}
	return env
}

// usableCalendars returns the calendars that new versions of the caller's rules may name.
func (r *Registry) usableCalendars(ctx context.Context) calendars.Set {
	if r.Catalog == nil {
		return r.Calendars
	}
	return r.Catalog.current.Load().calendarsOr(r.Catalog.Calendars).usableBy(access.PrefixOf(ctx))
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

// ApplyDir applies the rule files of a folder and of its subfolders: *.yaml, *.yml and *.json, in the order of their
// paths. Errors in a file are in the report, and the other files are applied all the same. Only changed rules are
// saved. The returned error is of the store, the binder or the folder; rules saved before it stay saved.
func (r *Registry) ApplyDir(ctx context.Context, dir string) (Report, error) {
	files, err := FilesIn(dir)
	if err != nil {
		return Report{}, wrapErr("rules folder", err)
	}
	before, err := r.List(ctx)
	if err != nil {
		return Report{}, wrapErr("apply rules", err)
	}
	a := bundleApply{
		Registry: r, bundle: BundleOf(dir), before: make(map[string]*ListedRule),
		from: make(map[string]string), refused: make(map[string]bool),
	}
	for i := range before {
		a.before[before[i].Name] = &before[i]
	}
	for _, file := range files {
		if err := a.file(ctx, file); err != nil {
			return a.report, wrapErr("apply "+file, err)
		}
	}
	a.report.Others = a.others()
	return a.report, nil
}

// SyncExpectedKeys creates the jobs of the entities that rules expect heartbeats from, and ends the jobs of entities
// that a rule no longer expects: all of them, if it has no heartbeat any more. It returns how many jobs began and
// ended. Each version is synced once by all nodes together. Errors of one rule are returned after the others are done.
func (r *Registry) SyncExpectedKeys(ctx context.Context) (n int, err error) {
	var errs []error
	for _, rule := range r.Catalog.current.Load().names {
		s := expectedUpdate{r, rule.versions[0].saved, rule.paused}
		if !rule.expected() || s.isSynced() {
			continue
		}
		done, err := s.sync(ctx)
		n += done
		errs = append(errs, err)
	}
	return n, errors.Join(errs...)
}

// parse parses a text in its lane. Another node may just have saved a calendar that is unknown here, so that the calendars
// are read again for a text that names one.
func (r *Registry) parse(ctx context.Context, text []byte, file string) (documents []parsedDocument, err error) {
	for {
		known := r.usableCalendars(ctx)
		ended := r.parseLimit.do(ctx, parsingAtOnce, func() {
			documents, err = parseAmid(text, file, environment{calendars: known, ended: ctx.Done()})
		})
		if ended != nil {
			return nil, ended
		}
		if err == nil || r.Catalog == nil || !lacks(known, documents) {
			return documents, err
		}
		revision := r.Catalog.Revision()
		if err := r.Catalog.Refresh(ctx); err != nil {
			return nil, err
		}
		if r.Catalog.Revision() == revision {
			return documents, err
		}
	}
}

// lacks reports whether documents name a calendar that is not known.
func lacks(known calendars.Set, documents []parsedDocument) bool {
	return slices.ContainsFunc(documents, func(d parsedDocument) bool {
		return slices.ContainsFunc(d.CalendarNames(), func(name string) bool { return known[name] == nil })
	})
}

// compile compiles a document in its lane.
func (r *Registry) compile(ctx context.Context, how func(environment) (*Rule, error)) (rule *Rule, err error) {
	env := r.outside()
	env.ended = ctx.Done()
	if ended := r.parseLimit.do(ctx, parsingAtOnce, func() { rule, err = how(env) }); ended != nil {
		return nil, ended
	}
	return rule, err
}

// Purge ends the pending jobs of a deleted rule, and returns how many. It does not need the rule's document: that may
// be unreadable.
func (r *Registry) Purge(ctx context.Context, ruleID int32) (int, error) {
	deleted := &futurejobs.Rule{ID: ruleID, Deleted: true}
	return r.pending(ruleID).each(ctx, "", func(j futurejobs.Job) (futurejobs.Effect, bool) {
		return futurejobs.Purge(deleted, j.Ref), true
	})
}

// Preview plays events and the checks between them through the engine itself, in a time of its own. The error is
// Problems, futurejobs.ErrNotFound or of the store.
func (r *Registry) Preview(ctx context.Context, request PreviewRequest) (Preview, error) {
	return request.run(ctx, r)
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
		return Change{}, document.Problems{documents[1].Problem("", "", "the text has several rules; save one at a time")}
	}
	d := documents[0]
	if name != "" && d.Name != name {
		return Change{}, document.Problems{d.Problem("", "/name", fmt.Sprintf("the rule is saved as %q; use that name, or save it under its own", name))}
	}
	for tries := 1; ; tries++ {
		before, err := r.before(ctx, d.Name)
		if err != nil {
			return Change{}, err
		}
		c, err := (&saving{Registry: r, document: d, before: before, options: o}).run(ctx)
		if o.Version < 0 && errors.Is(err, ErrConflict) && c.After.Version == 0 && tries < saveTries {
			continue // no version was requested, so the last save wins
		}
		return c, err
	}
}

// Wanted returns the names of handlers that rules name in their newest versions, and the rules of each.
func (r *Registry) Wanted(ctx context.Context) (map[string][]string, error) {
	all, err := r.List(ctx)
	if err != nil {
		return nil, err
	}
	wanted := make(map[string][]string)
	for _, l := range all {
		if name := l.Document.Handler; name != "" {
			wanted[name] = append(wanted[name], l.Name)
		}
	}
	return wanted, nil
}

// TryHandler calls a handler once about an entity, with a check at the last slot before now of a rule that names it, or
// of a made-up rule. Its answer is not applied. The error is Problems or of the store.
func (r *Registry) TryHandler(ctx context.Context, name, key string, event json.RawMessage, now time.Time) (Trial, error) {
	body := bodies.New(event)
	if !document.NamePattern.MatchString(name) {
		return Trial{}, document.Problems{{Pointer: "/name", Message: fmt.Sprintf("%q is not a name; write %s", clip(name, 80), document.NameForm)}}
	}
	if err := checkKey(key); err != nil {
		return Trial{}, document.Problems{{Pointer: "/key", Message: err.Error()}}
	}
	if err := body.Check(); err != nil {
		return Trial{}, document.Problems{{Pointer: "/event", Message: err.Error()}}
	}
	if err := access.BoundsOf(ctx).MayCall(name); err != nil {
		return Trial{}, document.Problems{{Pointer: "/name", Message: err.Error()}}
	}
	rule, named, err := ruleNaming(ctx, r, name)
	if err != nil {
		return Trial{}, err
	}
	slot := rule.engine.Grid.Up(now.Add(-time.Duration(rule.engine.Grid)))
	trial := rule.engine.Try(ctx, futurejobs.Job{
		Ref: futurejobs.Ref{RuleID: rule.engine.ID, Key: key}, Version: rule.engine.Version,
		Since: slot, FirstCheckAt: slot, NextCheckAt: slot, Event: body.JSON(),
	}, now)
	return Trial{Trial: trial, Rule: named}, nil
}

// VerifyText asks sources whether they accept the lookups of the rules of a text, as saving does. A source that could
// not be queried is a warning, and an error is Problems. For a text that is invalid by itself, no source is queried.
func (r *Registry) VerifyText(ctx context.Context, data []byte, file string) (warnings []string, err error) {
	documents, err := r.parse(ctx, data, file)
	if err != nil {
		return nil, err
	}
	var found document.Problems
	for _, d := range documents {
		texts, err := lookupVerification{r, d}.run(ctx)
		var wrong document.Problems
		if err != nil && !errors.As(err, &wrong) {
			return nil, err
		}
		for _, p := range wrong {
			p.File = file
			found = append(found, p)
		}
		for _, warning := range texts {
			warnings = append(warnings, d.Name+": "+warning)
		}
	}
	return warnings, found.OrNil()
}
