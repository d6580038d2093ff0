package configfile

import (
	"bytes"
	"errors"
	"fmt"
	"time"
	"unicode/utf8"

	"github.com/prometheus/common/model"
)

// maxText is the maximum size of a text in bytes.
const maxText = 512

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
