package store

import (
	"cmp"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"slices"
	"strings"
	"time"

	futurejobs "deadman/future_jobs"
	ruledocs "deadman/rules/document"
)

// keptKind is a kind of rows with a retention that a rule may set. Its number is in pruned_day.
type keptKind int16

const (
	keptHistory keptKind = 0
	keptAlerts  keptKind = 1
)

// rowClass is the property of history, or of alerts, that decides how long it is kept.
type rowClass struct {
	rule    int32
	outcome string // of history
	alerted bool   // of history: the job raised alerts
}

// ruleRetention is the retention of a rule.
type ruleRetention struct {
	id   int32
	name string
	ruledocs.Retention
}

// retentionPlan has the periods of the settings, and those of the rules that have their own, by id.
type retentionPlan struct {
	Retention
	own []ruleRetention
}

func readRuleRetention(row scanner, r *ruleRetention) error {
	var keep string
	if err := row.Scan(&r.id, &r.name, &keep); err != nil {
		return err
	}
	if err := json.Unmarshal([]byte(keep), &r.Retention); err != nil {
		return fmt.Errorf("the retention of the rule %s: %w", r.name, err)
	}
	return nil
}

// set replaces the periods of a rule; nil: none.
func (p *retentionPlan) set(id int32, name string, keep *ruledocs.Retention) {
	p.own = slices.DeleteFunc(slices.Clone(p.own), func(r ruleRetention) bool { return r.id == id })
	if keep != nil {
		p.own = append(p.own, ruleRetention{id, name, *keep})
	}
	slices.SortFunc(p.own, func(a, b ruleRetention) int { return cmp.Compare(a.id, b.id) })
}

// period returns how long the rows of a class are kept; 0: forever. The history of a job with alerts of a rule with
// periods is kept at least as long as the alerts of the rule, as history leads from the job to the alerts.
func (p retentionPlan) period(kind keptKind, c rowClass) time.Duration {
	i, isOwn := slices.BinarySearchFunc(p.own, c.rule, func(r ruleRetention, id int32) int { return cmp.Compare(r.id, id) })
	switch {
	case !isOwn && kind == keptAlerts:
		return p.Alerts
	case !isOwn:
		return p.History
	}
	ofAlerts := cmp.Or(time.Duration(p.own[i].Alerts), p.Alerts)
	if kind == keptAlerts {
		return ofAlerts
	}
	ofHistory := cmp.Or(time.Duration(p.own[i].OfOutcome(c.outcome)), p.History)
	if c.alerted {
		return longerPeriod(ofHistory, ofAlerts)
	}
	return ofHistory
}

// longerPeriod returns the longer of two periods; 0 is forever.
func longerPeriod(a, b time.Duration) time.Duration {
	if a == 0 || b == 0 {
		return 0
	}
	return max(a, b)
}

// noRule is the id of no rule.
const noRule = -1

// classes returns classes with every period of a kind: that of the settings first.
func (p retentionPlan) classes(kind keptKind) []rowClass {
	all := []rowClass{{rule: noRule}}
	for _, own := range p.own {
		if kind == keptAlerts {
			all = append(all, rowClass{rule: own.id})
			continue
		}
		for _, outcome := range append([]string{""}, own.OutcomeNames()...) {
			all = append(all, rowClass{own.id, outcome, false}, rowClass{own.id, outcome, true})
		}
	}
	return all
}

// longest returns the longest period of a kind; 0: forever.
func (p retentionPlan) longest(kind keptKind) time.Duration {
	all := p.classes(kind)
	longest := p.period(kind, all[0])
	for _, c := range all[1:] {
		longest = longerPeriod(longest, p.period(kind, c))
	}
	return longest
}

// isDue reports whether the rows of a class and a day (UTC) are to be deleted at an instant.
func (p retentionPlan) isDue(kind keptKind, c rowClass, day, now time.Time) bool {
	period := p.period(kind, c)
	return period != 0 && !day.Add(futurejobs.Day+period).After(now)
}

// due identifies the classes that are due at the end of a day; empty: none is. Rules as the settings say are left out, so
// that the period of one more rule changes only days with other due classes.
func (p retentionPlan) due(kind keptKind, day, now time.Time) string {
	var b strings.Builder
	some := false
	for i, c := range p.classes(kind) {
		due := p.isDue(kind, c, day, now)
		some = some || due
		if i == 0 {
			fmt.Fprint(&b, due)
		} else if due != p.isDue(kind, rowClass{rule: noRule}, day, now) {
			fmt.Fprintf(&b, " %d/%s/%t", c.rule, c.outcome, c.alerted)
		}
	}
	if !some {
		return ""
	}
	sum := sha256.Sum256([]byte(b.String()))
	return hex.EncodeToString(sum[:12])
}

// dueDay is a day with rows that are to be deleted, and the text that identifies the due classes.
type dueDay struct {
	day time.Time
	due string
}

// dueDays returns the sorted days with due classes that are not older than every period. Days
// between the ends of the same two periods have the same due classes.
func (p retentionPlan) dueDays(kind keptKind, days []time.Time, now time.Time) []dueDay {
	var ends []time.Duration
	for _, c := range p.classes(kind) {
		if d := p.period(kind, c); d != 0 {
			ends = append(ends, d)
		}
	}
	slices.Sort(ends)
	ends = slices.Compact(ends)
	known := make(map[int]string)
	longest := p.longest(kind)
	var found []dueDay
	for _, day := range days {
		age := now.Sub(day.Add(futurejobs.Day))
		if longest != 0 && age >= longest {
			continue
		}
		passed, exact := slices.BinarySearch(ends, age)
		if exact {
			passed++
		}
		due, ok := known[passed]
		if !ok {
			due = p.due(kind, day, now)
			known[passed] = due
		}
		if due != "" {
			found = append(found, dueDay{day, due})
		}
	}
	return found
}
