package futurejobs

import (
	"encoding/binary"
	"fmt"
	"hash/fnv"
)

// Members are the members of a job's sets, in eight bytes each: the set's number and seven bytes of a hash of the
// member's name. Seven bytes distinguish ten thousand names.
type Members []byte

const memberSize = 8

// MaxMembers is the maximum number of stored members of a set.
const MaxMembers = 10_000

// errFull means that a set already has MaxMembers members.
var errFull = fmt.Errorf("the set already has the maximum of %d members", MaxMembers)

// full reports whether a set is full.
func (m Members) full(set uint8) bool { return m.count(set) >= MaxMembers }

// add adds a member, and reports whether it is new.
func (m Members) add(set uint8, name string) (Members, bool) {
	h := fnv.New64a()
	_, _ = h.Write([]byte(name)) // a hash.Hash never returns an error
	member := uint64(set)<<56 | mix(h.Sum64())>>8
	for i := 0; i < len(m); i += memberSize {
		if binary.BigEndian.Uint64(m[i:]) == member {
			return m, false
		}
	}
	return binary.BigEndian.AppendUint64(m[:len(m):len(m)], member), true
}

// count returns the number of members of a set.
func (m Members) count(set uint8) int {
	n := 0
	for i := 0; i < len(m); i += memberSize {
		if m[i] == set {
			n++
		}
	}
	return n
}

// Count returns the number of members of the set with that number.
func (m Members) Count(set int) int { return m.count(uint8(set)) }
