package schedules

import (
	"crypto/sha256"
	"encoding/binary"
	"strconv"
)

// spread is the value that "?" stands for in a column: the same one for the same seed, always,
// and among many seeds each value as often as any other. That many rules say "? 3 * * *" then
// does not make a herd at three.
func spread(seed string, c cronField) string {
	sum := sha256.Sum256([]byte(c.name + "\x00" + seed))
	n := binary.BigEndian.Uint64(sum[:]) % uint64(c.most-c.least+1)
	return strconv.Itoa(c.least + int(n))
}
