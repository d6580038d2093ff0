//go:build faultpoints

package failpoints

import (
	"os"
	"strings"
	"sync/atomic"
	"time"
)

var offsetFile atomic.Pointer[string]

// OffsetBy names the file that says how far the clock of the database in the node's folder is off, such as -1h.
func OffsetBy(file string) { offsetFile.Store(&file) }

// Offset is how far the clock is off; 0 while the file says nothing.
func Offset() time.Duration {
	file := offsetFile.Load()
	if file == nil || *file == "" {
		return 0
	}
	text, err := os.ReadFile(*file)
	if err != nil {
		return 0
	}
	off, err := time.ParseDuration(strings.TrimSpace(string(text)))
	if err != nil {
		return 0
	}
	return off
}
