//go:build faultpoints

package failpoints

import (
	"os"
	"strings"
	"sync/atomic"
	"time"
)

var offsetFile atomic.Pointer[string]

// OffsetBy sets the file with the clock offset of the database in the node's folder, such as -1h.
func OffsetBy(file string) { offsetFile.Store(&file) }

// Offset returns the clock offset; 0 if the file is empty.
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
