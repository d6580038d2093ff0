package rules

import (
	"fmt"
	"slices"
	"strconv"
	"strings"
)

// reader makes a Document of nodes and notes what has the wrong shape.
type reader struct {
	places   map[string]place
	single   bool // resolve is written without a list
	problems Problems
}

// known is a field that a mapping may have.
type known struct {
	name string
	read func(n node, pointer string)
}

func (r *reader) problem(pointer, format string, args ...any) {
	at := r.nearestPlace(pointer)
	r.problems = append(r.problems, Problem{
		Line: at.line, Column: at.column, Pointer: pointer, Message: fmt.Sprintf(format, args...),
	})
}

func (r *reader) document(n node) Document {
	d := blank()
	r.mapping(n, "", later["rule"], []known{
		{"name", r.text(&d.Name)},
		{"description", r.text(&d.Description)},
		{"entity", r.text(&d.Entity)},
		{"enabled", r.boolean(&d.Enabled)},
		{"trigger", func(n node, p string) { d.Trigger = r.trigger(n, p) }},
		{"resolve", func(n node, p string) { d.Resolve = r.resolves(n, p) }},
		{"while", r.expression(&d.While)},
		{"escalate", func(n node, p string) { d.Escalate = r.steps(n, p) }},
		{"slot", r.duration(&d.Slot)},
		{"hold", r.duration(&d.Hold)},
		{"guards", func(n node, p string) { r.guards(n, p, &d.Guards) }},
		{"quiet", r.boolean(&d.Quiet)},
		{"labels", func(n node, p string) { d.Labels = r.labels(n, p) }},
	})
	if d.Guards.MaxChecks == 0 {
		d.Guards.MaxChecks = len(d.Escalate) + SpareChecks
	}
	return d
}

func (r *reader) trigger(n node, pointer string) Trigger {
	var t Trigger
	r.mapping(n, pointer, later["trigger"], []known{
		{"event", r.text(&t.Event)},
		{"key", r.expression(&t.Key)},
		{"if", r.expression(&t.If)},
		{"since", r.expression(&t.Since)},
	})
	return t
}

// resolves reads one resolve or a list of them.
func (r *reader) resolves(n node, pointer string) []Resolve {
	if n.kind != aSequence {
		r.single = true
		return []Resolve{r.resolve(n, pointer)}
	}
	if len(n.items) == 0 {
		r.problem(pointer, "an empty list resolves nothing; leave the field out")
	}
	var list []Resolve
	for i, v := range n.items {
		p := item(pointer, i)
		r.places[p] = v.place
		list = append(list, r.resolve(v, p))
	}
	return list
}

func (r *reader) resolve(n node, pointer string) Resolve {
	var s Resolve
	r.mapping(n, pointer, later["resolve"], []known{
		{"event", r.text(&s.Event)},
		{"key", r.expression(&s.Key)},
		{"if", r.expression(&s.If)},
		{"as", r.text(&s.As)},
	})
	return s
}

func (r *reader) steps(n node, pointer string) []Step {
	if n.kind != aSequence {
		r.problem(pointer, "expected a list of steps, not %s; write: escalate: [{after: 3h, step: primary}]", n.kind)
		return nil
	}
	var list []Step
	for i, v := range n.items {
		s := Step{Name: fmt.Sprintf("step-%d", i+1), Severity: DefaultSeverity}
		p := item(pointer, i)
		r.places[p] = v.place
		r.mapping(v, p, later["step"], []known{
			{"after", r.duration(&s.After)},
			{"step", r.text(&s.Name)},
			{"severity", r.text((*string)(&s.Severity))},
			{"text", r.expression(&s.Text)},
		})
		list = append(list, s)
	}
	return list
}

func (r *reader) guards(n node, pointer string, g *Guards) {
	r.mapping(n, pointer, nil, []known{
		{"timeout", r.duration(&g.Timeout)},
		{"attempts", r.count(&g.Attempts)},
		{"max_checks", r.count(&g.MaxChecks)},
		{"horizon", r.duration(&g.Horizon)},
		{"end", r.boolean(&g.End)},
	})
}

func (r *reader) labels(n node, pointer string) map[string]string {
	if n.kind != aMapping {
		r.problem(pointer, "expected a mapping of names to text, not %s; write: labels: {team: fulfilment}", n.kind)
		return nil
	}
	labels := make(map[string]string)
	for _, f := range n.fields {
		p := under(pointer, f.name)
		r.places[p] = f.value.place
		if _, twice := labels[f.name]; twice {
			r.problem(p, "the field is here twice; keep one")
		}
		var value string
		r.text(&value)(f.value, p)
		labels[f.name] = value
	}
	return labels
}

