package rules

import (
	"cmp"
	"maps"
	"slices"
	"sync"

	"deadman/alerts"
	futurejobs "deadman/future_jobs"
	"deadman/internal/calendars"
)

// maxCachedVersions bounds how many versions of deleted rules are cached.
const maxCachedVersions = 1024

// snapshot is the rule set at one revision. It is immutable, except for its cache of other versions.
type snapshot struct {
	revision      int64
	whole         int64            // when all rules were read
	changed       map[string]int64 // when rules changed after that, by the streams that they read before or since
	altered       map[int32]int64  // when rules changed after that, by rule
	saved         []RuleVersion    // all versions, by rule and version
	versions      map[id]*version
	names         map[string]*rule
	subjects      trie[*rule]
	reads         map[string][]string
	readers       map[string][]string // the names of the rules that read a stream, by stream
	finest        map[string]futurejobs.Grid
	grids         []futurejobs.Grid  // of all versions, each once
	ending        map[int32][]string // by rule, the streams that its newest version reads
	ticking       []*rule            // the rules that have a version with a schedule, by rule
	stored        []*rule            // the rules with stored schedules, by rule
	criticalRules []int32            // the rules with a version that has a critical step, in order

	mu  sync.Mutex
	old map[id]*version // versions of deleted rules that still have jobs

	calendars *calendarSet // nil: before the first refresh
}

// engineRule returns the engine's view of a version. Events of the newest version can end its jobs, so that they wait
// for its streams, too.
func (e *snapshot) engineRule(which id, r *Rule) *futurejobs.Rule {
	ending := e.ending[which.rule]
	if slices.Equal(ending, r.engine.Streams) {
		return &r.engine
	}
	if known := r.own.Load(); known != nil && slices.Equal(known.ending, ending) {
		return known.engine
	}
	engine := &r.engine
	if streams := union(engine.Streams, ending); len(streams) > len(engine.Streams) {
		own := r.engine
		own.Streams = streams
		engine = &own
	}
	r.own.Store(&ownEngine{ending, engine})
	return engine
}

// union returns the items of both lists, sorted. It returns a if b adds nothing.
func union(a, b []string) []string {
	for _, s := range b {
		if !slices.Contains(a, s) {
			return slices.Compact(slices.Sorted(slices.Values(slices.Concat(a, b))))
		}
	}
	return a
}

// version returns a version, or nil.
func (e *snapshot) version(which id) *version {
	if v := e.versions[which]; v != nil {
		return v
	}
	e.mu.Lock()
	defer e.mu.Unlock()
	return e.old[which]
}

// keep caches a version that is not of the snapshot. The next snapshot does not take it over: it may be deleted by
// then.
func (e *snapshot) keep(which id, v *version) {
	e.mu.Lock()
	defer e.mu.Unlock()
	if e.old == nil || len(e.old) >= maxCachedVersions {
		e.old = make(map[id]*version)
	}
	e.old[which] = v
}

// changeOf returns the revision of the last change of a rule.
func (e *snapshot) changeOf(rule int32) int64 { return max(e.whole, e.altered[rule]) }

// sameReads reports whether two versions read the same.
func sameReads(a, b []StreamBinding) bool {
	return slices.EqualFunc(a, b, func(x, y StreamBinding) bool {
		return x.Subject == y.Subject && x.Stream == y.Stream && x.From == y.From && x.At.Equal(y.At) &&
			x.CreatedAt.Equal(y.CreatedAt) && slices.Equal(x.Given, y.Given)
	})
}

// with returns the snapshot after changes.
func (e *snapshot) with(changes Changes, env environment) *snapshot {
	if changes.All {
		return newSnapshot(changes.Revision, changes.Saved, e, env)
	}
	next := newSnapshot(changes.Revision, mergeSaved(e.saved, changes.Saved), e, env)
	next.whole, next.changed = e.whole, maps.Clone(e.changed)
	if next.changed == nil {
		next.changed = make(map[string]int64)
	}
	next.altered = maps.Clone(e.altered)
	if next.altered == nil {
		next.altered = make(map[int32]int64)
	}
	rules := make(map[int32]bool)
	for _, s := range changes.Saved {
		rules[s.RuleID], next.altered[s.RuleID] = true, next.revision
	}
	for _, s := range slices.Concat(e.saved, changes.Saved) {
		if !rules[s.RuleID] {
			continue
		}
		for _, read := range s.Reads {
			next.changed[read.Stream] = next.revision
		}
	}
	return next
}

