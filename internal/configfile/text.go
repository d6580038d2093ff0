package configfile

import (
	"bytes"
	"fmt"
	"unicode/utf8"
)

// MaxSize is the most bytes that a file may have.
const MaxSize = 256 << 10

// Text is data without a byte order mark, once it is seen to be lines of UTF-8. The problem
// is the first byte that is not.
func Text(data []byte) ([]byte, *Problem) {
	data = bytes.TrimPrefix(data, []byte("\ufeff"))
	for i := 0; i < len(data); {
		r, size := utf8.DecodeRune(data[i:])
		switch {
		case r == utf8.RuneError && size == 1 || r == 0:
			return nil, wrongByte(data, i, fmt.Sprintf("byte %#02x is not part of UTF-8 text; save the file as UTF-8", data[i]))
		case r == '\r' && !bytes.HasPrefix(data[i+1:], []byte("\n")): // of those a YAML lexer takes forever
			return nil, wrongByte(data, i, "a carriage return without a line feed after it; end lines with a line feed")
		}
		i += size
	}
	return data, nil
}

// wrongByte is a problem with the byte at i.
func wrongByte(data []byte, i int, message string) *Problem {
	line := bytes.LastIndexByte(data[:i], '\n') + 1
	return &Problem{
		Line: bytes.Count(data[:i], []byte("\n")) + 1, Column: utf8.RuneCount(data[line:i]) + 1, Message: message,
	}
}
