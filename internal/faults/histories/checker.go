package histories

import (
	"fmt"
	"maps"
	"slices"
)

// Anomaly is a way in which a history is wrong.
type Anomaly string

// The anomalies, and the promise that each breaks. The names are those of Elle (Kingsbury and Alvaro, "Elle: Inferring
// Isolation Anomalies from Experimental Observations", 2020) where it has one for a single list. Elle calls a nonmonotonic
// read and an element out of order a cycle, G-single-item-realtime and G0-process. Lost and unexpected elements are those
// of Jepsen's set checker.
const (
	DuplicateElements Anomaly = "duplicate-elements" // P7: a read finds an element twice
	IncompatibleOrder Anomaly = "incompatible-order" // P7: of two reads, neither is the beginning of the other
	OutOfOrder        Anomaly = "out-of-order"       // P7: elements of one process are not in the order of its appends
	NonmonotonicRead  Anomaly = "nonmonotonic-read"  // P7: a read lacks elements that an earlier one found
	Lost              Anomaly = "lost"               // P1 and P7: an append succeeded, and the last read lacks its element
	Unexpected        Anomaly = "unexpected"         // P1: no append was invoked before a read that finds its element
	AbortedRead       Anomaly = "G1a"                // P1: a read finds an element whose append failed
	IntermediateRead  Anomaly = "G1b"                // P6: a read finds some of the elements of a transaction
	WriteCycle        Anomaly = "G0"                 // P6: another's element is between those of a transaction
)

// Violation is an anomaly of a list, with the entries that prove it.
type Violation struct {
	Anomaly Anomaly
	List    string
	Entries []int // indexes
	Text    string
}

func (v Violation) Error() string {
	return fmt.Sprintf("%s of %s: %s (entries %d)", v.Anomaly, v.List, v.Text, v.Entries)
}

// Check returns the violations of a history, by list. An operation that completed with Info may have happened or not. A list
// that no read found after the completion of an append says nothing about its loss. An error means that the history is not
// in the form that the checks need: elements are unique in their lists, and a process has one operation at a time.
func Check(h History) ([]Violation, error) {
	all, err := h.operations()
	if err != nil {
		return nil, err
	}
	lists := map[string]*list{}
	of := func(name string) *list {
		if lists[name] == nil {
			lists[name] = &list{history: h, name: name, appends: map[string]appended{}}
		}
		return lists[name]
	}
	for _, o := range all {
		for i, a := range o.value {
			l := of(a.List)
			if !a.Append {
				if o.outcome == OK {
					l.reads = append(l.reads, found{o, a.Elements})
				}
				continue
			}
			if other, twice := l.appends[a.Element]; twice {
				return nil, fmt.Errorf("entry %d: element %q is appended to %s a second time, after entry %d", h[o.invoked].Index, a.Element, a.List, h[other.invoked].Index)
			}
			l.appends[a.Element] = appended{o, i}
		}
	}
	var violations []Violation
	for _, name := range slices.Sorted(maps.Keys(lists)) {
		violations = append(violations, lists[name].check()...)
	}
	return violations, nil
}

// list is a list with its operations.
type list struct {
	history    History
	name       string
	appends    map[string]appended // by element
	reads      []found
	violations []Violation
}

// appended is an append with its place in the transaction.
type appended struct {
	*operation
	place int
}

// found is a successful read.
type found struct {
	*operation
	elements []string
}

// report adds a violation proven by operations.
func (l *list) report(a Anomaly, text string, by ...*operation) {
	v := Violation{Anomaly: a, List: l.name, Text: text}
	for _, o := range by {
		v.Entries = append(v.Entries, l.history[o.entry()].Index)
	}
	slices.Sort(v.Entries)
	l.violations = append(l.violations, v)
}

func (l *list) check() []Violation {
	if len(l.reads) == 0 {
		return nil
	}
	slices.SortStableFunc(l.reads, func(a, b found) int { return a.completed - b.completed })
	for _, r := range l.reads {
		l.checkElements(r)
	}
	longest := slices.MaxFunc(l.reads, func(a, b found) int { return len(a.elements) - len(b.elements) })
	l.checkOrder(longest)
	l.checkPrefixes(longest)
	l.checkMonotonic()
	l.checkLost(l.reads[len(l.reads)-1])
	return l.violations
}

