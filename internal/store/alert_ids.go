package store

import (
	"fmt"
	"maps"
	"slices"
	"strings"

	"deadman/alerts"
)

// closed passes the ids that alerts close to do, a chunk of a shard at a time.
func closed(closing []alerts.Alert, do func(shard int16, ids []alerts.ID) error) error {
	byShard := make(map[int16][]alerts.ID)
	for _, a := range closing {
		byShard[a.Shard] = append(byShard[a.Shard], a.Closes...)
	}
	for _, shard := range slices.Sorted(maps.Keys(byShard)) {
		for ids := range slices.Chunk(byShard[shard], atOnce) {
			if err := do(shard, ids); err != nil {
				return err
			}
		}
	}
	return nil
}

// idParams returns a list of n parameters for IN, after a first one.
func idParams(n int) string {
	names := make([]string, n)
	for i := range names {
		names[i] = fmt.Sprintf("$%d", i+2)
	}
	return "(" + strings.Join(names, ", ") + ")"
}

// with returns the arguments for a shard and idParams.
func with(ids []alerts.ID, shard int16) []any {
	args := []any{shard}
	for _, id := range ids {
		args = append(args, id[:])
	}
	return args
}
