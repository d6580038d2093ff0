package rules_test

import (
	"errors"
	"path/filepath"
	"strings"
	"testing"

	"deadman/rules/document"

	"deadman/rules"
)

// verifyRule is the base with a lookup and a condition.
func verifyRule(query, while string, edits ...string) string {
	return withEdits(append([]string{`lookup: {sql: {source: shop, query: "` + query + `"}}`, "while: '" + while + "'"}, edits...)...)
}

func TestSaveVerifiesLookup(t *testing.T) {
	const query = "select status, total, carrier as who from orders where id = $1"
	for _, c := range []struct {
		name, text string
		want       string // the problem, from its place on; empty: none
	}{
		{"right", verifyRule(query, `state.status == "UNSHIPPED" and state.total > 3 and date(state.who) > since`), ""},
		{"a query that is none", verifyRule("selec status from orders", "state != nil"), `7:37: late: lookup.sql.query: the source rejects the query: SQL logic error: near "selec": syntax error`},
		{"a table that is not there", verifyRule("select status from order_ where id = $1", "state != nil"), "7:37: late: lookup.sql.query: the source rejects the query: SQL logic error: no such table: order_"},
		{"too few parameters", verifyRule("select status from orders where id = $1 and total > $2", "state != nil"), "7:37: late: lookup.sql.query: the source rejects the query"},
		{"a source that is not there", strings.Replace(verifyRule(query, "state != nil"), "source: shop", "source: shpo", 1), `7:24: late: lookup.sql.source: source "shpo" is not defined on this node; did you mean "shop"?`},
		{"a source that is like none", strings.Replace(verifyRule(query, "state != nil"), "source: shop", "source: warehouse", 1), `7:24: late: lookup.sql.source: source "warehouse" is not defined on this node, only catalogue, shop`},
		{"a slip", verifyRule(query, `state.statsu == "UNSHIPPED"`), `8:8: late: while: state.statsu: the lookup returns no "statsu"; did you mean "status"? (the field of the event is event.statsu)`},
		{"a slip in a text", verifyRule(query, "state != nil", "labels: {x: '{{state.totl}}'}"), `the lookup returns no "totl"; did you mean "total"?`},
		{"a slip where all that is known is declared", verifyRule(query, "state.region == \"EU\"", "trigger: {event: orders.created, key: event.id, shape: {id: text}}"), `8:8: late: while: state.region: the lookup returns no "region", only status, total, who, and no event has it`},
		{"what the event may carry", verifyRule(query, `state.region == "EU"`), ""},
		{"what the event carries by a name like a column's", verifyRule(query, `state.statsu == "UNSHIPPED"`, "trigger: {event: orders.created, key: event.id, if: event.statsu != nil}"), ""},
		{"what the event is declared to carry", verifyRule(query, `state.statsu == "UNSHIPPED"`, "trigger: {event: orders.created, key: event.id, shape: {id: text, statsu: text}}"), ""},
		{"the wrong type", verifyRule(query, "state.status > 3"), "8:8: late: while: state.status is used as a number here, but the lookup returns text"},
		{"a list of text", verifyRule(query, "any(state.status, # == \"x\")"), "8:8: late: while: state.status is used as a list here, but the lookup returns text"},
		{"a column wins over what the event carries", verifyRule(query, "state.total > 3", "trigger: {event: orders.created, key: event.id, shape: {id: text, total: text}}"), ""},
	} {
		t.Run(c.name, func(t *testing.T) {
			_, b := newBroker(t)
			r := newRegistry(b, openStore(t))
			s := newOrderShop(t)
			r.Sources = sources{s}
			change, err := r.Save(t.Context(), []byte(c.text), "", rules.SaveOptions{})
			if c.want == "" {
				if err != nil || len(change.Warnings) > 0 || s.verified.Load() != 1 {
					t.Errorf("%v, %q; verified %d times", err, change.Warnings, s.verified.Load())
				}
				return
			}
			var problems document.Problems
			if !errors.As(err, &problems) || !strings.Contains(err.Error(), c.want) {
				t.Errorf("%v; want %s", err, c.want)
			}
			if listed, err := r.List(t.Context()); err != nil || len(listed) > 0 {
				t.Errorf("it is saved all the same: %+v, %v", listed, err)
			}
		})
	}
}

func TestUnreachableSourceIsWarning(t *testing.T) {
	_, b := newBroker(t)
	r := newRegistry(b, openStore(t))
	s := newOrderShop(t)
	if err := s.db.Close(); err != nil {
		t.Fatal(err)
	}
	r.Sources = sources{s}
	text := []byte(verifyRule("select status from orders where id = $1", `state.status == "UNSHIPPED"`))
	for _, dry := range []bool{true, false} {
		change, err := r.Save(t.Context(), text, "", rules.SaveOptions{DryRun: dry, Version: rules.AnyVersion})
		if err != nil || len(change.Warnings) != 1 || !strings.Contains(change.Warnings[0], "lookup: source shop is not reachable, so the query is not verified: ") {
			t.Errorf("dry %t: %q, %v", dry, change.Warnings, err)
		}
	}
	change, err := r.Save(t.Context(), text, "", rules.SaveOptions{Version: rules.AnyVersion})
	if err != nil || change.Changed || len(change.Warnings) > 0 || s.verified.Load() != 2 {
		t.Errorf("a rule that is there as it is: %+v, %v; verified %d times", change, err, s.verified.Load())
	}
}

func TestApplyDirRefusesRuleOfUndefinedSource(t *testing.T) {
	_, b := newBroker(t)
	r := newRegistry(b, openStore(t))
	r.Sources = sources{newOrderShop(t)}
	dir := newFolder(t, map[string]string{
		"a.yaml": smallRule("a", "orders.a"),
		"b.yaml": smallRule("b", "orders.b") + "lookup: {kv: {source: shpo, bucket: x}}\n",
	})
	report, err := r.ApplyDir(t.Context(), dir)
	if err != nil || len(report.Saved) != 1 || report.Refused != 1 {
		t.Fatalf("%+v, %v", report, err)
	}
	p := report.Problems[0]
	if p.File != filepath.Join(dir, "b.yaml") || p.Line != 5 || p.Pointer != "/lookup/kv/source" {
		t.Errorf("%+v", p)
	}
}