// mergeSaved returns the versions of rules after changes. Those of a rule that was deleted are left out.
func mergeSaved(saved, changes []RuleVersion) []RuleVersion {
	rules := make(map[int32]RuleVersion) // each version includes the fields that all versions of a rule share
	fresh := make(map[id]bool)
	var all []RuleVersion
	for _, c := range changes {
		rules[c.RuleID] = c
		if c.Version != 0 && c.DeletedAt.IsZero() {
			fresh[id{c.RuleID, c.Version}] = true
			all = append(all, c)
		}
	}
	for _, s := range saved {
		if now, changed := rules[s.RuleID]; changed {
			if fresh[id{s.RuleID, s.Version}] || !now.DeletedAt.IsZero() {
				continue
			}
			s.PausedAt, s.PausedBy = now.PausedAt, now.PausedBy
		}
		all = append(all, s)
	}
	slices.SortFunc(all, func(a, b RuleVersion) int {
		return cmp.Or(cmp.Compare(a.RuleID, b.RuleID), cmp.Compare(a.Version, b.Version))
	})
	return all
}

// newSnapshot makes a snapshot of the versions in the store, by rule and version. It reuses versions of the snapshot
// before, since only their reads change, their time of saving if the clock was wrong, and the calendars and sources that they use.
func newSnapshot(revision int64, saved []RuleVersion, before *snapshot, env environment) *snapshot {
	e := &snapshot{
		revision: revision, whole: revision, saved: saved, versions: make(map[id]*version, len(saved)), names: make(map[string]*rule),
		reads: make(map[string][]string), readers: make(map[string][]string), finest: make(map[string]futurejobs.Grid), ending: make(map[int32][]string),
	}
	rules := make(map[int32]*rule)
	var order []*rule
	for _, s := range saved {
		which := id{s.RuleID, s.Version}
		var v *version
		if before != nil {
			v = before.versions[which]
		}
		if v == nil || !sameReads(v.saved.Reads, s.Reads) || !v.saved.SavedAt.Equal(s.SavedAt) || !v.usesSame(env) {
			v = newVersion(s, env)
		}
		e.versions[which] = v
		if loudest(v.document.Escalate) == alerts.Critical {
			e.criticalRules = append(e.criticalRules, s.RuleID)
		}
		if rules[s.RuleID] == nil {
			rules[s.RuleID] = &rule{}
			e.names[s.Name] = rules[s.RuleID]
			order = append(order, rules[s.RuleID])
		}
		rules[s.RuleID].paused, rules[s.RuleID].halted = !s.PausedAt.IsZero(), s.isHalted()
		rules[s.RuleID].versions = append(rules[s.RuleID].versions, v)
	}
	slices.Sort(e.criticalRules)
	e.criticalRules = slices.Compact(e.criticalRules)
	for _, r := range order {
		slices.SortFunc(r.versions, func(a, b *version) int { return int(b.saved.Version) - int(a.saved.Version) })
		e.add(r)
	}
	for _, names := range []map[string][]string{e.reads, e.readers} {
		for stream, those := range names {
			slices.Sort(those)
			names[stream] = slices.Compact(those)
		}
	}
	return e
}

// add indexes the rule by its subjects, those of its older versions included.
func (e *snapshot) add(r *rule) {
	seen := make(map[string]bool)
	newest := r.versions[0]
	ending := newest.streams().changing()
	e.ending[newest.saved.RuleID] = ending
	if slices.ContainsFunc(r.versions, func(v *version) bool { return v.schedule != nil }) {
		e.ticking = append(e.ticking, r)
	}
	if newest.document.Trigger.IsStored() {
		e.stored = append(e.stored, r)
	}
	for _, v := range r.versions {
		r.starts = union(r.starts, v.streams().starting())
		for _, read := range v.saved.Reads {
			e.reads[read.Stream] = append(e.reads[read.Stream], read.Subject)
			e.readers[read.Stream] = append(e.readers[read.Stream], newest.saved.Name)
			if !seen[read.Subject] {
				seen[read.Subject] = true
				e.subjects.add(read.Subject, r)
			}
		}
		grid, ok := v.grid()
		if !ok {
			continue
		}
		if !slices.Contains(e.grids, grid) {
			e.grids = append(e.grids, grid)
		}
		for _, stream := range union(v.streams().changing(), ending) {
			if finest, ok := e.finest[stream]; !ok || grid < finest {
				e.finest[stream] = grid
			}
		}
	}
}

// rulesFor returns the rules with a subject that matches the event's, each once.
func (e *snapshot) rulesFor(subject string) []*rule {
	var found []*rule
	e.subjects.match(subject, func(r *rule) {
		if !slices.Contains(found, r) {
			found = append(found, r)
		}
	})
	return found
}

// calendarsOr returns the calendars of the snapshot; before the first refresh, those of a file.
func (e *snapshot) calendarsOr(file calendars.Set) *calendarSet {
	if e.calendars == nil {
		return newCalendarSet(file, nil)
	}
	return e.calendars
}

// calendarUsers returns the names of the rules that use a calendar, sorted: in their newest version, or in any.
func (e *snapshot) calendarUsers(name string, inAny bool) (rules []string) {
	for rule, r := range e.names {
		versions := r.versions
		if !inAny {
			versions = versions[:1]
		}
		if slices.ContainsFunc(versions, func(v *version) bool { return slices.Contains(v.document.CalendarNames(), name) }) {
			rules = append(rules, rule)
		}
	}
	slices.Sort(rules)
	return rules
}
