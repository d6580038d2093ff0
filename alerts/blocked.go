package alerts

import (
	"maps"
	"slices"
)

// maxBlocked is how many alerts of a batch may wait behind refused ones before whole rules are
// gone around: the rest is room for what gets through.
const maxBlocked = relayBatch / 2

// OrderKey is what alerts stay in order in.
type OrderKey struct{ Rule, Key string }

// OrderKey returns the line that the alert is in.
func (a Alert) OrderKey() OrderKey { return OrderKey{a.Rule, a.Key} }

// blockedSet is what a lane goes around until the next try: lines in which an alert was refused,
// and rules of which too many alerts wait. It never has more lines than a batch has alerts.
type blockedSet struct {
	lines map[OrderKey]bool
	rules map[string]bool
	why   error // the first refusal
}

// any reports whether anything is gone around.
func (d *blockedSet) any() bool { return d.why != nil }

// whole are the rules that are gone around whole.
func (d *blockedSet) whole() []string { return slices.Sorted(maps.Keys(d.rules)) }

// filter is what of a batch is not gone around.
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

// add goes around what was refused, and around what is behind it.
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

// blockRules goes around whole rules, those first that have most of a batch wait, until there is room
// in the next batch for what gets through. It reports whether it does. A rule in which one alert
// is refused may thus have others wait that would get through; they have their turn with it.
func (d *blockedSet) blockRules(batch []Alert) bool {
	waiting, total := make(map[string]int), 0
	for _, a := range batch {
		if d.lines[a.OrderKey()] {
			waiting[a.Rule]++
			total++
		}
	}
	widened := false
	for total > maxBlocked {
		most := ""
		for _, rule := range slices.Sorted(maps.Keys(waiting)) {
			if most == "" || waiting[rule] > waiting[most] {
				most = rule
			}
		}
		d.rules[most] = true
		maps.DeleteFunc(d.lines, func(l OrderKey, _ bool) bool { return l.Rule == most })
		total -= waiting[most]
		delete(waiting, most)
		widened = true
	}
	return widened
}