// checkElements checks that a read finds each element once, and only elements whose append may have taken effect.
func (l *list) checkElements(r found) {
	seen := map[string]bool{}
	for _, e := range r.elements {
		a, invoked := l.appends[e]
		switch {
		case seen[e] && invoked:
			l.report(DuplicateElements, fmt.Sprintf("%q is there twice", e), a.operation, r.operation)
		case seen[e]:
		case !invoked:
			l.report(Unexpected, fmt.Sprintf("%q was appended by no operation", e), r.operation)
		case a.invoked > r.completed:
			l.report(Unexpected, fmt.Sprintf("%q was read before its append was invoked", e), r.operation, a.operation)
		case a.outcome == Fail:
			l.report(AbortedRead, fmt.Sprintf("%q was read, and its append failed", e), a.operation, r.operation)
		}
		seen[e] = true
	}
	if n := len(r.elements); n > 0 {
		last := l.appends[r.elements[n-1]]
		if last.operation != nil && last.operation != r.operation && l.appendsAfter(last) {
			l.report(IntermediateRead, fmt.Sprintf("the read ends with %q, after which its transaction appends more", r.elements[n-1]), last.operation, r.operation)
		}
	}
}

// appendsAfter reports whether a transaction appends to the list after an append.
func (l *list) appendsAfter(a appended) bool {
	return slices.ContainsFunc(a.value[a.place+1:], func(b Access) bool { return b.Append && b.List == l.name })
}

// checkOrder checks the order of elements in the longest read. The appends of a process are in its order unless the outcome
// of the earlier one is unknown, and those of a transaction are next to each other.
func (l *list) checkOrder(longest found) {
	newest := map[int]appended{} // by process
	next := map[*operation]*operation{}
	var before *operation
	seen := map[string]bool{}
	for _, e := range longest.elements {
		a, ok := l.appends[e]
		if !ok || seen[e] {
			continue
		}
		seen[e] = true
		n, later := newest[a.process]
		if later && a.precedes(n) {
			l.report(OutOfOrder, fmt.Sprintf("process %d appended %q before an element that comes first", a.process, e), a.operation, n.operation, longest.operation)
		}
		if !later || n.invoked <= a.invoked {
			newest[a.process] = a
		}
		if other := next[a.operation]; other != nil {
			l.report(WriteCycle, fmt.Sprintf("another operation appended between %q and its transaction's element before", e), a.operation, other, longest.operation)
		}
		if before != nil && before != a.operation {
			next[before] = a.operation
		}
		before = a.operation
	}
}

// precedes reports whether an append took effect before another one of its process.
func (a appended) precedes(b appended) bool {
	return a.operation == b.operation && a.place < b.place || a.outcome == OK && a.completed < b.invoked
}

// checkPrefixes checks that each read is the beginning of the longest one.
func (l *list) checkPrefixes(longest found) {
	for _, r := range l.reads {
		if !slices.Equal(r.elements, longest.elements[:len(r.elements)]) {
			l.report(IncompatibleOrder, fmt.Sprintf("%q and %q have no order in common", r.elements, longest.elements), r.operation, longest.operation)
		}
	}
}

// checkMonotonic checks that a read finds at least as much as each read that had completed before it was invoked.
func (l *list) checkMonotonic() {
	for i, r := range l.reads {
		var most *found // of those before
		for k, earlier := range l.reads[:i] {
			if earlier.completed < r.invoked && (most == nil || len(earlier.elements) > len(most.elements)) {
				most = &l.reads[k]
			}
		}
		if most != nil && len(most.elements) > len(r.elements) {
			l.report(NonmonotonicRead, fmt.Sprintf("%q was read after %q", r.elements, most.elements), most.operation, r.operation)
		}
	}
}

// checkLost checks that the last read finds the elements of the appends that had succeeded before it.
func (l *list) checkLost(last found) {
	for _, e := range slices.Sorted(maps.Keys(l.appends)) {
		if a := l.appends[e]; a.outcome == OK && a.completed < last.invoked && !slices.Contains(last.elements, e) {
			l.report(Lost, fmt.Sprintf("%q was acknowledged, and the last read lacks it", e), a.operation, last.operation)
		}
	}
}
