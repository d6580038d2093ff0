// Package faults breaks real nodes, databases and brokers, and checks afterwards, with
// statements of its own, that every promise was kept.
package faults
