package bench

import (
	"os"
	"strconv"
	"strings"
)

// resetResident has the system note anew the most memory that this process has resident, and reports
// whether it does.
func resetResident() bool { return os.WriteFile("/proc/self/clear_refs", []byte("5"), 0) == nil }

// mostResident is what the system noted, in bytes; 0: it doesn't say.
func mostResident() int64 {
	text, err := os.ReadFile("/proc/self/status")
	if err != nil {
		return 0
	}
	_, after, _ := strings.Cut(string(text), "VmHWM:")
	line, _, _ := strings.Cut(after, "kB")
	n, err := strconv.ParseInt(strings.TrimSpace(line), 10, 64)
	if err != nil {
		return 0
	}
	return n << 10
}
