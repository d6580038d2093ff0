package rules

import (
	"slices"
	"strings"
	"time"

	"deadman/rules/document"
)

func newestOf(saved []RuleVersion) map[string]RuleVersion {
	newest := make(map[string]RuleVersion)
	for _, s := range saved {
		if s.Version > newest[s.Name].Version {
			newest[s.Name] = s
		}
	}
	return newest
}

// ListedRule is a rule as users see it, at its newest version.
type ListedRule struct {
	RuleVersion
	Document document.Document
	Err      error     // why its document cannot be read, or is out of its bounds; nil: it can be run
	BeganAt  time.Time // when its first version was saved
}

// NextTick returns the first tick of the rule's schedule after now; ticks is false if it has no schedule, and at is
// zero if the schedule is over.
func (l ListedRule) NextTick(now time.Time) (at time.Time, ticks bool) {
	s := scheduleOf(l.Document)
	if s == nil || l.Err != nil {
		return at, false
	}
	at, _ = s.From(l.BeganAt).Next(latest(now, l.SavedAt))
	return at, true
}

// ruleListCache holds the rules of a revision.
type ruleListCache struct {
	revision int64
	saved    []RuleVersion // all versions, by rule and version
	rules    []ListedRule
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
		err = outOf(d, s.Bounds).OrNil()
	}
	return ListedRule{RuleVersion: s, Document: d, Err: err, BeganAt: began}
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
