package alerts

import (
	"maps"
	"slices"
)

// maxBlocked is the largest number of alerts in a batch that may be blocked behind rejected ones before the relay
// blocks whole rules. The rest of the batch is capacity for alerts that can be published. Of a batch that its bytes ended,
// it is a half.
const maxBlocked = relayBatch / 2

// OrderKey identifies an ordered line of alerts: the alerts of one rule and key.
type OrderKey struct{ Rule, Key string }

// OrderKey returns the alert's line.
func (a Alert) OrderKey() OrderKey { return OrderKey{a.Rule, a.Key} }

// blockedSet holds the lines and rules that a lane skips until the next retry: lines in which an alert was rejected,
// and rules with too many blocked alerts. It never holds more lines than a batch has alerts.
type blockedSet struct {
	lines map[OrderKey]bool
	rules map[string]bool
	why   error // the first rejection
}

// any reports whether anything is blocked.
func (d *blockedSet) any() bool { return d.why != nil }

// ruleNames returns the names of the rules that are blocked as a whole, sorted.
func (d *blockedSet) ruleNames() []string { return slices.Sorted(maps.Keys(d.rules)) }

// filter returns the alerts of a batch whose lines are not blocked.
func (d *blockedSet) filter(batch []Alert) []Alert {
	if len(d.lines) == 0 {
		return batch
	}
	var free []Alert
	for _, a := range batch {
		if !d.lines[a.OrderKey()] {
			free = append(free, a)
		}
	}
	return free
}

// add blocks the lines of rejected alerts.
func (d *blockedSet) add(r *RejectedError) {
	if d.lines == nil {
		d.lines, d.rules = make(map[OrderKey]bool), make(map[string]bool)
	}
	for _, a := range r.Alerts {
		d.lines[a.OrderKey()] = true
	}
	if d.why == nil {
		d.why = r
	}
}

// blockRules blocks whole rules, those with the most blocked alerts in the batch first, until at most maxBlocked
// alerts of the batch are blocked by line. more is that of the read. It reports whether it blocked a rule. One rejected
// alert can thus delay alerts of its rule that could be published; they are retried together.
func (d *blockedSet) blockRules(batch []Alert, more bool) bool {
	most := maxBlocked
	if more {
		most = len(batch) / 2
	}
	waiting, total := make(map[string]int), 0
	for _, a := range batch {
		if d.lines[a.OrderKey()] {
			waiting[a.Rule]++
			total++
		}
	}
	widened := false
	for total > most {
		longest := ""
		for _, rule := range slices.Sorted(maps.Keys(waiting)) {
			if longest == "" || waiting[rule] > waiting[longest] {
				longest = rule
			}
		}
		d.rules[longest] = true
		maps.DeleteFunc(d.lines, func(l OrderKey, _ bool) bool { return l.Rule == longest })
		total -= waiting[longest]
		delete(waiting, longest)
		widened = true
	}
	return widened
}
