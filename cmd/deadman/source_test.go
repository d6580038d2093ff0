package main

import (
	"testing"

	"deadman/server"
	"deadman/web"
)

// TestNoSources checks that an empty list of sources tells the user to configure a file.
func TestNoSources(t *testing.T) {
	n := newInProcessNode(t)
	n.expect(0, []string{"source", "list"}, "no sources; configure them in the file of deadman serve --sources")
	n.expect(1, []string{"source", "test", "shop"}, "start it with --sources")
}

// TestSourceVerbs checks that sources are listed with their state, and can be tested.
func TestSourceVerbs(t *testing.T) {
	dir := t.TempDir()
	writeFile(t, dir, "shop.db", "") // an empty file is a database without tables
	file := writeFile(t, dir, "sources.yaml", "sources: {shop: {sqlite: {path: shop.db}}, gone: {sqlite: {path: gone.db}}}\n")
	n := newInProcessNode(t, func(c *server.Config) { c.Sources = file })
	n.expect(0, []string{"source", "list"}, "shop", "gone", "sqlite", "new")
	n.expect(0, []string{"source", "test", "shop"}, "connected: source shop")
	n.expect(3, []string{"source", "test", "gone"}, "connecting to source gone failed: gone is unavailable")
	n.expect(1, []string{"source", "test", "shops"}, "not found", "source list")
	if got := readJSON[web.SourceTestResult](n, "source", "test", "shop"); !got.Reachable || got.Source != "shop" {
		t.Errorf("%+v", got)
	}
}
