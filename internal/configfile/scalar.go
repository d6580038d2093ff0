package configfile

import (
	"slices"
	"time"

	"github.com/goccy/go-yaml/ast"
	"github.com/prometheus/common/model"
)

// maxText is the most bytes of a text.
const maxText = 512

// RawText is the text that v is, of any length. What is wrong is the caller's to note.
func (v Value) RawText() (text string, ok bool) {
	switch n := v.node.(type) {
	case *ast.StringNode:
		return n.Value, true
	case *ast.LiteralNode:
		return n.Value.Value, true
	}
	return "", false
}

// Text is the text that v is, of 1 to 512 bytes.
func (v Value) Text() string {
	text, ok := v.RawText()
	switch {
	case !ok:
		v.Problem("expected text, not %s; put it in quotes", v.Kind())
	case text == "" || len(text) > maxText:
		v.Problem("the text has %d bytes; write 1 to %d", len(text), maxText)
		return ""
	}
	return text
}

// Texts is the texts of a list, each once; one alone needs no list.
func (v Value) Texts() []string {
	var texts []string
	for _, item := range v.OneOrList() {
		text := item.Text()
		if text != "" && slices.Contains(texts, text) {
			item.Problem("%q is here twice; keep one", text)
		}
		texts = append(texts, text)
	}
	return texts
}

// Bool is whether v is true.
func (v Value) Bool() bool {
	n, ok := v.node.(*ast.BoolNode)
	if !ok {
		v.Problem("expected true or false, not %s", v.Kind())
		return false
	}
	return n.Value
}

// Number is the whole number that v is, from 1 to most; without v it is otherwise.
func (v Value) Number(otherwise, most int) int {
	if n, ok := v.node.(*ast.IntegerNode); ok {
		if number, ok := n.Value.(uint64); ok && number >= 1 && number <= uint64(most) {
			return int(number)
		}
	}
	v.Problem("expected a whole number from 1 to %d", most)
	return otherwise
}

// Duration is the duration that v is, up to most; without v it is otherwise.
func (v Value) Duration(otherwise, most time.Duration) time.Duration {
	if n, ok := v.node.(*ast.IntegerNode); ok && n.Value == uint64(0) {
		return 0
	}
	text, ok := v.RawText()
	if !ok {
		v.Problem("expected a duration with a unit, such as 30s or 5m, not %s", v.Kind())
		return otherwise
	}
	d, err := ParseDuration(text)
	switch {
	case err != nil:
		v.Problem("%v", err)
	case d > most:
		v.Problem("%s is not within 0s and %s", text, model.Duration(most))
	default:
		return d
	}
	return otherwise
}
