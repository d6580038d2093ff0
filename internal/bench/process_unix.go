//go:build unix

package bench

import (
	"syscall"
	"time"
)

// processTime returns the user and system CPU time used by this process.
func processTime() time.Duration {
	var used syscall.Rusage
	if err := syscall.Getrusage(syscall.RUSAGE_SELF, &used); err != nil {
		return 0
	}
	return time.Duration(used.Utime.Nano() + used.Stime.Nano())
}
