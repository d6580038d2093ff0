package rules

import (
	"encoding/json"
	"errors"
	"fmt"
	"maps"
)

// mergeFound is what is known once a source was asked: what it found merged over what was known
// before, as a JSON merge patch (RFC 7396). nil: there is no such entity, and nothing is known.
func (b *body) mergeFound(found json.RawMessage) *body {
	if found == nil {
		return &body{gone: true}
	}
	return &body{data: found, under: b}
}

var errFoundNoObject = errors.New("what the source found is not an object")

// checkFound says what is wrong with what a source found.
func (b *body) checkFound() error {
	if err := b.check(); err != nil {
		return fmt.Errorf("what the source found can't be read: %w", err)
	}
	if !isObject(b.data) {
		return errFoundNoObject
	}
	return nil
}

// mergedValue is value for a body that lies over another.
func (b *body) mergedValue(literal bool) (any, error) {
	if err := b.checkFound(); err != nil {
		return nil, err
	}
	var known any
	if b.under.size() > 0 {
		var err error
		if known, err = b.under.value(literal, fieldSet{whole: true}); err != nil {
			return nil, err
		}
	}
	d := decoder{data: b.data, literal: literal}
	news, err := d.value()
	if err != nil {
		return nil, err
	}
	return patchValue(known, news), nil
}

// patchValue is patch for JSON that was read. What is known stays as it is.
func patchValue(known, news any) any {
	changes, is := news.(map[string]any)
	if !is {
		return news
	}
	before, _ := known.(map[string]any)
	fields := make(map[string]any, len(before)+len(changes))
	maps.Copy(fields, before)
	for name, change := range changes {
		if change == nil {
			delete(fields, name)
			continue
		}
		fields[name] = patchValue(fields[name], change)
	}
	return fields
}

// merged is the body as JSON; null where there is no such entity.
func (b *body) merged() (json.RawMessage, error) {
	switch {
	case b.gone:
		return json.RawMessage("null"), nil
	case b.under == nil:
		return b.data, nil
	}
	if err := b.checkFound(); err != nil {
		return nil, err
	}
	return patch(b.under.data, b.data)
}
