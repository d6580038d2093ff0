package rules

import (
	"context"
	"fmt"
	"slices"
	"sync/atomic"
	"time"

	"deadman/alerts"
	"deadman/checks"
	futurejobs "deadman/future_jobs"
	"deadman/internal/calendars"
)

// Catalog holds the rules as of its last refresh. It is safe for concurrent use.
type Catalog struct {
	// Changed is called when a refresh found other rules. It must return at once. It is set before the parts run; may
	// be nil.
	Changed func()
	// Calendars are the calendars of the node's file; they take precedence over those of the store. They are set before the
	// first refresh.
	Calendars calendars.Set
	// Sources are the sources that lookups may name; nil: none. They are set before the first refresh.
	Sources Sources
	// Handlers are the handlers that rules may name; nil: none. They are set before the first refresh.
	Handlers *checks.Handlers

	// Tenant returns the tenant of a rule, by the rule's name; empty: no tenant. It is set before the parts run; nil:
	// each token with bounds is a tenant.
	Tenant func(rule string) string
	// Now returns the time for the allowances of tenants. It is set before the parts run; nil: tenants have their full
	// budget on each event.
	Now func() time.Time

	store         ChangeReader
	shards        int
	current       atomic.Pointer[snapshot]
	costs         costs
	allowances    allowances // the allowances of tenants for ingest
	checked       allowances // their allowances for checks and ticks
	dryAllowances allowances // their allowances for the senders of events
	cache         *ruleCache

	// Stale makes the next successful refresh read Sources again, also if no rule changed: some of them were replaced.
	Stale atomic.Bool

	refreshing chan struct{} // taken by the running refresh; the others wait until their contexts end
}

var _ futurejobs.RuleReader = (*Catalog)(nil)

// id names a version.
type id struct{ rule, version int32 }

// NewCatalog returns an empty catalog; Refresh fills it. shards is how many shards jobs are hashed into.
func NewCatalog(store ChangeReader, shards int) *Catalog {
	b := &Catalog{store: store, shards: shards, refreshing: make(chan struct{}, 1), cache: &ruleCache{most: compiledMost}}
	b.current.Store(newSnapshot(-1, nil, nil, environment{}))
	return b
}

// LimitCompiled sets the approximate memory of compiled rules, in bytes; the default is 1 GiB. It is called before the
// first refresh. A rule beyond the limit is compiled each time that it is needed.
func (b *Catalog) LimitCompiled(bytes int64) { b.cache.most = bytes }

// Revision returns the revision of the current rule set; -1 before the first refresh.
func (b *Catalog) Revision() int64 { return b.current.Load().revision }

// environment returns the environment of the rules.
func (b *Catalog) environment() environment {
	return environment{
		calendars: b.current.Load().calendarsOr(b.Calendars).all, sources: b.Sources, handlers: b.Handlers, cache: b.cache, checks: &checkCosts{&b.checked, b.prefixOf},
	}
}

// prefixOf returns the prefix of a rule's tenant; empty: it has none, or none is known yet.
func (b *Catalog) prefixOf(rule string) string {
	if b.Tenant == nil {
		return ""
	}
	return b.Tenant(rule)
}

// ChangedAt returns the revision of the last change of the rules that a line is read for.
func (b *Catalog) ChangedAt(line string) int64 {
	e := b.current.Load()
	return max(e.whole, e.changed[line])
}

// RuleChangedAt returns the revision of the last change of a rule.
func (b *Catalog) RuleChangedAt(id int32) int64 {
	return b.current.Load().changeOf(id)
}

// Refresh reads the changes of the rules since the last refresh.
func (b *Catalog) Refresh(ctx context.Context) (err error) {
	select {
	case b.refreshing <- struct{}{}:
		defer func() { <-b.refreshing }()
	case <-ctx.Done():
		return wrapErr("refresh rules", ctx.Err())
	}
	stale := b.Stale.Swap(false)
	defer func() {
		if stale && err != nil {
			b.Stale.Store(true)
		}
	}()
	revision, err := b.store.Revision(ctx)
	if err != nil {
		return wrapErr("refresh rules", err)
	}
	before := b.current.Load()
	if revision == before.revision && !stale {
		return nil
	}
	changes, err := b.store.Changes(ctx, before.revision)
	if err != nil {
		return wrapErr("refresh rules", err)
	}
	changed, err := b.store.Calendars(ctx, before.revision) // after the rules, so that none lacks a calendar
	if err != nil {
		return wrapErr("refresh rules", err)
	}
	env := b.environment()
	known := before.calendarsOr(b.Calendars).with(b.Calendars, changed)
	env.calendars = known.all
	next := before.with(changes, env)
	next.calendars = known
	b.current.Store(next)
	if b.Changed != nil {
		b.Changed()
	}
	return nil
}

