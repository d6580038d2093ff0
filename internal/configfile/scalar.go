package configfile

import (
	"bytes"
	"errors"
	"fmt"
	"slices"
	"time"
	"unicode/utf8"

	"github.com/goccy/go-yaml/ast"
	"github.com/prometheus/common/model"
)

// maxText is the maximum size of a text in bytes.
const maxText = 512

// RawText returns v as text of any length. The caller reports problems.
func (v Value) RawText() (text string, ok bool) {
	switch n := v.node.(type) {
	case *ast.StringNode:
		return n.Value, true
	case *ast.LiteralNode:
		return n.Value.Value, true
	}
	return "", false
}

// Text returns v as text of 1 to 512 bytes.
func (v Value) Text() string {
	text, ok := v.RawText()
	switch {
	case !ok:
		v.Problem("expected text, not %s; put it in quotes", v.Kind())
	case text == "" || len(text) > maxText:
		v.Problem("the text has %d bytes; write 1 to %d", len(text), maxText)
		return ""
	}
	return text
}

// Texts returns the texts of a list without duplicates; a single text needs no list.
func (v Value) Texts() []string {
	var texts []string
	for _, item := range v.OneOrList() {
		text := item.Text()
		if text != "" && slices.Contains(texts, text) {
			item.Problem("%q is here twice; keep one", text)
		}
		texts = append(texts, text)
	}
	return texts
}

// Bool returns v as a boolean.
func (v Value) Bool() bool {
	n, ok := v.node.(*ast.BoolNode)
	if !ok {
		v.Problem("expected true or false, not %s", v.Kind())
		return false
	}
	return n.Value
}

// Number returns v as a whole number from 1 to most; otherwise is the default.
func (v Value) Number(otherwise, most int) int {
	if n, ok := v.node.(*ast.IntegerNode); ok {
		if number, ok := n.Value.(uint64); ok && number >= 1 && number <= uint64(most) {
			return int(number)
		}
	}
	v.Problem("expected a whole number from 1 to %d", most)
	return otherwise
}

// Duration returns v as a duration up to most; otherwise is the default.
func (v Value) Duration(otherwise, most time.Duration) time.Duration {
	if n, ok := v.node.(*ast.IntegerNode); ok && n.Value == uint64(0) {
		return 0
	}
	text, ok := v.RawText()
	if !ok {
		v.Problem("expected a duration with a unit, such as 30s or 5m, not %s", v.Kind())
		return otherwise
	}
	d, err := ParseDuration(text)
	switch {
	case err != nil:
		v.Problem("%v", err)
	case d > most:
		v.Problem("%s is not within 0s and %s", text, model.Duration(most))
	default:
		return d
	}
	return otherwise
}

// ErrDuration describes the form of a duration.
var ErrDuration = errors.New(`write a number with a unit, such as "90s", "15m", "1h30m" or "7d"`)

// ParseDuration parses a duration of years (y), weeks (w), days (d), h, m, s and ms, in this order. The error is
// ErrDuration.
func ParseDuration(s string) (time.Duration, error) {
	d, err := model.ParseDuration(s)
	if err != nil {
		return 0, fmt.Errorf("%q is not a duration; %w", Truncate(s, quoted), ErrDuration)
	}
	return time.Duration(d), nil
}

// MaxSize is the maximum size of a file in bytes.
const MaxSize = 256 << 10

// Text returns data without a byte order mark after checking that it is lines of UTF-8. The problem is at the first
// invalid byte.
func Text(data []byte) ([]byte, *Problem) {
	data = bytes.TrimPrefix(data, []byte("\ufeff"))
	for i := 0; i < len(data); {
		r, size := utf8.DecodeRune(data[i:])
		switch {
		case r == utf8.RuneError && size == 1 || r == 0:
			return nil, wrongByte(data, i, fmt.Sprintf("byte %#02x is not part of UTF-8 text; save the file as UTF-8", data[i]))
		case r == '\r' && !bytes.HasPrefix(data[i+1:], []byte("\n")): // a YAML lexer takes quadratic time for these
			return nil, wrongByte(data, i, "a carriage return without a line feed after it; end lines with a line feed")
		}
		i += size
	}
	return data, nil
}

// wrongByte returns a problem at byte i.
func wrongByte(data []byte, i int, message string) *Problem {
	line := bytes.LastIndexByte(data[:i], '\n') + 1
	return &Problem{
		Line: bytes.Count(data[:i], []byte("\n")) + 1, Column: utf8.RuneCount(data[line:i]) + 1, Message: message,
	}
}
