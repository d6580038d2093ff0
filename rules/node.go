package rules

// node is a value of a document with its place in the text, whichever the text's format.
type node struct {
	place
	kind   kind
	text   string  // of a scalar, as written
	fields []field // of a mapping, in order
	items  []node  // of a sequence
}

// place is where something stands in a text, both from 1.
type place struct{ line, column int }

type field struct {
	place
	name  string
	value node
}

type kind string

// The kinds of nodes, as messages name them.
const (
	aMapping  kind = "a mapping"
	aSequence kind = "a list"
	aText     kind = "text"
	aNumber   kind = "a number"
	aBoolean  kind = "a boolean"
	aNull     kind = "no value"
)
