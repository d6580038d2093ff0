package document

import (
	"bytes"
	"encoding/json"
	"fmt"
	"unicode/utf8"

	"deadman/internal/configfile"
)

// readJSON returns the document of a JSON text that isJSONLike accepts.
func readJSON(text []byte) ([]node, Problems) {
	r := jsonReader{Decoder: json.NewDecoder(bytes.NewReader(text)), text: text, at: place{1, 1}}
	r.UseNumber()
	n, err := r.node(0)
	if err != nil {
		return nil, Problems{r.problem(err)}
	}
	return []node{n}, nil
}

// isJSONLike reports whether a text with this beginning is read as JSON. Flow YAML also begins with a brace, so the
// text must be JSON in fact.
func isJSONLike(text []byte) bool {
	text = bytes.TrimSpace(text)
	return len(text) > 0 && text[0] == '{' && json.Valid(text)
}

type jsonReader struct {
	*json.Decoder
	text []byte
	// at is the place of the byte at offset counted. Places are computed in the order of the text, and counted on from
	// the last one.
	at      place
	counted int
}

// next returns a token and the place of its beginning.
func (r *jsonReader) next() (json.Token, place, error) {
	from := int(r.InputOffset())
	from += len(r.text[from:]) - len(bytes.TrimLeft(r.text[from:], " \t\r\n,:"))
	tk, err := r.Token()
	return tk, r.place(from), err
}

// place returns the place of an offset in the text. An offset before the last one has the place of the last.
func (r *jsonReader) place(offset int) place {
	passed := r.text[r.counted:max(offset, r.counted)]
	r.counted += len(passed)
	if last := bytes.LastIndexByte(passed, '\n'); last >= 0 {
		r.at = place{r.at.line + bytes.Count(passed, []byte{'\n'}), 1}
		passed = passed[last+1:]
	}
	r.at.column += utf8.RuneCount(passed)
	return r.at
}

func (r *jsonReader) node(depth int) (node, error) {
	tk, at, err := r.next()
	if err != nil {
		return node{}, err
	}
	n := node{place: at}
	switch v := tk.(type) {
	case string:
		n.kind, n.text = aText, v
	case json.Number:
		n.kind, n.text = aNumber, v.String()
	case bool:
		n.kind, n.text = aBoolean, fmt.Sprint(v)
	case nil:
		n.kind = aNull
	case json.Delim:
		if depth == configfile.MaxNesting {
			return n, fmt.Errorf("nested deeper than %d levels; nothing here needs such depth", configfile.MaxNesting)
		}
		return r.inside(n, v, depth+1)
	}
	return n, nil
}

// inside reads the values between the brackets that n begins with.
func (r *jsonReader) inside(n node, open json.Delim, depth int) (node, error) {
	n.kind = aSequence
	if open == '{' {
		n.kind = aMapping
	}
	for r.More() {
		var f field
		if n.kind == aMapping {
			name, at, err := r.next()
			if err != nil {
				return n, err
			}
			f.name, f.place = name.(string), at
		}
		value, err := r.node(depth)
		if err != nil {
			return n, err
		}
		if n.kind == aMapping {
			f.value = value
			n.fields = append(n.fields, f)
		} else {
			n.items = append(n.items, value)
		}
	}
	_, err := r.Token()
	return n, err
}

func (r *jsonReader) problem(err error) Problem {
	at := r.place(min(int(r.InputOffset()), len(r.text)))
	return Problem{Line: at.line, Column: at.column, Message: err.Error()}
}
