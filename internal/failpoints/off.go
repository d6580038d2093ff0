//go:build !faultpoints

// Package failpoints names the places at which the fault campaign breaks a node. Without the
// build tag faultpoints they are nothing: the calls are inlined to no instruction.
package failpoints

// Point passes a place.
func Point(string) {}

// PointErr passes a place at which an operation may be said to have failed. It returns nil. Use it as
// in if failed := Fail(place); failed != nil: then nothing is left of the if either.
func PointErr(string) error { return nil }
