package rules

import (
	"slices"

	"deadman/calendars"
	futurejobs "deadman/future_jobs"
)

// edition is the rule set at one revision. It is not changed once made.
type edition struct {
	revision int64
	versions map[id]*version
	names    map[string]*rule
	subjects trie[*rule]
	reads    map[string][]string
	finest   map[string]futurejobs.Grid
	grids    []futurejobs.Grid // of all versions, each once
}

// newEdition makes an edition of what the store holds, by rule and version. Versions that
// the edition before has are taken from it, since they never change.
func newEdition(revision int64, saved []Saved, before *edition, known calendars.Set) *edition {
	e := &edition{
		revision: revision, versions: make(map[id]*version, len(saved)), names: make(map[string]*rule),
		reads: make(map[string][]string), finest: make(map[string]futurejobs.Grid),
	}
	rules := make(map[int32]*rule)
	var order []*rule
	for _, s := range saved {
		which := id{s.RuleID, s.Version}
		var v *version
		if before != nil {
			v = before.versions[which]
		}
		if v == nil {
			v = newVersion(s, known)
		}
		e.versions[which] = v
		if rules[s.RuleID] == nil {
			rules[s.RuleID] = &rule{}
			e.names[s.Name] = rules[s.RuleID]
			order = append(order, rules[s.RuleID])
		}
		rules[s.RuleID].paused = !s.PausedAt.IsZero()
		rules[s.RuleID].versions = append(rules[s.RuleID].versions, v)
	}
	for _, r := range order {
		slices.SortFunc(r.versions, func(a, b *version) int { return int(b.saved.Version) - int(a.saved.Version) })
		e.add(r)
	}
	for stream, subjects := range e.reads {
		slices.Sort(subjects)
		e.reads[stream] = slices.Compact(subjects)
	}
	return e
}

// add makes the rule found by its subjects, those of its older versions included.
func (e *edition) add(r *rule) {
	seen := make(map[string]bool)
	for _, v := range r.versions {
		for _, read := range v.saved.Reads {
			e.reads[read.Stream] = append(e.reads[read.Stream], read.Subject)
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
		for _, stream := range v.document.waitsFor(v.saved.Reads) {
			if finest, ok := e.finest[stream]; !ok || grid < finest {
				e.finest[stream] = grid
			}
		}
	}
}

// listening returns the rules with a subject that the event's is one of, each once.
func (e *edition) listening(subject string) []*rule {
	var found []*rule
	e.subjects.match(subject, func(r *rule) {
		if !slices.Contains(found, r) {
			found = append(found, r)
		}
	})
	return found
}
