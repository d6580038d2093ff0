package rules

import (
	"fmt"
	"strings"
	"unicode"
)

// maxSubject bounds a subject, in bytes.
const maxSubject = 255

// checkSubject says what is wrong with a subject that a rule listens to; "" when nothing is.
func checkSubject(s string) string {
	if len(s) > maxSubject {
		return fmt.Sprintf("the subject has %d bytes, the most is %d", len(s), maxSubject)
	}
	tokens := strings.Split(s, ".")
	for i, token := range tokens {
		switch {
		case token == "":
			return fmt.Sprintf("%q has an empty token; write tokens with single dots between, such as orders.created", clip(s, 80))
		case strings.ContainsFunc(token, func(r rune) bool { return unicode.IsSpace(r) || unicode.IsControl(r) }):
			return fmt.Sprintf("%q has a space in it; a subject has none", clip(s, 80))
		case token == ">" && i < len(tokens)-1:
			return fmt.Sprintf(`%q has ">" before its end; it stands for all that follows, so it has to be last`, clip(s, 80))
		case len(token) > 1 && strings.ContainsAny(token, "*>"):
			return fmt.Sprintf(`%q has a wildcard within a token; "*" and ">" are tokens of their own`, clip(s, 80))
		}
	}
	if s == ">" || strings.HasPrefix(s, "$") || strings.HasPrefix(s, "_INBOX") || tokens[0] == "deadman" {
		return fmt.Sprintf(`%q is never listened to (">", "$…", "_INBOX…" and "deadman.…" are the servers' own); name the subject of your events`, clip(s, 80))
	}
	return ""
}

// matches reports whether a subject without wildcards is one of the pattern's.
func matches(pattern, subject string) bool {
	for {
		p, restP, moreP := strings.Cut(pattern, ".")
		s, restS, moreS := strings.Cut(subject, ".")
		switch {
		case p == ">":
			return true
		case p != "*" && p != s:
			return false
		case moreP != moreS:
			return false
		case !moreP:
			return true
		}
		pattern, subject = restP, restS
	}
}

// wildcardsIn is how many wildcards the pattern has.
func wildcardsIn(pattern string) int {
	n := 0
	for token := range strings.SplitSeq(pattern, ".") {
		if token == "*" || token == ">" {
			n++
		}
	}
	return n
}

// wildcards are the tokens that the pattern's wildcards match in the subject, in order; all
// that follow, with their dots, for ">". The subject has to be one of the pattern's.
func wildcards(pattern, subject string) []string {
	var tokens []string
	for {
		p, restP, moreP := strings.Cut(pattern, ".")
		s, restS, _ := strings.Cut(subject, ".")
		switch p {
		case ">":
			return append(tokens, subject)
		case "*":
			tokens = append(tokens, s)
		}
		if !moreP {
			return tokens
		}
		pattern, subject = restP, restS
	}
}
