package rules

import (
	"slices"

	"deadman/rules/document"
)

// memberSets numbers the sets of members that resolves count (distinct): a byte for each resolve, and the next number. Jobs
// store members by these numbers, so a set keeps its number in all versions of a rule that have it, at any place, and no
// other set gets it. nil: the number of each is its place, as in the first version.
type memberSets []byte

// of returns the number of the set of the i-th resolve.
func (m memberSets) of(i int) uint8 {
	if i < len(m)-1 {
		return m[i]
	}
	return uint8(i) //nolint:gosec // at most document.MaxResolves
}

// next returns the first number that no version up to this one has used, of a version with n resolves.
func (m memberSets) next(n int) uint8 {
	if len(m) == 0 {
		return uint8(n) //nolint:gosec // likewise
	}
	return m[len(m)-1]
}

// numberSets returns the numbers of the sets of a version that follows another one. A set is the same if it counts the same
// members of the same events or, at the same place, of other events. nil: no version has sets.
func numberSets(before []document.Resolve, numbers memberSets, after []document.Resolve) memberSets {
	isSet := func(r document.Resolve) bool { return r.Distinct != "" }
	if len(numbers) == 0 && !slices.ContainsFunc(slices.Concat(before, after), isSet) {
		return nil
	}
	next := numbers.next(len(before))
	sets, taken := make(memberSets, len(after)+1), make([]bool, len(before))
	for i, r := range after {
		j := 0
		for j < len(before) && (taken[j] || !sameSet(before[j], r)) {
			j++
		}
		if j == len(before) && i < len(before) && before[i].Distinct == r.Distinct && before[i].Key == r.Key &&
			!slices.ContainsFunc(after, func(a document.Resolve) bool { return sameSet(before[i], a) }) {
			j = i
		}
		switch {
		case !isSet(r):
		case j < len(before):
			sets[i], taken[j] = numbers.of(j), true
		default:
			sets[i], next = next, next+1
		}
	}
	sets[len(after)] = next
	return sets
}

// sameSet reports whether two resolves count the same members of the same events.
func sameSet(a, b document.Resolve) bool {
	return a.Event == b.Event && a.Key == b.Key && a.Distinct == b.Distinct && a.If == b.If
}
