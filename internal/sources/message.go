package sources

import (
	"bytes"
	"encoding/json"
	"errors"
	"strings"
)

// decodeAnswer is what a message says of an entity; nil: it is null, and there is no such entity.
func decodeAnswer(data []byte) (json.RawMessage, error) {
	switch text := bytes.TrimSpace(data); {
	case len(text) == 0:
		return nil, errors.New("the answer is empty; where there is no such entity it is null")
	case string(text) == "null":
		return nil, nil
	default:
		return object(text)
	}
}

// clipMost is how much is quoted of what somebody else wrote, in bytes.
const clipMost = 200

func clip(text string) string {
	if len(text) <= clipMost {
		return text
	}
	return strings.ToValidUTF8(text[:clipMost], "") + "…"
}
