//go:build !linux

package bench

// resetResident returns false: the record is not available on this system.
func resetResident() bool { return false }

func mostResident() int64 { return 0 }
