package store

import (
	"bytes"
	"encoding/json"
	"fmt"

	futurejobs "deadman/future_jobs"
)

// ordering reads what a job remembers of the order of events.
type ordering struct{ order **futurejobs.Order }

// Scan implements sql.Scanner.
func (o ordering) Scan(src any) error {
	*o.order = nil
	return fromText(src, o.order)
}

// endings reads the ends that are remembered of a key.
type endings struct{ ends *[]futurejobs.Ending }

// Scan implements sql.Scanner.
func (e endings) Scan(src any) error {
	*e.ends = nil
	return fromText(src, e.ends)
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
func endsOf(e futurejobs.Early) (*string, error) {
	if len(e.Ends) == 0 || len(e.Ends) == 1 && e.Ends[0].From.IsZero() && e.Ends[0].At.Equal(e.At) {
		return nil, nil
	}
	return toText(e.Ends)
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
