package document

import (
	"encoding/json"
	"strings"

	"github.com/invopop/jsonschema"
)

// rawValue is a value that is kept as JSON.
type rawValue struct{ to *json.RawMessage }

func (v rawValue) read(r *reader, n node, pointer string) {
	var b strings.Builder
	v.write(r, n, pointer, &b)
	*v.to = json.RawMessage(b.String())
}

func (v rawValue) write(r *reader, n node, pointer string, b *strings.Builder) {
	switch n.kind {
	case aMapping:
		v.object(r, n, pointer, b)
	case aSequence:
		b.WriteByte('[')
		for i, item := range n.items {
			if i > 0 {
				b.WriteByte(',')
			}
			v.write(r, item, r.item(pointer, i, item), b)
		}
		b.WriteByte(']')
	case aText:
		b.WriteString(quotedJSON(n.text))
	case aBoolean:
		b.WriteString(strings.ToLower(n.text))
	case aNumber:
		if !json.Valid([]byte(n.text)) {
			r.problem(pointer, "%s is not a JSON number; write its digits, such as 1000 or 0.5, or quote it: %q", n.text, n.text)
			b.WriteString("0")
			return
		}
		b.WriteString(n.text)
	default:
		b.WriteString("null")
	}
}

func (v rawValue) object(r *reader, n node, pointer string, b *strings.Builder) {
	b.WriteByte('{')
	first := true
	r.each(n, pointer, func(f field, p string) {
		if !first {
			b.WriteByte(',')
		}
		first = false
		b.WriteString(quotedJSON(f.name) + ":")
		v.write(r, f.value, p, b)
	})
	b.WriteByte('}')
}

func (v rawValue) schema(jsonschema.Definitions) *jsonschema.Schema { return &jsonschema.Schema{} }
