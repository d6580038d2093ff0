//go:build !linux

package bench

// resetResident reports that the system notes nothing that could be read here.
func resetResident() bool { return false }

func mostResident() int64 { return 0 }
