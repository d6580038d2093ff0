package sources

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"slices"

	"deadman/checks/lookup"
)

// checkColumns returns an error for invalid result columns. The names are as reported by the database.
func checkColumns(columns []lookup.Column) error {
	if len(columns) == 0 {
		return fmt.Errorf("%w: the statement returns no columns; write a query such as select status from orders where id = $1", lookup.ErrQuestion)
	}
	names := make([]string, len(columns))
	for i, c := range columns {
		switch {
		case c.Name == "" || c.Name == "?column?":
			return fmt.Errorf("%w: column %d has no name; give it one with as, such as now() as asked_at", lookup.ErrQuestion, i+1)
		case slices.Contains(names[:i], c.Name):
			return fmt.Errorf("%w: two columns are named %s; give one of them another name with as", lookup.ErrQuestion, c.Name)
		}
		names[i] = c.Name
	}
	return nil
}

// row builds a JSON object from the names and values of a row, all encoded as JSON.
func row(names, values []json.RawMessage) (json.RawMessage, error) {
	size := 2
	for i := range names {
		size += len(names[i]) + len(values[i]) + 2
	}
	if size > lookup.MaxValue {
		return nil, errTooLong
	}
	o := append(make([]byte, 0, size), '{')
	for i := range names {
		if i > 0 {
			o = append(o, ',')
		}
		o = append(append(append(o, names[i]...), ':'), values[i]...)
	}
	return append(o, '}'), nil
}

// quoted encodes text as JSON.
func quoted(text string) json.RawMessage {
	b, err := json.Marshal(text)
	if err != nil {
		panic(err) // text can always be encoded
	}
	return b
}

// severalRows returns the error of a key with more than one row, as the intended row is ambiguous.
func severalRows(rows string) error {
	return fmt.Errorf("the query returned %s rows for one key; narrow it down, or select one row with order by … limit 1", rows)
}

// wrongCount returns the error of a question with a wrong number of parameters.
func wrongCount(has, given int) error {
	return fmt.Errorf("%w: the query has %d parameters and gets %d; write an expression in params for each of $1, $2 and so on; without params $1 is the key", lookup.ErrQuestion, has, given)
}

// object validates a response as one JSON object within the limits of package lookup.
func object(answer []byte) (json.RawMessage, error) {
	if len(answer) > lookup.MaxValue {
		return nil, errTooLong
	}
	d := json.NewDecoder(bytes.NewReader(answer))
	depth := 0
	for first := true; ; first = false {
		token, err := d.Token()
		switch {
		case errors.Is(err, io.EOF) && !first && depth == 0:
			return answer, nil
		case err != nil:
			return nil, errors.New("the answer is not JSON; answer with an object such as {\"status\": \"SHIPPED\"}")
		case first && token != json.Delim('{'):
			return nil, errors.New("the answer is JSON but not an object; answer with an object such as {\"status\": \"SHIPPED\"}")
		case !first && depth == 0:
			return nil, errors.New("the answer has data after the object")
		}
		switch token {
		case json.Delim('{'), json.Delim('['):
			depth++
		case json.Delim('}'), json.Delim(']'):
			depth--
		}
		if depth > lookup.MaxDepth {
			return nil, fmt.Errorf("the answer has more than %d levels of JSON", lookup.MaxDepth)
		}
	}
}

// errTooLong is the error of a key with a result above the limit.
var errTooLong = fmt.Errorf("the answer is larger than %d KiB; select only the fields that the rule reads", lookup.MaxValue>>10)
