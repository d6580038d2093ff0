package main

import (
	"database/sql"
	"path/filepath"
	"strings"
	"testing"

	"deadman/rules"
	"deadman/server"
)

// lookupRule returns a rule with a lookup.
func lookupRule(name, lookup string) string {
	return "name: " + name + `
entity: order
trigger: {event: orders.created, key: event.id}
while: state != nil and state.status == "UNSHIPPED"
escalate: [{after: 3h, step: primary}]
hold: 0
lookup: ` + lookup + "\n"
}

const shopLookup = `{sql: {source: shop, query: "select status from orders where id = $1"}}`

// writeSourceFiles writes a file of sources: a database with the order 1, a missing server, and the connection of a node.
func writeSourceFiles(t *testing.T) (sources string) {
	t.Helper()
	dir := t.TempDir()
	db, err := sql.Open("sqlite", filepath.Join(dir, "shop.db"))
	if err != nil {
		t.Fatal(err)
	}
	defer db.Close()
	if _, err := db.ExecContext(t.Context(), "create table orders (id text, status text); insert into orders values ('1', 'UNSHIPPED')"); err != nil {
		t.Fatal(err)
	}
	writeFile(t, dir, "gone.url", "nats://"+stoppedNode+"\n")
	return writeFile(t, dir, "sources.yaml", "sources:\n  shop: {sqlite: {path: shop.db}}\n  gone: {nats: {url_file: gone.url}}\n  bus: {nats: {}}\n")
}

// TestLintQueriesSources checks that lint queries the sources if they are named, and otherwise warns that it did not.
func TestLintQueriesSources(t *testing.T) {
	t.Parallel()
	sources := writeSourceFiles(t)
	broken := writeFile(t, t.TempDir(), "broken.yaml", "sauces: {}\n")
	const inGone, inBus = "{kv: {source: gone, bucket: orders}}", "{kv: {source: bus, bucket: orders}}"
	for _, c := range []struct {
		name, input string
		args        []string
		code        int
		wantTexts   []string
		unwanted    string
	}{
		{"not named", lookupRule("late", shopLookup), nil, 0, []string{"warning: late: the lookup was not validated against source shop; give the sources file", "no errors"}, ""},
		{"right", lookupRule("late", shopLookup), []string{"--sources", sources}, 0, []string{"no errors"}, "warning"},
		{"no lookup", goodRule, nil, 0, []string{"no errors"}, "warning"},
		{"no such column", lookupRule("late", strings.Replace(shopLookup, "select status", "select state", 1)), []string{"--sources", sources}, 3, []string{"standard input:7:37: late: lookup.sql.query: ", "no such column: state", "1 error"}, "warning"},
		{"no such source", lookupRule("late", strings.Replace(shopLookup, "shop", "shpo", 1)), []string{"--sources", sources}, 3, []string{"standard input:7:24: late: lookup.sql.source: ", `did you mean "shop"?`}, "warning"},
		{"both files of one input", lookupRule("a", shopLookup) + "---\n" + lookupRule("b", strings.Replace(shopLookup, "orders", "order_", 1)), []string{"--sources", sources}, 3, []string{"b: lookup.sql.query", "2 rules in 1 file: 1 error"}, "a: lookup"},
		{"a source that is down", lookupRule("late", inGone), []string{"--sources", sources}, 0, []string{"warning: late: lookup: source gone is not reachable, so the query is not verified", "no errors"}, ""},
		{"the connection of a node", lookupRule("late", inBus), []string{"--sources", sources}, 0, []string{"warning: late: lookup: source bus is not reachable, so the query is not verified", "which is not available here"}, ""},
		{"wrong by itself", lookupRule("late", strings.Replace(shopLookup, "query", "qeury", 1)), []string{"--sources", sources}, 3, []string{`did you mean "query"?`}, "source shop"},
		{"a broken file", lookupRule("late", shopLookup), []string{"--sources", broken}, 1, []string{broken + `:1:1: sauces: unknown field "sauces"`}, ""},
	} {
		t.Run(c.name, func(t *testing.T) {
			args := append([]string{"rule", "lint", "-"}, c.args...)
			got := runInProcess(t, c.input, nil, args...)
			got.check(t, args, c.code, c.wantTexts...)
			if c.unwanted != "" && strings.Contains(got.out+got.err, c.unwanted) {
				t.Errorf("the text is %q: %+v", c.unwanted, got)
			}
			inJSON := runInProcess(t, c.input, nil, append(args, "-o", "json")...)
			if c.code != 1 && strings.Contains(inJSON.out, `"warnings"`) != strings.Contains(got.out, "warning:") {
				t.Errorf("in JSON: %+v", inJSON)
			}
		})
	}
}

