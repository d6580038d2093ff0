package rules

import (
	"reflect"
	"strings"
)

// Bounds of a lookup.
const (
	maxQuery  = 16 << 10 // bytes
	maxParams = 32
)

// lookup checks what is asked at each look. A source is looked for when it is asked.
func (c *compiler) lookup(l *Lookup) {
	if l == nil {
		return
	}
	const p = "/lookup"
	var asked int
	for _, one := range []any{l.SQL, l.HTTP, l.NATS, l.KV} {
		if !reflect.ValueOf(one).IsNil() {
			asked++
		}
	}
	if asked != 1 {
		c.problem(p, "a lookup asks one source: write one of sql, http, nats and kv")
	}
	d := c.over(inLookup)
	if l.SQL != nil {
		c.sqlLookup(p+"/sql", l.SQL, d)
	}
	if l.HTTP != nil {
		c.httpLookup(p+"/http", l.HTTP, d)
	}
	if l.NATS != nil {
		c.source(p+"/nats", l.NATS.Source)
		c.filled(p+"/nats/subject", l.NATS.Subject, "the subject is missing; write a template, such as shop.orders.{{key}}", d)
	}
	if l.KV != nil {
		c.source(p+"/kv", l.KV.Source)
		if !bucketPattern.MatchString(l.KV.Bucket) {
			c.problem(p+"/kv/bucket", "%q is not a bucket; write letters, digits, _ and -, such as orders", clip(l.KV.Bucket, 80))
		}
		c.template(p+"/kv/key", l.KV.Key, d)
	}
	c.notRun(p, "a lookup")
}

func (c *compiler) source(pointer, name string) {
	if name == "" {
		c.problem(pointer+"/source", "the source is missing; name the one that is asked, such as source: shop")
		return
	}
	c.name(pointer+"/source", name, "shop")
}

// filled compiles a template that has to be there.
func (c *compiler) filled(pointer, source, missing string, d dialect) {
	if source == "" {
		c.problem(pointer, "%s", missing)
	}
	c.template(pointer, source, d)
}

func (c *compiler) sqlLookup(p string, l *SQLLookup, d dialect) {
	c.source(p, l.Source)
	switch {
	case strings.TrimSpace(l.Query) == "":
		c.problem(p+"/query", "the query is missing; write one for one row, such as select status from orders where id = $1")
	case len(l.Query) > maxQuery:
		c.problem(p+"/query", "the query has %d bytes, the most is %d", len(l.Query), maxQuery)
	}
	if len(l.Params) > maxParams {
		c.problem(p+"/params", "%d params, the most is %d", len(l.Params), maxParams)
		return
	}
	for i, param := range l.Params {
		c.expression(item(p+"/params", i), param, d)
	}
}

func (c *compiler) httpLookup(p string, l *HTTPLookup, d dialect) {
	c.source(p, l.Source)
	c.filled(p+"/path", l.Path, "the path is missing; write a template, such as /orders/{{key}}", d)
	if l.Path != "" && !strings.HasPrefix(l.Path, "/") {
		c.problem(p+"/path", "%q is not a path; it begins with a slash, and the source knows the host", clip(l.Path, 80))
	}
	for i, status := range l.Absent {
		if status < 400 || status > 599 {
			c.problem(item(p+"/absent", i), "%d is not between 400 and 599; no other status means that there is no such entity", status)
		}
	}
}
