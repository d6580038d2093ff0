package rules

import "strings"

// trie finds the values of the patterns that a subject matches. Its cost grows with the tokens of the subject, not with
// the number of patterns. It is immutable once built.
type trie[T any] struct {
	next map[string]*trie[T] // by token, wildcards included
	here []T                 // of patterns that end here
	rest []T                 // of patterns that go on with ">"
}

func (t *trie[T]) add(pattern string, v T) {
	for pattern != "" {
		var token string
		token, pattern, _ = strings.Cut(pattern, ".")
		if token == ">" {
			t.rest = append(t.rest, v)
			return
		}
		if t.next == nil {
			t.next = make(map[string]*trie[T])
		}
		if t.next[token] == nil {
			t.next[token] = &trie[T]{}
		}
		t = t.next[token]
	}
	t.here = append(t.here, v)
}

// match calls found for the values of each pattern that the subject matches. A subject with a token "*" may find one
// twice.
func (t *trie[T]) match(subject string, found func(T)) {
	for _, v := range t.rest {
		found(v)
	}
	token, rest, more := strings.Cut(subject, ".")
	for _, name := range [2]string{token, "*"} {
		next := t.next[name]
		if next == nil {
			continue
		}
		if more {
			next.match(rest, found)
			continue
		}
		for _, v := range next.here {
			found(v)
		}
	}
}