// Rule returns one version of a rule, also of one that was changed or deleted since.
func (b *Catalog) Rule(ctx context.Context, ruleID, number int32) (*futurejobs.Rule, error) {
	which, e := id{ruleID, number}, b.current.Load()
	v, err := b.version(ctx, e, which)
	if err != nil {
		return nil, err
	}
	r, err := v.compiled()
	if err != nil {
		return nil, err
	}
	return e.engineRule(which, r), nil
}

// About returns the name of the rule of a version and its highest severity, in that version or the newest, even if the
// version cannot be read.
func (b *Catalog) About(ctx context.Context, ruleID, number int32) (name string, severity alerts.Severity) {
	e := b.current.Load()
	v, err := b.version(ctx, e, id{ruleID, number})
	if err != nil {
		return fmt.Sprint(ruleID), alerts.Error
	}
	steps := v.document.Escalate
	if r := e.names[v.saved.Name]; r != nil {
		steps = slices.Concat(steps, r.versions[0].document.Escalate)
	}
	return v.saved.Name, loudest(steps)
}

// Newest returns the newest version of the rule of a name, or futurejobs.ErrNotFound.
func (b *Catalog) Newest(name string) (*Rule, error) {
	r := b.current.Load().names[name]
	if r == nil {
		return nil, fmt.Errorf("rule %s: %w", name, futurejobs.ErrNotFound)
	}
	return r.versions[0].compiled()
}

// Exists reports whether a rule has the name.
func (b *Catalog) Exists(name string) bool { return b.current.Load().names[name] != nil }

// Paused reports whether the named rule is paused and creates no new jobs.
func (b *Catalog) Paused(name string) bool {
	r := b.current.Load().names[name]
	return r != nil && r.paused
}

// version returns a version, as of a snapshot. A version that the snapshot lacks was deleted, or saved just now; it is
// read after the snapshot was made, so that it is not older than its revision.
func (b *Catalog) version(ctx context.Context, e *snapshot, which id) (*version, error) {
	if v := e.version(which); v != nil {
		return v, nil
	}
	saved, err := b.store.Version(ctx, which.rule, which.version)
	if err != nil {
		return nil, wrapErr(fmt.Sprintf("rule %d version %d", which.rule, which.version), err)
	}
	v := newVersion(saved, b.environment())
	e.keep(which, v)
	return v, nil
}

// Match returns the effects of e on the jobs of the rules, and the refusals of rules that could not process it.
//
//  1. Of each rule that listens to the subject, the version saved last before the event decides. It also ends jobs that
//     older versions created. Rules on another line than the event's are left out.
//  2. Its trigger comes before its resolve: an event that does both leaves nothing pending, like a trigger that is not
//     newer than its resolve.
//  3. A rule whose expressions cost too much on several events is not evaluated any more, so that it delays no other
//     rule.
//  4. The cost of the rules of a tenant beyond the free part of an event is drawn from the tenant's allowance, that of
//     their effects and refusals included. While it is used up, the rules that it is too much for are refused together.
//
// The result is kept until it is applied, with the events themselves; intermediate results are not.
func (b *Catalog) Match(e futurejobs.Event) ([]futurejobs.Effect, []futurejobs.Refusal) {
	m := b.match(e, &b.allowances)
	return m.effects, m.refusals
}

// DryMatch returns the result of Match, for the sender of an event. Tenants have allowances of their own for it, so that
// an event is not paid twice; isWhole is false if rules of a tenant could not be evaluated because its allowance is
// used up.
func (b *Catalog) DryMatch(e futurejobs.Event) (effects []futurejobs.Effect, refusals []futurejobs.Refusal, isWhole bool) {
	m := b.match(e, &b.dryAllowances)
	return m.effects, m.refusals, !m.tenants.isUsedUp()
}

// EventSearch matches stored events for an operator.
type EventSearch struct{ Catalog *Catalog }

// Match returns the result of Catalog.Match. Nothing is drawn from allowances, so that no rule is refused for want of one, and
// no rule is paused for its cost.
func (s EventSearch) Match(e futurejobs.Event) ([]futurejobs.Effect, []futurejobs.Refusal) {
	m := s.Catalog.match(e, nil)
	return m.effects, m.refusals
}

