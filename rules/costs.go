package rules

import (
	"errors"
	"slices"
	"strings"
	"sync"
	"sync/atomic"

	"deadman/alerts"
	futurejobs "deadman/future_jobs"
)

// costlyMost is on how many events the expressions of a rule may cost too much since its last change or resume.
const costlyMost = 5

// errCostly is the reason for the dead letters of a rule that cost too much; its events are not evaluated.
var errCostly = errors.New("deadman pauses the rule: its expressions or effects cost too much on 5 events; make them simpler or fewer, resume the rule, then retry its dead letters")

// costs counts, for each version of a rule, the events that cost its expressions too much, as this node sees them. It is
// safe for concurrent use.
type costs struct {
	some     atomic.Bool // the map is not empty
	mu       sync.Mutex
	versions map[id]cost
}

// cost is how often a version of a rule cost too much.
type cost struct {
	changed int64 // the revision of the rule's last change; earlier counts are void
	events  int
	stream  string // of the last event that counts
	seq     uint64
}

// note counts an event. An event that is matched again, as after a change of other rules, counts once.
func (c *costs) note(which id, changed int64, e futurejobs.Event) {
	c.mu.Lock()
	defer c.mu.Unlock()
	known := c.versions[which]
	if known.changed != changed {
		known = cost{changed: changed}
	}
	if known.stream == e.Stream && e.Seq <= known.seq {
		return
	}
	known.events++
	known.stream, known.seq = e.Stream, e.Seq
	if c.versions == nil || len(c.versions) >= maxCachedVersions {
		c.versions = make(map[id]cost)
	}
	c.versions[which] = known
	c.some.Store(true)
}

// reached reports whether a version cost too much on several events since the last change of its rule.
func (c *costs) reached(which id, changed int64) bool {
	if !c.some.Load() {
		return false
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	known := c.versions[which]
	return known.changed == changed && known.events >= costlyMost
}

// Costly is a rule whose expressions cost too much on several events.
type Costly struct {
	Rule     string
	Version  int32           // the newest
	Severity alerts.Severity // the highest of its steps
}

// Costly returns the rules that cost too much and are not paused for it yet, by name. Their events are dead letters
// until they are paused.
func (b *Catalog) Costly() []Costly {
	if !b.costs.some.Load() {
		return nil
	}
	e := b.current.Load()
	return e.costly(func(r *rule) bool { return !r.halted && b.isCostly(e, r, r.versions[0]) })
}

// Halted returns the rules that deadman paused because they cost too much, by name.
func (b *Catalog) Halted() []Costly {
	return b.current.Load().costly(func(r *rule) bool { return r.halted })
}

// isCostly reports whether a version of a rule is excluded from evaluation.
func (b *Catalog) isCostly(e *snapshot, r *rule, v *version) bool {
	return r.halted || b.costs.reached(id{v.saved.RuleID, v.saved.Version}, e.changeOf(v.saved.RuleID))
}

func (e *snapshot) costly(is func(*rule) bool) (all []Costly) {
	for name, r := range e.names {
		if is(r) {
			newest := r.versions[0]
			all = append(all, Costly{Rule: name, Version: newest.saved.Version, Severity: loudest(newest.document.Escalate)})
		}
	}
	slices.SortFunc(all, func(a, b Costly) int { return strings.Compare(a.Rule, b.Rule) })
	return all
}
