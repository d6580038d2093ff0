package rules

import (
	"bytes"
	"context"
	"fmt"

	"deadman/rules/document"
)

// authorText returns the text of the document if it has more than the YAML of the document: comments, an order of the
// fields, a layout. It is left out if it does not read as the document by itself.
func (d parsedDocument) authorText(canonical []byte) string {
	if plain, err := d.YAML(); d.Text == "" || err == nil && string(plain) == d.Text {
		return ""
	}
	alone, problems := document.Read([]byte(d.Text))
	if len(problems) > 0 || len(alone) != 1 {
		return ""
	}
	if same, err := alone[0].Canonical(); err != nil || !bytes.Equal(same, canonical) {
		return ""
	}
	return d.Text
}

// Text returns a version as YAML: as its author wrote it, with comments, or of its document if it has no such text.
func (r *Registry) Text(ctx context.Context, v RuleVersion) ([]byte, error) {
	text, err := r.Store.Text(ctx, v.RuleID, v.Version)
	if err != nil || text != "" {
		return []byte(text), err
	}
	d, err := decodeDocument(v.Document)
	if err != nil {
		return nil, fmt.Errorf("rule %s version %d: %w", v.Name, v.Version, err)
	}
	return d.YAML()
}
