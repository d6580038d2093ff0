package replay

import (
	"cmp"
	"slices"
	"strings"
	"time"

	"deadman/alerts"
)

// Comparison compares the alerts of two replays of the same events, before and after a change of their rules.
type Comparison struct {
	found map[alertPlace]*[2][]ComparedAlert // before and after
}

// alertPlace identifies the alerts that correspond to each other: the alerts of a step of a job, in order. The alerts that
// close a job have a place of their own.
type alertPlace struct {
	rule, entity, key, step string
	since                   time.Time
	closes                  bool
}

// ComparedAlert has what may differ between two alerts of the same place.
type ComparedAlert struct {
	Slot     time.Time       `json:"slot"`
	Severity alerts.Severity `json:"severity"`
	Status   alerts.Status   `json:"status"`
	Text     string          `json:"text"`
}

// Change is an alert that one of two replays raised, or that both raised in another way.
type Change struct {
	Change ChangeKind     `json:"change"`
	Rule   string         `json:"rule"`
	Entity string         `json:"entity"`
	Key    string         `json:"key"`
	Step   string         `json:"step,omitempty"`
	Since  time.Time      `json:"since"`
	Before *ComparedAlert `json:"before,omitempty"` // nil: it comes
	After  *ComparedAlert `json:"after,omitempty"`  // nil: it goes
}

// ChangeKind is the kind of a change.
type ChangeKind string

// The kinds of changes.
const (
	Comes ChangeKind = "comes" // only the replay after the change raised it
	Goes  ChangeKind = "goes"  // only the replay before the change raised it
	Moves ChangeKind = "moves" // its time, severity, status or text differs
)

// at returns the time of a change: the earlier one of the two alerts.
func (c Change) at() time.Time {
	if c.Before == nil || c.After != nil && c.After.Slot.Before(c.Before.Slot) {
		return c.After.Slot
	}
	return c.Before.Slot
}

// RuleChanges counts the alerts of a rule and their changes.
type RuleChanges struct {
	Rule   string `json:"rule"`
	Before int64  `json:"before"` // alerts
	After  int64  `json:"after"`
	Comes  int64  `json:"comes"`
	Goes   int64  `json:"goes"`
	Moves  int64  `json:"moves"`
}

// Difference is the result of a comparison.
type Difference struct {
	Rules   []RuleChanges `json:"rules"`   // by name
	Changes []Change      `json:"changes"` // by time
}

// NewComparison returns an empty comparison.
func NewComparison() *Comparison { return &Comparison{make(map[alertPlace]*[2][]ComparedAlert)} }

// Before takes an alert of the replay before the change.
func (c *Comparison) Before(a alerts.Alert) error { return c.take(a, 0) }

// After takes an alert of the replay after the change.
func (c *Comparison) After(a alerts.Alert) error { return c.take(a, 1) }

func (c *Comparison) take(a alerts.Alert, side int) error {
	place := alertPlace{a.Rule, a.Entity, a.Key, a.Step, a.Since, a.Status == alerts.Resolved}
	if place.closes {
		place.step = "" // it is that of the last alert before
	}
	of := c.found[place]
	if of == nil {
		of = new([2][]ComparedAlert)
		c.found[place] = of
	}
	of[side] = append(of[side], ComparedAlert{a.Slot, a.Severity, a.Status, a.Text})
	return nil
}

// Result returns the difference for rules with these names. The order of the alerts of one place is that of their times.
func (c *Comparison) Result(names []string) *Difference {
	d := &Difference{Rules: []RuleChanges{}, Changes: []Change{}}
	rules := make(map[string]*RuleChanges)
	for _, name := range names {
		rules[name] = &RuleChanges{Rule: name}
	}
	for place, of := range c.found {
		rule := rules[place.rule]
		rule.Before, rule.After = rule.Before+int64(len(of[0])), rule.After+int64(len(of[1]))
		for i := range max(len(of[0]), len(of[1])) {
			change := Change{Rule: place.rule, Entity: place.entity, Key: place.key, Step: place.step, Since: place.since}
			if i < len(of[0]) {
				change.Before = &of[0][i]
			}
			if i < len(of[1]) {
				change.After = &of[1][i]
			}
			switch {
			case change.Before == nil:
				change.Change = Comes
				rule.Comes++
			case change.After == nil:
				change.Change = Goes
				rule.Goes++
			case *change.Before != *change.After:
				change.Change = Moves
				rule.Moves++
			default:
				continue
			}
			d.Changes = append(d.Changes, change)
		}
	}
	for _, rule := range rules {
		d.Rules = append(d.Rules, *rule)
	}
	slices.SortFunc(d.Rules, func(a, b RuleChanges) int { return strings.Compare(a.Rule, b.Rule) })
	slices.SortFunc(d.Changes, func(a, b Change) int {
		return cmp.Or(a.at().Compare(b.at()), strings.Compare(a.Rule, b.Rule), strings.Compare(a.Entity, b.Entity), strings.Compare(a.Key, b.Key),
			strings.Compare(a.Step, b.Step), a.Since.Compare(b.Since), strings.Compare(string(a.Change), string(b.Change)), strings.Compare(a.text(), b.text()))
	})
	return d
}

// text returns the text of the newer alert.
func (c Change) text() string { return c.Newer().Text }

// Newer returns the alert after the change, or the one before it if it goes.
func (c Change) Newer() ComparedAlert {
	if c.After != nil {
		return *c.After
	}
	return *c.Before
}

// mostListed bounds the changes that a report lists.
const mostListed = 500

// Listed returns the first changes, as many as a report lists.
func (d *Difference) Listed() []Change { return d.Changes[:min(len(d.Changes), mostListed)] }