// match matches an event. drawn are the allowances that tenants pay from; nil: they pay nothing.
func (b *Catalog) match(e futurejobs.Event, drawn *allowances) matcher {
	m, err := newMatcher(e, b.shards)
	m.tenants.of = b.Tenant
	if b.Now != nil && drawn != nil {
		m.tenants.allowances, m.tenants.now = drawn, b.Now
	}
	now := b.current.Load()
	for _, r := range now.rulesFor(e.Subject) {
		v := r.inCharge(e)
		switch {
		case v == nil:
		case err != nil:
			m.effects, m.refusals = nil, []futurejobs.Refusal{{Reason: err.Error()}}
			return m
		case b.isCostly(now, r, v) && v.saved.Bounds != nil:
			m.tenants.refuse(m.tenants.owner(v.saved), v.saved.Name, errCostly, errCostly)
		case b.isCostly(now, r, v):
			m.refuse(v.saved.Name, "", errCostly)
		case m.matchRule(r, v) && drawn != nil:
			b.costs.note(id{v.saved.RuleID, v.saved.Version}, now.changeOf(v.saved.RuleID), e)
		}
	}
	for _, t := range m.tenants.refusals {
		m.refusals = append(m.refusals, t.refusal())
	}
	m.body.Forget()
	return m
}

// ChargeRefused draws the refusals of a rule that were not known when its event was matched: those of quotas.
func (b *Catalog) ChargeRefused(rule string, refusals int) {
	r := b.current.Load().names[rule]
	if r == nil || r.versions[0].saved.Bounds == nil || b.Now == nil {
		return
	}
	b.allowances.draw(tenantOf(b.Tenant, rule, r.versions[0].saved.Bounds.Token), refusals*roundsToWrite)
}

// MatchDeadLetter is Match for the event of a dead letter, by the rules as they are now: for the part of the rule that
// refused the event, or for all rules that listen to its subject. Its effects are late. A rule that is paused for its
// cost refuses the event again.
func (b *Catalog) MatchDeadLetter(l futurejobs.DeadLetter) ([]futurejobs.Effect, []futurejobs.Refusal) {
	m, err := newMatcher(l.Event, b.shards)
	if err != nil {
		return nil, []futurejobs.Refusal{{Rule: l.Rule, Reason: err.Error()}}
	}
	m.only, m.late, m.tenants.of = l.Part, true, b.Tenant
	defer m.body.Forget()
	now := b.current.Load()
	if l.Rule == "" {
		for _, r := range now.rulesFor(l.Event.Subject) {
			if r.isLetterOf(l.Event) {
				m.matchAgain(r, l.Part)
			}
		}
		return m.effects, m.refusals
	}
	isThere := false
	for _, name := range l.Rules() {
		if r := now.names[name]; r != nil {
			isThere = true
			m.matchAgain(r, l.Part)
		}
	}
	if !isThere {
		m.refuse(l.Rule, l.Part, fmt.Errorf("rule %s no longer exists; drop the dead letter", l.Rule))
	}
	return m.effects, m.refusals
}

// SubjectsByStream returns the subjects to read, by line of a stream. It includes those of older versions, since events that came
// before the newest version may be unread.
func (b *Catalog) SubjectsByStream() map[string][]string { return clone(b.current.Load().reads) }

// RulesReading returns the names of the rules that read a line, in order, including rules with only older versions
// that do. The caller must not change it.
func (b *Catalog) RulesReading(line string) []string { return b.current.Load().readers[line] }

// FinestGrids returns the finest grid of the rules that wait for a line, by line. A rule waits for the lines that
// can end its jobs.
func (b *Catalog) FinestGrids() map[string]futurejobs.Grid {
	finest := make(map[string]futurejobs.Grid)
	for stream, grid := range b.current.Load().finest {
		finest[stream] = grid
	}
	return finest
}

// WaitingFor returns the rules whose jobs wait for a line, in order; never nil.
func (b *Catalog) WaitingFor(line string) []int32 {
	e, waiting := b.current.Load(), []int32{}
	for which, v := range e.versions {
		if slices.Contains(union(v.streams().changing(), e.ending[which.rule]), line) {
			waiting = append(waiting, which.rule)
		}
	}
	slices.Sort(waiting)
	return slices.Compact(waiting)
}

// CriticalRules returns the rules with a version that has a critical step, in order.
func (b *Catalog) CriticalRules() []int32 { return b.current.Load().criticalRules }

// NextSlot returns the first slot after t of any rule; the zero time if no rule has one.
func (b *Catalog) NextSlot(t time.Time) time.Time {
	var next time.Time
	for _, grid := range b.current.Load().grids {
		if slot := grid.After(t); next.IsZero() || slot.Before(next) {
			next = slot
		}
	}
	return next
}

func clone(reads map[string][]string) map[string][]string {
	c := make(map[string][]string, len(reads))
	for stream, subjects := range reads {
		c[stream] = slices.Clone(subjects)
	}
	return c
}
