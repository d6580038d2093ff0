//go:build unix

package bench

import (
	"syscall"
	"time"
)

// processTime is the CPU time, of the user's and the system's, that this process has used.
func processTime() time.Duration {
	var used syscall.Rusage
	if err := syscall.Getrusage(syscall.RUSAGE_SELF, &used); err != nil {
		return 0
	}
	return time.Duration(used.Utime.Nano() + used.Stime.Nano())
}
