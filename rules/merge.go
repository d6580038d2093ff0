package rules

import (
	"encoding/json"
	"errors"
	"fmt"
)

// merge puts the fields of news over what is known, as a JSON merge patch does (RFC 7396):
// objects are merged field by field, and a field that is null goes away.
func merge(known, news json.RawMessage) (json.RawMessage, error) {
	if !isObject(news) {
		return nil, errors.New("update: the body is not an object, and only fields can be merged")
	}
	merged, err := patch(known, news)
	if err != nil {
		return nil, fmt.Errorf("update: %w", err)
	}
	if len(merged) > MaxBody {
		return nil, fmt.Errorf("update: what is known would grow to %d bytes, the most is %d", len(merged), MaxBody)
	}
	return merged, nil
}

func patch(known, news json.RawMessage) (json.RawMessage, error) {
	if !isObject(news) {
		return news, nil
	}
	fields := make(map[string]json.RawMessage)
	if isObject(known) {
		if err := json.Unmarshal(known, &fields); err != nil {
			return nil, err
		}
	}
	var changes map[string]json.RawMessage
	if err := json.Unmarshal(news, &changes); err != nil {
		return nil, err
	}
	for name, change := range changes {
		if string(change) == "null" {
			delete(fields, name)
			continue
		}
		merged, err := patch(fields[name], change)
		if err != nil {
			return nil, err
		}
		fields[name] = merged
	}
	return json.Marshal(fields)
}

// isObject reports whether valid JSON is an object.
func isObject(text json.RawMessage) bool {
	for _, c := range text {
		switch c {
		case ' ', '\t', '\r', '\n':
			continue
		}
		return c == '{'
	}
	return false
}
