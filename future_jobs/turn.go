package futurejobs

import "hash/fnv"

// TurnOf is which of n turns a rule's key has, from 0: always the same one, and all are taken
// alike.
func TurnOf(rule, key string, n int) int {
	h := fnv.New64a()
	_, _ = h.Write([]byte(rule)) // a hash.Hash never returns an error
	_, _ = h.Write([]byte{0})
	_, _ = h.Write([]byte(key))
	return int(mix(h.Sum64()) % uint64(n))
}
