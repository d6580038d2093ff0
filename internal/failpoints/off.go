//go:build !faultpoints

// Package failpoints names the places at which the fault campaign breaks a node. Without the build tag faultpoints the
// calls are inlined to no instruction.
package failpoints

// Point marks a place.
func Point(string) {}

// PointErr marks a place at which an operation may be reported as failed. It returns nil. With if failed :=
// PointErr(place); failed != nil the compiler removes the if as well.
func PointErr(string) error { return nil }
