package document

import (
	"encoding/json"
	"regexp"
	"slices"
	"strings"
)

// YAML returns the document as authors write it: the fields in their order, defaults left out, and a list with one
// event as that event. Read reads the same document from it.
func (d Document) YAML() ([]byte, error) {
	written, err := d.node()
	if err != nil {
		return nil, err
	}
	defaults, err := d.defaults().node()
	if err != nil {
		return nil, err
	}
	var w writer
	w.mapping(pruned(written, defaults), 0)
	return []byte(w.String()), nil
}

// node returns the document as its canonical JSON has it.
func (d Document) node() (node, error) {
	text, err := d.Canonical()
	if err != nil {
		return node{}, err
	}
	nodes, problems := readJSON(text)
	if err := problems.OrNil(); err != nil {
		return node{}, err
	}
	return nodes[0], nil
}

// defaults returns the values of the fields that d omits.
func (d Document) defaults() Document {
	b := New()
	b.CatchUp.After, b.Guards.MaxChecks, b.Hold, b.Again = d.catchUp(), d.defaultMaxChecks(), d.holdDuration(), d.again()
	for i := range d.Escalate {
		b.Escalate = append(b.Escalate, blankStep(i))
	}
	return b
}

// pruned returns a mapping without the fields that a reader fills in by itself.
func pruned(n, defaults node) node {
	var kept []field
	for _, f := range n.fields {
		i := slices.IndexFunc(defaults.fields, func(d field) bool { return d.name == f.name })
		switch {
		case i < 0:
			f.value = single(f)
		case f.value.kind == aMapping:
			f.value = pruned(f.value, defaults.fields[i].value)
		case f.value.kind == aSequence:
			f.value = prunedItems(f.value, defaults.fields[i].value)
		case f.value.text == defaults.fields[i].value.text:
			continue
		}
		if f.value.kind != aMapping || len(f.value.fields) > 0 {
			kept = append(kept, f)
		}
	}
	n.fields = kept
	return n
}

func prunedItems(n, defaults node) node {
	items := make([]node, len(n.items))
	for i, v := range n.items {
		items[i] = pruned(v, defaults.items[i])
	}
	n.items = items
	return n
}

// single returns a list of one event as the event.
func single(f field) node {
	if slices.Contains([]string{"update", "resolve", "pause"}, f.name) && len(f.value.items) == 1 {
		return f.value.items[0]
	}
	return f.value
}

// writer writes YAML in blocks, each indented by two columns.
type writer struct{ strings.Builder }

func (w *writer) mapping(n node, depth int) {
	for _, f := range n.fields {
		w.WriteString(strings.Repeat("  ", depth))
		w.field(f, depth)
	}
}

func (w *writer) field(f field, depth int) {
	w.WriteString(quoted(f.name) + ":")
	switch {
	case len(f.value.fields) > 0:
		w.WriteString("\n")
		w.mapping(f.value, depth+1)
	case len(f.value.items) > 0:
		w.WriteString("\n")
		w.list(f.value, depth+1)
	default:
		w.WriteString(" " + scalar(f.value) + "\n")
	}
}

func (w *writer) list(n node, depth int) {
	for _, item := range n.items {
		w.WriteString(strings.Repeat("  ", depth) + "- ")
		if item.kind != aMapping {
			w.WriteString(scalar(item) + "\n")
			continue
		}
		for i, f := range item.fields {
			if i > 0 {
				w.WriteString(strings.Repeat("  ", depth+1))
			}
			w.field(f, depth+1)
		}
		if len(item.fields) == 0 {
			w.WriteString("{}\n")
		}
	}
}

// scalar returns a value on one line.
func scalar(n node) string {
	switch {
	case n.kind == aText:
		return quoted(n.text)
	case n.kind == aMapping:
		return "{}"
	case n.kind == aSequence:
		return "[]"
	}
	return n.text
}

var (
	// bare matches text that YAML reads as it is: it begins with a letter, has no character with a meaning before or
	// after a space, and is no reserved word.
	bare     = regexp.MustCompile(`^[A-Za-z_][A-Za-z0-9_./@*>()-]*( [A-Za-z0-9_./@=<>()+*"'$?|-]+)*$`)
	bareSpan = regexp.MustCompile(`^([0-9]+(d|h|m|s|ms))+$`)
	words    = []string{"true", "false", "null", "yes", "no", "on", "off", "y", "n"}
)

// quoted returns text as it is if YAML reads it so, and in quotes otherwise.
func quoted(s string) string {
	if bareSpan.MatchString(s) || bare.MatchString(s) && !slices.Contains(words, strings.ToLower(s)) {
		return s
	}
	return quotedJSON(s)
}

// quotedJSON returns text as a JSON string.
func quotedJSON(s string) string {
	var b strings.Builder
	e := json.NewEncoder(&b)
	e.SetEscapeHTML(false)
	if err := e.Encode(s); err != nil { // text is never an error
		panic(err)
	}
	return strings.TrimSuffix(b.String(), "\n")
}
