package bodies

// Fields calls found with the raw name, without quotes, and the raw value of each member of an object. Fields reports false if the
// data is not an object of valid JSON, is nested deeper than 64 levels, or found returns false.
func Fields(data []byte, found func(name, value []byte) bool) bool {
	s := scanner{data: data}
	return s.skip('{') && s.members(1, found) && s.isAtEnd()
}

// scanner finds the ends of JSON values, and accepts valid ones within maxDepth only.
type scanner struct {
	data []byte
	at   int
}

// space moves past white space.
func (s *scanner) space() {
	for s.at < len(s.data) {
		switch s.data[s.at] {
		case ' ', '\t', '\r', '\n':
			s.at++
		default:
			return
		}
	}
}

// skip moves past white space and a character, and reports whether the character is there.
func (s *scanner) skip(c byte) bool {
	s.space()
	if s.at == len(s.data) || s.data[s.at] != c {
		return false
	}
	s.at++
	return true
}

// isAtEnd reports whether only white space follows.
func (s *scanner) isAtEnd() bool {
	s.space()
	return s.at == len(s.data)
}

// value moves past white space and a value at a depth.
func (s *scanner) value(depth int) bool {
	s.space()
	if s.at == len(s.data) {
		return false
	}
	switch s.data[s.at] {
	case '"':
		return s.text()
	case '{':
		s.at++
		return depth < maxDepth && s.members(depth+1, nil)
	case '[':
		s.at++
		return depth < maxDepth && s.items(depth+1)
	case 't':
		return s.word("true")
	case 'f':
		return s.word("false")
	case 'n':
		return s.word("null")
	}
	return s.number()
}

func (s *scanner) word(word string) bool {
	if len(s.data)-s.at < len(word) || string(s.data[s.at:s.at+len(word)]) != word {
		return false
	}
	s.at += len(word)
	return true
}

// members moves past the rest of an object after its bracket. found may be nil.
func (s *scanner) members(depth int, found func(name, value []byte) bool) bool {
	if s.skip('}') {
		return true
	}
	for {
		s.space()
		from := s.at
		if !s.text() {
			return false
		}
		name := s.data[from+1 : s.at-1]
		if !s.skip(':') {
			return false
		}
		s.space()
		from = s.at
		if !s.value(depth) || found != nil && !found(name, s.data[from:s.at]) {
			return false
		}
		if !s.skip(',') {
			return s.skip('}')
		}
	}
}

// items moves past the rest of a list after its bracket.
func (s *scanner) items(depth int) bool {
	if s.skip(']') {
		return true
	}
	for s.value(depth) {
		if !s.skip(',') {
			return s.skip(']')
		}
	}
	return false
}

// text moves past a text.
func (s *scanner) text() bool {
	if s.at == len(s.data) || s.data[s.at] != '"' {
		return false
	}
	for i := s.at + 1; i < len(s.data); i++ {
		switch c := s.data[i]; {
		case c == '"':
			s.at = i + 1
			return true
		case c < ' ':
			return false
		case c == '\\':
			n := escapeLength(s.data[i+1:])
			if n == 0 {
				return false
			}
			i += n
		}
	}
	return false
}

// escapeLength returns the length of an escape sequence after its backslash; 0: it is invalid.
func escapeLength(rest []byte) int {
	if len(rest) == 0 {
		return 0
	}
	switch rest[0] {
	case '"', '\\', '/', 'b', 'f', 'n', 'r', 't':
		return 1
	case 'u':
		if len(rest) < 5 {
			return 0
		}
		for _, c := range rest[1:5] {
			if !isDigit(c) && (c|0x20 < 'a' || c|0x20 > 'f') {
				return 0
			}
		}
		return 5
	}
	return 0
}

func isDigit(c byte) bool { return c >= '0' && c <= '9' }

// digits moves past digits, and reports whether it found one.
func (s *scanner) digits() bool {
	from := s.at
	for s.at < len(s.data) && isDigit(s.data[s.at]) {
		s.at++
	}
	return s.at > from
}

// oneOf moves past one of two characters, and reports whether one is there.
func (s *scanner) oneOf(a, b byte) bool {
	if s.at == len(s.data) || s.data[s.at] != a && s.data[s.at] != b {
		return false
	}
	s.at++
	return true
}

// number moves past a number.
func (s *scanner) number() bool {
	s.oneOf('-', '-')
	if !s.oneOf('0', '0') && !s.digits() {
		return false
	}
	if s.oneOf('.', '.') && !s.digits() {
		return false
	}
	if s.oneOf('e', 'E') {
		s.oneOf('+', '-')
		return s.digits()
	}
	return true
}
