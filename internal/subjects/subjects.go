// Package subjects compares NATS subjects and patterns of them: tokens with dots between, where "*" stands for one token
// and ">" at the end for one or more.
package subjects

import (
	"fmt"
	"slices"
	"strings"
	"unicode"
)

// MaxBytes bounds a subject.
const MaxBytes = 255

// CheckForm says what is wrong with how a pattern is written, and what to write instead; nil where nothing is.
func CheckForm(pattern string) error {
	if len(pattern) > MaxBytes {
		return fmt.Errorf("the subject has %d bytes, the most is %d", len(pattern), MaxBytes)
	}
	tokens := strings.Split(pattern, ".")
	for i, token := range tokens {
		switch {
		case token == "":
			return fmt.Errorf("%q has an empty token; write tokens with single dots between, such as orders.created", pattern)
		case strings.ContainsFunc(token, func(r rune) bool { return unicode.IsSpace(r) || unicode.IsControl(r) }):
			return fmt.Errorf("%q has a space or a control character; a subject has none", pattern)
		case token == ">" && i < len(tokens)-1:
			return fmt.Errorf(`%q has ">" before its end; it stands for all that follows, so it must be last`, pattern)
		case len(token) > 1 && strings.ContainsAny(token, "*>"):
			return fmt.Errorf(`%q has a wildcard within a token; "*" and ">" are tokens of their own`, pattern)
		}
	}
	return nil
}

// OfServers reports whether a pattern is about subjects that NATS or deadman have for themselves.
func OfServers(pattern string) bool {
	first, _, _ := strings.Cut(pattern, ".")
	return strings.HasPrefix(first, "$") || strings.HasPrefix(first, "_INBOX") || OfDeadman(first)
}

// OfDeadman reports whether the first token of a subject is that of a deployment of deadman, with any namespace.
func OfDeadman(first string) bool {
	return first == subjectRoot || strings.HasPrefix(first, subjectRoot+"-")
}

// Check says what is wrong with a pattern of events' subjects, and what to write instead; nil where nothing is.
func Check(pattern string) error {
	if err := CheckForm(pattern); err != nil {
		return err
	}
	if OfServers(pattern) {
		return fmt.Errorf(`%q belongs to the servers ("$…", "_INBOX…" and "deadman…"); name another subject`, pattern)
	}
	return nil
}

// CheckLiteral is Check for the subject of one message, which has no wildcard.
func CheckLiteral(subject string) error {
	err := Check(subject)
	if err == nil && strings.ContainsAny(subject, "*>") {
		err = fmt.Errorf("%q has a wildcard; name one subject", subject)
	}
	return err
}

// Covers reports whether every subject of the pattern b is one of the pattern a.
func Covers(a, b string) bool {
	for {
		p, restA, moreA := strings.Cut(a, ".")
		q, restB, moreB := strings.Cut(b, ".")
		switch {
		case p == ">":
			return true
		case q == ">", p != "*" && p != q, moreA != moreB:
			return false
		case !moreA:
			return true
		}
		a, b = restA, restB
	}
}

// List is a list of patterns.
type List []string

// Cover reports whether one of the patterns covers a pattern. Patterns that cover it only together do not.
func (l List) Cover(pattern string) bool {
	return slices.ContainsFunc(l, func(a string) bool { return Covers(a, pattern) })
}

// Widened is the pattern of the subjects that a text comes to where each mark in it stands for a part of a token that is not
// known: a token with a mark is "*".
func Widened(text, mark string) string {
	tokens := strings.Split(text, ".")
	for i, token := range tokens {
		if strings.Contains(token, mark) {
			tokens[i] = "*"
		}
	}
	return strings.Join(tokens, ".")
}