// mapping hands each field of n to its reader. Fields of later versions and unknown ones are
// refused, and so are those without a value.
func (r *reader) mapping(n node, pointer string, notYet []string, fields []known) {
	if n.kind != aMapping {
		r.problem(pointer, "expected a mapping with the fields %s, not %s", strings.Join(names(fields), ", "), n.kind)
		return
	}
	seen := make(map[string]bool)
	for _, f := range n.fields {
		p := under(pointer, f.name)
		r.places[p] = f.place
		i := slices.IndexFunc(fields, func(k known) bool { return k.name == f.name })
		switch {
		case seen[f.name]:
			r.problem(p, "the field is here twice; keep one")
		case i < 0:
			r.problem(p, "%s", unknown(f.name, notYet, names(fields)))
		case f.value.kind == aNull:
			r.problem(p, "the field has no value; give it one or leave it out")
		default:
			if f.value.kind != aMapping && f.value.kind != aSequence {
				r.places[p] = f.value.place
			}
			fields[i].read(f.value, p)
		}
		seen[f.name] = true
	}
}

// later are the fields that the rule language has and this version does not.
var later = map[string][]string{
	"rule": {"update", "pause", "lookup", "recheck", "catch_up", "early", "again", "handler"},
	"trigger": {
		"schedule", "heartbeat", "query", "zone", "keys", "every", "grace",
	},
	"resolve": {"distinct", "need"},
	"step":    {"of", "within", "at", "every", "times"},
}

func unknown(name string, notYet, fields []string) string {
	if slices.Contains(notYet, name) {
		return fmt.Sprintf("%q is not supported yet by this version; leave it out", name)
	}
	if near := Nearest(name, fields); near != "" {
		return fmt.Sprintf("unknown field %q; did you mean %q?", clip(name, 40), near)
	}
	return fmt.Sprintf("unknown field %q; the fields here are %s", clip(name, 40), strings.Join(fields, ", "))
}

func names(fields []known) []string {
	all := make([]string, len(fields))
	for i, f := range fields {
		all[i] = f.name
	}
	return all
}

func (r *reader) text(to *string) func(node, string) {
	return func(n node, p string) {
		switch n.kind {
		case aText:
			*to = n.text
		case aNumber, aBoolean:
			r.problem(p, "expected text, not %s; quote it: %q", n.kind, n.text)
		case aNull:
			r.problem(p, "the field has no value; give it one or leave it out")
		default:
			r.problem(p, "expected text, not %s", n.kind)
		}
	}
}

// expression reads text that YAML may have bent into something else.
func (r *reader) expression(to *string) func(node, string) {
	return func(n node, p string) {
		switch n.kind {
		case aText:
			*to = n.text
			if strings.TrimSpace(n.text) == "" {
				r.problem(p, "the expression is empty; write one or leave the field out")
			}
		case aNumber, aBoolean:
			r.problem(p, "%s is %s here, not an expression; quote the whole expression: %q", n.text, n.kind, n.text)
		default:
			r.problem(p, `YAML made %s of this; an expression with ": ", " #", or "{" or "[" at its beginning has to be quoted as a whole`, n.kind)
		}
	}
}

func (r *reader) boolean(to *bool) func(node, string) {
	return func(n node, p string) {
		switch {
		case n.kind == aBoolean:
			*to = strings.EqualFold(n.text, "true")
		case slices.Contains([]string{"yes", "no", "on", "off"}, strings.ToLower(n.text)):
			r.problem(p, "%s is text in YAML 1.2; write true or false", n.text)
		default:
			r.problem(p, "expected true or false, not %s", n.kind)
		}
	}
}

// count reads a whole number from 1.
func (r *reader) count(to *int) func(node, string) {
	return func(n node, p string) {
		v, err := strconv.Atoi(n.text)
		if n.kind != aNumber || err != nil || v < 1 || strconv.Itoa(v) != n.text {
			r.problem(p, "expected a whole number from 1, such as 3, not %s", describe(n))
			return
		}
		*to = v
	}
}

func (r *reader) duration(to *Duration) func(node, string) {
	return func(n node, p string) {
		switch {
		case n.kind == aNumber && n.text == "0":
			*to = 0
		case n.kind == aNumber:
			r.problem(p, `%s has no unit; write "%ss", "%sm" or "%sh"`, n.text, n.text, n.text, n.text)
		case n.kind != aText:
			r.problem(p, `expected a duration such as "15m", not %s`, n.kind)
		default:
			d, err := ParseDuration(n.text)
			if err != nil {
				r.problem(p, "%s", err.Error())
			}
			*to = d
		}
	}
}

func describe(n node) string {
	if n.text == "" {
		return string(n.kind)
	}
	return fmt.Sprintf("%q", clip(n.text, 40))
}
