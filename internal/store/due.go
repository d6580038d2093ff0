package store

import (
	"slices"
	"strings"
	"time"

	futurejobs "deadman/future_jobs"
)

// skipsMost is how many conditions a read has for jobs that are skipped.
const skipsMost = 8

// skipped are versions of rules whose jobs are skipped from one instant on.
type skipped struct {
	after           time.Time
	rules, versions []int32
}

// skips groups what is skipped by its instant: rules that wait for the same stream share one. Each group is a
// condition. Where those would be too many, the last ones share the latest instant, so that rather too few are
// skipped.
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

// values are the versions as rows of a list.
func (s skipped) values() string {
	rows := make([]string, len(s.rules))
	for i := range s.rules {
		rows[i] = inList([]int32{s.rules[i], s.versions[i]})
	}
	return strings.Join(rows, ",")
}
