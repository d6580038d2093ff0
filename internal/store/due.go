package store

import (
	"slices"
	"strings"
	"time"

	futurejobs "deadman/future_jobs"
)

// skipsMost is the largest number of conditions for skipped jobs in one read.
const skipsMost = 8

// skipped has versions of rules whose jobs are skipped from one instant on.
type skipped struct {
	after           time.Time
	rules, versions []int32
}

// skips groups unready rules by their instant: rules that depend on the same stream share one. Each group is a
// condition. Beyond skipsMost, the last groups share the latest instant, so too few jobs are skipped rather than too
// many.
func skips(all []futurejobs.Unready) (groups []skipped) {
	all = slices.Clone(all)
	slices.SortFunc(all, func(a, b futurejobs.Unready) int { return a.After.Compare(b.After) })
	for _, s := range all {
		n := len(groups)
		if n == 0 || n < skipsMost && !groups[n-1].after.Equal(s.After) {
			groups, n = append(groups, skipped{}), n+1
		}
		g := &groups[n-1]
		g.after, g.rules, g.versions = s.After, append(g.rules, s.RuleID), append(g.versions, s.Version)
	}
	return groups
}

// values returns the versions as rows of a VALUES list.
func (s skipped) values() string {
	rows := make([]string, len(s.rules))
	for i := range s.rules {
		rows[i] = inList([]int32{s.rules[i], s.versions[i]})
	}
	return strings.Join(rows, ",")
}
