package main

import "testing"

// Without a file of sources there are none, and the program says how there would be.
func TestNoSources(t *testing.T) {
	n := serveHere(t)
	n.says(0, []string{"source", "list"}, "there are no sources; serve --sources names a file of them")
	n.says(1, []string{"source", "test", "shop"}, "start it with --sources")
}
