package bodies

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"slices"
)

// Merging is a state, decoded as far as patches touch it: many updates of a large state cost as much as their own
// bodies, and the state is decoded and encoded once. It implements futurejobs.Merging, and is not safe for
// concurrent use.
type Merging struct {
	root tree
	undo []func() // functions that revert the current patch
}

// NewMerging returns the state for updates to merge into. An empty state is an object without fields.
func NewMerging(known json.RawMessage) *Merging { return &Merging{root: tree{text: known}} }

// Patch applies the fields of a patch to known as a JSON merge patch (RFC 7396): objects are merged field by field, and a
// null field is removed. A patch that is no object replaces known.
func Patch(known, patch json.RawMessage) (json.RawMessage, error) {
	if !IsObject(patch) {
		return patch, nil
	}
	m := NewMerging(known)
	if _, err := m.patch(&m.root, patch); err != nil {
		return nil, err
	}
	return m.Text(), nil
}

// tree is a JSON value: its text, or its fields if it is an object that was decoded.
type tree struct {
	text   json.RawMessage
	fields map[string]*tree // nil: text counts
	size   int              // of the value's text, if it has fields
}

// Merge merges the fields of a patch. If it returns an error, the state is unchanged.
func (m *Merging) Merge(patch json.RawMessage) error {
	if !IsObject(patch) {
		return errors.New("update: the body is not an object, and only fields can be merged")
	}
	m.undo = m.undo[:0]
	_, err := m.patch(&m.root, patch)
	if err != nil {
		err = fmt.Errorf("update: %w", err)
	} else if m.root.size > MaxBytes {
		err = fmt.Errorf("update: the state would grow to %d bytes, the most is %d", m.root.size, MaxBytes)
	}
	if err != nil {
		for _, undo := range slices.Backward(m.undo) {
			undo()
		}
	}
	return err
}

// Text returns the state.
func (m *Merging) Text() json.RawMessage {
	if m.root.fields == nil {
		return m.root.text
	}
	return m.root.write(make([]byte, 0, m.root.size))
}

// patch merges an object into a value, and returns by how much its text has grown.
func (m *Merging) patch(t *tree, patch json.RawMessage) (grown int, err error) {
	var changes map[string]json.RawMessage
	if err := json.Unmarshal(patch, &changes); err != nil {
		return 0, err
	}
	before, was := *t, t.length()
	m.undo = append(m.undo, func() { *t = before })
	if err := t.takeApart(); err != nil {
		return 0, err
	}
	for name, change := range changes {
		if err := m.set(t, name, change); err != nil {
			return 0, err
		}
	}
	return t.length() - was, nil
}

// set replaces one field of an object, merges a change into it, or removes it.
func (m *Merging) set(t *tree, name string, change json.RawMessage) error {
	field, isThere := t.fields[name]
	switch {
	case string(change) == "null":
		if isThere {
			m.put(t, name, nil)
			t.size -= pairSize(name, field.length(), len(t.fields) > 0) // of the remaining fields
		}
		return nil
	case IsObject(change) && isThere:
		grown, err := m.patch(field, change)
		t.size += grown
		return err
	}
	value := &tree{}
	if IsObject(change) {
		value.text = json.RawMessage(`{}`)
		if _, err := m.patch(value, change); err != nil {
			return err
		}
	} else {
		text, err := json.Marshal(change)
		if err != nil {
			return err
		}
		value.text = text
	}
	if isThere {
		t.size += value.length() - field.length()
	} else {
		t.size += pairSize(name, value.length(), len(t.fields) > 0)
	}
	m.put(t, name, value)
	return nil
}

// put writes a field, or removes it, and records how to revert that.
func (m *Merging) put(t *tree, name string, value *tree) {
	fields := t.fields
	before, isThere := fields[name]
	m.undo = append(m.undo, func() {
		if isThere {
			fields[name] = before
		} else {
			delete(fields, name)
		}
	})
	if value == nil {
		delete(fields, name)
	} else {
		fields[name] = value
	}
}

// pairSize returns the length of a field in the text of an object; beside others it has a comma.
func pairSize(name string, value int, isBesideOthers bool) int {
	n := len(nameText(name)) + len(`:`) + value
	if isBesideOthers {
		n++
	}
	return n
}

func nameText(name string) []byte {
	text, err := json.Marshal(name)
	if err != nil {
		return []byte(`""`) // unreachable: a string is JSON
	}
	return text
}

// takeApart decodes a value's text into fields; a value that is no object has none.
func (t *tree) takeApart() error {
	if t.fields != nil {
		return nil
	}
	raw := map[string]json.RawMessage{}
	if IsObject(t.text) {
		if err := json.Unmarshal(t.text, &raw); err != nil {
			return err
		}
	}
	fields, size := make(map[string]*tree, len(raw)), len(`{}`)
	for name, text := range raw {
		compact, err := json.Marshal(text)
		if err != nil {
			return err
		}
		size += pairSize(name, len(compact), len(fields) > 0)
		fields[name] = &tree{text: compact}
	}
	*t = tree{fields: fields, size: size}
	return nil
}

// length returns how many bytes the text of a value has.
func (t *tree) length() int {
	if t.fields == nil {
		return len(t.text)
	}
	return t.size
}

// write appends the text of a value, with the fields of objects in the order of their names.
func (t *tree) write(to []byte) []byte {
	if t.fields == nil {
		return append(to, t.text...)
	}
	to = append(to, '{')
	for i, name := range slices.Sorted(maps.Keys(t.fields)) {
		if i > 0 {
			to = append(to, ',')
		}
		to = append(append(to, nameText(name)...), ':')
		to = t.fields[name].write(to)
	}
	return append(to, '}')
}

// IsObject reports whether valid JSON is an object.
func IsObject(text json.RawMessage) bool {
	return bytes.HasPrefix(bytes.TrimLeft(text, " \t\r\n"), []byte("{"))
}
