package sources

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"

	"deadman/checks/lookup"
)

// object is what a service answered as one JSON object within the limits of lookup.
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
			return nil, errors.New("the answer is not JSON; an object such as {\"status\": \"SHIPPED\"} is wanted")
		case first && token != json.Delim('{'):
			return nil, errors.New("the answer is JSON and not an object; an object such as {\"status\": \"SHIPPED\"} is wanted")
		case !first && depth == 0:
			return nil, errors.New("there is more behind the object that is answered")
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

// errTooLong is of a key about which more is answered than one may find.
var errTooLong = fmt.Errorf("more than %d KiB are answered; ask for the few fields that the rule reads", lookup.MaxValue>>10)
