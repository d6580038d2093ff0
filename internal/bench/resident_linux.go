package bench

import (
	"os"
	"strconv"
	"strings"
)

// resetResident resets the system's record of this process's maximum resident memory and reports whether it succeeded.
func resetResident() bool { return os.WriteFile("/proc/self/clear_refs", []byte("5"), 0) == nil }

// mostResident returns the recorded maximum in bytes; 0: unknown.
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
