package sources

import (
	"encoding/json"
	"fmt"
	"strconv"
	"strings"
	"time"

	"deadman/checks/lookup"
)

// singleStatement returns the single statement of an SQL text, without its terminator, and its number of parameters:
// the highest n of $n. It is for databases that would execute several statements in sequence.
func singleStatement(text string) (statement string, params int, err error) {
	end := -1 // end of the statement
	for i := 0; i < len(text); {
		size, blank := tokenLen(text[i:])
		token := text[i : i+size]
		switch {
		case blank:
		case end >= 0:
			return "", 0, fmt.Errorf("%w: the query has more than one statement; write one", lookup.ErrQuestion)
		case token == ";":
			end = i
		case token[0] == '$':
			n, err := strconv.Atoi(token[1:])
			if err != nil || n < 1 {
				return "", 0, fmt.Errorf("%w: %q is not a parameter; parameters are $1, $2 and so on", lookup.ErrQuestion, token)
			}
			params = max(params, n)
		case token == "?", token[0] == ':' && size > 1, token[0] == '@':
			return "", 0, fmt.Errorf("%w: %q is not a parameter here; write $1, $2 and so on", lookup.ErrQuestion, token)
		}
		i += size
	}
	if end < 0 {
		end = len(text)
	}
	return text[:end], params, nil
}

// tokenLen returns the size of the token at the beginning of an SQL text, by SQLite's rules
// (https://www.sqlite.org/lang_expr.html, https://www.sqlite.org/lang_comment.html), and whether it is blank or a
// comment. It does not distinguish words from numbers.
func tokenLen(text string) (size int, blank bool) {
	switch c := text[0]; {
	case c == ' ' || c == '\t' || c == '\n' || c == '\r' || c == '\f':
		return 1, true
	case strings.HasPrefix(text, "--"):
		return lenThrough(text, 2, "\n"), true
	case strings.HasPrefix(text, "/*"):
		return lenThrough(text, 2, "*/"), true
	case c == '[':
		return lenThrough(text, 1, "]"), false
	case c == '\'' || c == '"' || c == '`': // a doubled quote counts as two adjacent tokens
		return lenThrough(text, 1, text[:1]), false
	case c == '$' || c == ':' || c == '@':
		return 1 + word(text[1:]), false
	case inWord(c):
		return word(text), false
	}
	return 1, false
}

// lenThrough returns the size up to and including an end, or to the end of the text.
func lenThrough(text string, from int, end string) int {
	if i := strings.Index(text[from:], end); i >= 0 {
		return from + i + len(end)
	}
	return len(text)
}

func word(text string) int {
	n := 0
	for n < len(text) && (inWord(text[n]) || text[n] == '$') {
		n++
	}
	return n
}

func inWord(c byte) bool {
	return c == '_' || c >= 0x80 || '0' <= c && c <= '9' || 'a' <= c && c <= 'z' || 'A' <= c && c <= 'Z'
}

// asText encodes a parameter as text; the database converts it to the parameter's type. nil is null.
func asText(param any) ([]byte, error) {
	switch v := param.(type) {
	case nil:
		return nil, nil
	case bool:
		return strconv.AppendBool(nil, v), nil
	case int:
		return strconv.AppendInt(nil, int64(v), 10), nil
	case float64:
		return strconv.AppendFloat(nil, v, 'f', -1, 64), nil
	case json.Number:
		return []byte(v), nil
	case string:
		return []byte(v), nil
	case time.Time:
		return v.UTC().AppendFormat(nil, time.RFC3339Nano), nil
	}
	return nil, fmt.Errorf("a %T cannot be a parameter; use text, a number, a boolean or an instant", param)
}
