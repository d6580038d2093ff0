package futurejobs

import "hash/fnv"

// SpreadIndex is which of n turns a key has among those of an owner, such as a rule or an entity, from 0:
// always the same one, and all are taken alike.
func SpreadIndex(owner, key string, n int) int {
	h := fnv.New64a()
	_, _ = h.Write([]byte(owner)) // a hash.Hash never returns an error
	_, _ = h.Write([]byte{0})
	_, _ = h.Write([]byte(key))
	return int(mix(h.Sum64()) % uint64(n))
}
