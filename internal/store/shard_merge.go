package store

import (
	"slices"
	"strconv"
	"strings"
)

// shardPage is the part of a list in one shard, in list order, as far as it is read.
type shardPage[T any] struct {
	// next reads up to limit items after the given one, or from the beginning if it is nil.
	next  func(after *T, limit int) ([]T, error)
	items []T
	over  bool // all items are read
}

// mergeShards returns the first items of all portions, in order, up to a limit. It reads a few of each portion, and
// more only if all of those are among the first: a page has few items of each shard.
func mergeShards[T any](portions []*shardPage[T], limit int, compare func(a, b T) int) ([]T, error) {
	for few := min(limit, 3*limit/max(len(portions), 1)+4); ; few = min(limit, 2*few) {
		var first []T
		for _, p := range portions {
			first = append(first, p.items...)
		}
		slices.SortFunc(first, compare)
		first = first[:min(len(first), limit)]
		done := true
		for _, p := range portions {
			if !p.needsMore(first, limit, compare) {
				continue
			}
			done = false
			if err := p.readMore(few); err != nil {
				return nil, err
			}
		}
		if done {
			return first, nil
		}
	}
}

// needsMore reports whether unread items may be among the first.
func (p *shardPage[T]) needsMore(first []T, limit int, compare func(a, b T) int) bool {
	if p.over || len(p.items) == 0 || len(first) < limit {
		return !p.over
	}
	return compare(p.items[len(p.items)-1], first[limit-1]) <= 0
}

func (p *shardPage[T]) readMore(limit int) error {
	var after *T
	if len(p.items) > 0 {
		after = &p.items[len(p.items)-1]
	}
	found, err := p.next(after, limit)
	if err != nil {
		return err
	}
	p.items = append(p.items, found...)
	p.over = len(found) < limit
	return nil
}

// unionMost is slightly below SQLite's limit for the statements of a union. https://www.sqlite.org/limits.html,
// "Maximum Number Of Terms In A Compound SELECT Statement"
const unionMost = 400

// union returns one statement for the rows of several, for example one for each shard.
func union(parts []string) string {
	const all = "\nUNION ALL "
	if len(parts) <= unionMost {
		return strings.Join(parts, all)
	}
	var groups []string
	for begin := 0; begin < len(parts); begin += unionMost {
		group := strings.Join(parts[begin:min(begin+unionMost, len(parts))], all)
		groups = append(groups, `SELECT * FROM (`+group+`) AS g`+strconv.Itoa(len(groups)))
	}
	return strings.Join(groups, all)
}
