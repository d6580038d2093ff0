package main

import (
	"io"
	"net/http"
	"path/filepath"
	"strings"
	"testing"

	"deadman/web"
)

// A rule keeps the comments and the layout of its author, over saves and in the editor's text.
func TestRuleKeepsItsText(t *testing.T) {
	t.Parallel()
	n := newInProcessNode(t)
	dir := filepath.Join(t.TempDir(), "shop")
	commented := "# Orders are shipped within an hour.\n" + strings.Replace(goodRule, "after: 1h", "after: 60m", 1) + "\n# the end\n"
	file := writeFile(t, dir, "a.yaml", commented+"---\n# the second\n"+ruleNamed("b"))
	n.mustRun("rule", "apply", "-f", file)
	if got := n.mustRun("rule", "get", "order-unshipped"); got != commented {
		t.Errorf("saved\n%s\nand got\n%s", commented, got)
	}
	if got := n.mustRun("rule", "get", "b"); !strings.HasPrefix(got, "# the second\n\nname: b") {
		t.Errorf("the second rule of the file: %s", got)
	}

	// A change of comments alone makes no version.
	recommented := strings.Replace(commented, "within an hour", "soon", 1)
	writeFile(t, dir, "a.yaml", recommented)
	n.expect(0, []string{"rule", "apply", "-f", file}, "only comments or layout changed", "1 unchanged")
	if got := n.mustRun("rule", "get", "order-unshipped"); got != recommented {
		t.Errorf("after a change of comments: %s", got)
	}
	if page := readJSON[web.Page[web.RuleVersion]](n, "rule", "versions", "order-unshipped"); len(page.Items) != 1 {
		t.Errorf("%d versions, want 1", len(page.Items))
	}

	// Each version has its own text; JSON has none.
	writeFile(t, dir, "a.yaml", strings.Replace(recommented, "60m", "2h", 1))
	n.mustRun("rule", "apply", "-f", file)
	if got := n.mustRun("rule", "get", "order-unshipped", "--version", "1"); got != recommented {
		t.Errorf("version 1: %s", got)
	}
	n.mustRun("rule", "apply", "-f", writeFile(t, dir, "c.json", n.mustRun("rule", "get", "order-unshipped", "-o", "json")))
	if got := n.mustRun("rule", "get", "order-unshipped"); !strings.Contains(got, "# the end") || !strings.Contains(got, "after: 2h") {
		t.Errorf("applied as JSON: %s", got)
	}

	// Comments that are removed are gone.
	plain := writeFile(t, dir, "a.yaml", strings.Replace(strings.TrimSpace(goodRule), "1h", "2h", 1))
	n.mustRun("rule", "apply", "-f", plain)
	if got := n.mustRun("rule", "get", "order-unshipped"); strings.Contains(got, "#") || !strings.Contains(got, "{after: 2h") {
		t.Errorf("without comments: %s", got)
	}
}

// Printed YAML names a schema that an editor gets from the node, and no schema if the node requires a token.
func TestYAMLNamesSchema(t *testing.T) {
	t.Parallel()
	n := newInProcessNode(t)
	dir := filepath.Join(t.TempDir(), "shop")
	n.mustRun("rule", "apply", "-f", writeFile(t, dir, "a.yaml", "# of the author\n"+goodRule))
	n.mustRun("calendar", "apply", "-f", writeFile(t, t.TempDir(), "calendars.yaml", "calendars:\n  office: {zone: Europe/Berlin, hours: {mon-fri: 09:00-17:00}}\n"))
	for _, c := range []struct{ command, name, title string }{{"rule", "order-unshipped", `"trigger"`}, {"calendar", "office", `"zone"`}} {
		plain := n.mustRun(c.command, "get", c.name)
		line, rest, _ := strings.Cut(n.mustRun(c.command, "get", c.name, "--schema"), "\n")
		address, named := strings.CutPrefix(line, "# yaml-language-server: $schema=")
		if !named || rest != plain {
			t.Fatalf("%s get --schema begins with %q, and the rest is:\n%s", c.command, line, rest)
		}
		answer, err := http.Get(address)
		if err != nil {
			t.Fatal(err)
		}
		schema, err := io.ReadAll(answer.Body)
		if err != nil || answer.Body.Close() != nil || answer.StatusCode != http.StatusOK || !strings.Contains(string(schema), c.title) || !strings.Contains(string(schema), "https://json-schema.org/draft/2020-12/schema") {
			t.Errorf("%s: %d %.200s, %v", address, answer.StatusCode, schema, err)
		}
	}
	// A line that was saved with the rule is not repeated.
	named := n.mustRun("rule", "get", "order-unshipped", "--schema")
	n.mustRun("rule", "apply", "-f", writeFile(t, dir, "a.yaml", named))
	if got := n.mustRun("rule", "get", "order-unshipped", "--schema"); got != named {
		t.Errorf("after a save with the line:\n%s", got)
	}
	n.env = append(n.env, "DEADMAN_TOKEN="+readJSON[web.NewToken](n, "token", "create", "admin", "--scope", "admin").Secret)
	got := n.run("", "calendar", "get", "office", "--schema")
	if got.code != 0 || strings.Contains(got.out, "$schema") || !strings.Contains(got.out, "Europe/Berlin") || !strings.Contains(got.err, "deadman schema calendars") {
		t.Errorf("of a closed node: %+v", got)
	}
}

// The rules of a single file are in no bundle, unless they belong to that of its folder or one is named.
func TestSingleFileIsNoBundle(t *testing.T) {
	t.Parallel()
	n := newInProcessNode(t)
	dir := filepath.Join(t.TempDir(), "shop")
	a, b := writeFile(t, dir, "a.yaml", ruleNamed("a")), writeFile(t, dir, "b.yaml", ruleNamed("b"))
	bundles := func(want map[string]string) {
		t.Helper()
		got := make(map[string]string)
		for _, r := range readJSON[web.Page[web.Rule]](n, "rule", "list").Items {
			got[r.Name] = r.Bundle
		}
		checkEqual(t, got, want)
	}
	n.mustRun("rule", "apply", "-f", a)
	bundles(map[string]string{"a": ""})
	n.mustRun("rule", "apply", "-f", b, "--bundle", "file:shop")
	bundles(map[string]string{"a": "", "b": "file:shop"})
	writeFile(t, dir, "b.yaml", strings.Replace(ruleNamed("b"), "1h", "2h", 1))
	n.expect(0, []string{"rule", "apply", "-f", a, "-f", b}, "1 changed, 1 unchanged")
	bundles(map[string]string{"a": "", "b": "file:shop"})
	n.mustRun("rule", "apply", "-f", dir, "--adopt")
	bundles(map[string]string{"a": "file:shop", "b": "file:shop"})
}
