package rules

import (
	"cmp"
	"reflect"
	"strings"

	"deadman/rules/document"

	"deadman/checks/lookup"
	"deadman/internal/subjects"
)

// Bounds of a lookup.
// lookupCompiler compiles the lookup of a rule.
type lookupCompiler struct{ *compiler }

// lookup compiles the query of each check; nil: none. Saving the rule checks whether the source exists, and whether it
// accepts the question.
func (c lookupCompiler) lookup(l *document.Lookup) *lookupQuery {
	if l == nil {
		return nil
	}
	const p = "/lookup"
	var queries int
	for _, one := range []any{l.SQL, l.HTTP, l.NATS, l.KV} {
		if !reflect.ValueOf(one).IsNil() {
			queries++
		}
	}
	if queries != 1 {
		c.problem(p, "a lookup queries one source; write one of sql, http, nats and kv")
	}
	if c.document.Handler != "" {
		c.problem(p, "the rule has a handler, which queries its own data; remove one of the two")
	}
	d := c.over(inLookup)
	switch {
	case l.SQL != nil:
		return c.sqlLookup(p+"/sql", l.SQL, d)
	case l.HTTP != nil:
		return c.httpLookup(p+"/http", l.HTTP, d)
	case l.NATS != nil:
		return c.natsLookup(p+"/nats", l.NATS, d)
	case l.KV != nil:
		return c.kvLookup(p+"/kv", l.KV, d)
	}
	return nil
}

func (c lookupCompiler) source(pointer, name string) {
	if name == "" {
		c.problem(pointer+"/source", "the source is missing; write the name of a configured source, such as source: shop")
		return
	}
	c.name(pointer+"/source", name, "shop")
}

// filled compiles a template that must not be empty, and checks its result if its expressions yield a plain word.
func (c lookupCompiler) filled(pointer, source, missing string, d exprEnv, check func(string) error) *template {
	if source == "" {
		c.problem(pointer, "%s", missing)
		return nil
	}
	t := c.template(pointer, source, d)
	if t != nil {
		c.require(pointer, check(t.renderSample("x")))
	}
	return t
}

func (c lookupCompiler) sqlLookup(p string, l *document.SQLLookup, d exprEnv) *lookupQuery {
	c.source(p, l.Source)
	switch {
	case strings.TrimSpace(l.Query) == "":
		c.problem(p+"/query", "the query is missing; write one for one row, such as select status from orders where id = $1")
	case len(l.Query) > document.MaxQuery:
		c.problem(p+"/query", "the query has %d bytes, the most is %d", len(l.Query), document.MaxQuery)
	}
	if len(l.Params) > document.MaxParams {
		c.problem(p+"/params", "%d params, the most is %d", len(l.Params), document.MaxParams)
		return nil
	}
	d.yields = parameter
	var params []*expression
	for i, param := range l.Params {
		params = append(params, c.expression(document.ItemPointer(p+"/params", i), param, d))
	}
	if len(l.Params) == 0 {
		params = append(params, c.expression(p+"/params", nameKey, d))
	}
	return &lookupQuery{
		Question: lookup.Question{SQL: l.Query}, source: l.Source, pointer: p + "/query",
		params: len(params), keyQuery: parameters(params),
	}
}

func (c lookupCompiler) httpLookup(p string, l *document.HTTPLookup, d exprEnv) *lookupQuery {
	c.source(p, l.Source)
	t := c.filled(p+"/path", l.Path, "the path is missing; write a template, such as /orders/{{key}}", d, checkPath)
	for i, status := range l.Absent {
		if status < 400 || status > 599 {
			c.problem(document.ItemPointer(p+"/absent", i), "%d is not between 400 and 599; only such a status can mean that the entity does not exist", status)
		}
	}
	return &lookupQuery{
		Question: lookup.Question{HTTP: &lookup.HTTP{Absent: l.Absent}}, source: l.Source, pointer: p + "/path", keyQuery: path(t),
	}
}

func (c lookupCompiler) natsLookup(p string, l *document.NATSLookup, d exprEnv) *lookupQuery {
	c.source(p, l.Source)
	t := c.filled(p+"/subject", l.Subject, "the subject is missing; write a template, such as shop.orders.{{key}}", d, subjects.CheckLiteral)
	return &lookupQuery{Question: lookup.Question{NATS: true, Subject: patternOf(l.Subject)}, source: l.Source, pointer: p + "/subject", keyQuery: requestSubject(t, c.bounds)}
}

func (c lookupCompiler) kvLookup(p string, l *document.KVLookup, d exprEnv) *lookupQuery {
	c.source(p, l.Source)
	if !document.BucketPattern.MatchString(l.Bucket) {
		c.problem(p+"/bucket", "%q is not a bucket; write letters, digits, _ and -, such as orders", clip(l.Bucket, 80))
	}
	t := c.filled(p+"/key", cmp.Or(l.Key, "{{"+nameKey+"}}"), "", d, checkEntryKey)
	return &lookupQuery{Question: lookup.Question{KV: l.Bucket}, source: l.Source, pointer: p + "/bucket", keyQuery: entryKey(t)}
}