// TestPreviewOfLookup checks that a preview takes the given lookup result or has the node query its source. Without
// a node no source is queried.
func TestPreviewOfLookup(t *testing.T) {
	t.Parallel()
	sources, dir := writeSourceFiles(t), t.TempDir()
	n := newInProcessNode(t, func(c *server.Config) { c.Sources = sources })
	file := writeFile(t, dir, "late.yaml", lookupRule("late", shopLookup))
	n.mustRun("rule", "apply", "-f", file)
	found := writeFile(t, dir, "found.json", `{"status": "UNSHIPPED"}`)
	saved, here := []string{"--rule", "late"}, []string{"-f", file}
	for _, c := range []struct {
		name     string
		args     []string
		key      string
		found    string // --found; empty: not given
		outcome  string // empty: it is refused
		queried  bool
		wantText string
	}{
		{"asked", saved, "1", "", "exhausted", true, ""},
		{"queried, absent", saved, "2", "", "cleared", true, ""},
		{"given", saved, "1", `{"status": "SHIPPED"}`, "cleared", false, ""},
		{"absent, given", saved, "1", "null", "cleared", false, ""},
		{"of a file, given", here, "2", "@" + found, "exhausted", false, ""},
		{"of a file, absent", here, "1", "null", "cleared", false, ""},
		{"of a file, not given", here, "1", "", "", false, "the result of shop is unknown (sources are not queried without a node); give the lookup result"},
		{"no object", saved, "1", "[]", "", false, "write an object, or null"},
	} {
		t.Run(c.name, func(t *testing.T) {
			args := append([]string{"rule", "preview", "--event", `{"id": "` + c.key + `"}`}, c.args...)
			if c.found != "" {
				args = append(args, "--found", c.found)
			}
			if c.outcome == "" {
				n.expect(1, args, c.wantText)
				return
			}
			p := readJSON[rules.Preview](n, args...)
			if p.Outcome != c.outcome || p.Lookup == nil || p.Lookup.Queried != c.queried || p.Lookup.Source != "shop" {
				t.Errorf("%+v, %+v", p, p.Lookup)
			}
		})
	}
}

// TestApplyWarnsOfUnavailableSource checks that a source that is down while rules are applied gives a warning.
func TestApplyWarnsOfUnavailableSource(t *testing.T) {
	t.Parallel()
	sources := writeSourceFiles(t)
	n := newInProcessNode(t, func(c *server.Config) { c.Sources = sources })
	file := writeFile(t, t.TempDir(), "late.yaml", lookupRule("late", "{kv: {source: gone, bucket: orders}}"))
	const warning = "warning: lookup: source gone is not reachable, so the query is not verified"
	n.expect(0, []string{"rule", "apply", "-f", file, "--dry-run"}, warning)
	n.expect(0, []string{"rule", "apply", "-f", file}, warning)
	n.expect(0, []string{"rule", "list"}, "late")
	if got := n.mustRun("rule", "apply", "-f", file); strings.Contains(got, "warning") {
		t.Errorf("a rule that does not change is checked again: %s", got)
	}
	if got := n.mustRun("rule", "apply", "-o", "json", "-f", writeFile(t, t.TempDir(), "later.yaml", lookupRule("later", "{kv: {source: gone, bucket: orders}}"))); !strings.Contains(got, `"warnings"`) {
		t.Errorf("%s", got)
	}
}
