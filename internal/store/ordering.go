package store

import (
	"bytes"
	"encoding/json"
	"fmt"

	futurejobs "deadman/future_jobs"
)

// asJSON reads what is kept as JSON; NULL is the zero value.
type asJSON[T any] struct{ into *T }

// Scan implements sql.Scanner.
func (j asJSON[T]) Scan(src any) error {
	var zero T
	*j.into = zero
	return fromText(src, j.into)
}

// fromText reads a JSON text into v, and leaves v where there is none.
func fromText(src, v any) error {
	switch text := src.(type) {
	case nil:
		return nil
	case string:
		return json.Unmarshal([]byte(text), v)
	case []byte:
		return json.Unmarshal(text, v)
	}
	return fmt.Errorf("%T is no JSON text", src)
}

// orderingOf is what a job remembers of the order of events as it is kept; nil: nothing.
func orderingOf(o *futurejobs.Order) (*string, error) {
	if o == nil {
		return nil, nil
	}
	return toText(o)
}

// endsOf are the ends that are remembered of a key as they are kept; nil: the columns of the last end say all.
func endsOf(e futurejobs.EarlyEvent) (*string, error) {
	if len(e.Ends) == 0 || len(e.Ends) == 1 && e.Ends[0].From.IsZero() && e.Ends[0].At.Equal(e.At) {
		return nil, nil
	}
	return toText(e.Ends)
}

// changesOf are the changes that are remembered of a key as they are kept; nil: none are.
func changesOf(e futurejobs.EarlyEvent) (*string, error) {
	if len(e.Changes) == 0 {
		return nil, nil
	}
	return toText(e.Changes)
}

// toText is v as JSON that leaves the bodies of events as they are.
func toText(v any) (*string, error) {
	var b bytes.Buffer
	e := json.NewEncoder(&b)
	e.SetEscapeHTML(false)
	if err := e.Encode(v); err != nil {
		return nil, err
	}
	text := document(bytes.TrimSuffix(b.Bytes(), []byte("\n")))
	return &text, nil
}
