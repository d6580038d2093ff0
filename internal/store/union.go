package store

import (
	"strconv"
	"strings"
)

// unionMost is how many statements SQLite joins at most, less a few.
// https://www.sqlite.org/limits.html, "Maximum Number Of Terms In A Compound SELECT Statement"
const unionMost = 400

// union is one statement for what several return, of which there may be one for each shard.
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
