package configfile

import (
	"encoding/json"
	"strconv"

	"github.com/goccy/go-yaml/ast"
)

// jsonWriter writes values as JSON.
type jsonWriter struct{ text []byte }

func (w *jsonWriter) add(text string) { w.text = append(w.text, text...) }

func (w *jsonWriter) value(v Value) {
	if v.IsMapping() {
		w.object(v)
		return
	}
	switch n := v.node.(type) {
	case *ast.SequenceNode:
		w.list(v.items())
	case *ast.StringNode:
		w.text = appendText(w.text, n.Value)
	case *ast.LiteralNode:
		w.text = appendText(w.text, n.Value.Value)
	case *ast.BoolNode:
		w.add(strconv.FormatBool(n.Value))
	case *ast.NullNode, nil:
		w.add("null")
	default:
		w.number(v)
	}
}

func (w *jsonWriter) object(v Value) {
	entries, _ := v.entries("fields")
	w.add("{")
	for i, e := range entries {
		if i > 0 {
			w.add(",")
		}
		w.text = appendText(w.text, e.Name)
		w.add(":")
		w.value(e)
	}
	w.add("}")
}

func (w *jsonWriter) list(items []Value) {
	w.add("[")
	for i, item := range items {
		if i > 0 {
			w.add(",")
		}
		w.value(item)
	}
	w.add("]")
}

// number writes a number with its digits as they are written. YAML has other values, and numbers that JSON does not have.
func (w *jsonWriter) number(v Value) {
	text := v.node.GetToken().Value
	if !json.Valid([]byte(text)) {
		v.Problem("%s is no JSON value; write a number by its digits, such as 1000 or 0.5, or put it in quotes", Truncate(text, quoted))
		text = "null"
	}
	w.add(text)
}
