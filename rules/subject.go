package rules

import (
	"fmt"
	"strings"

	"deadman/internal/subjects"
)

// checkSubject returns why a subject of a rule is invalid; "" if it is valid.
func checkSubject(s string) string {
	if err := subjects.CheckForm(s); err != nil {
		return err.Error()
	}
	if s == ">" || subjects.OfServers(s) {
		return fmt.Sprintf(`%q is never listened to (">", "$…", "_INBOX…" and "deadman…" are the servers' own); name the subject of your events`, clip(s, 80))
	}
	return ""
}

// matches reports whether a subject without wildcards matches the pattern.
func matches(pattern, subject string) bool { return subjects.Covers(pattern, subject) }

// wildcardsIn returns how many wildcards the pattern has.
func wildcardsIn(pattern string) int {
	n := 0
	for token := range strings.SplitSeq(pattern, ".") {
		if token == "*" || token == ">" {
			n++
		}
	}
	return n
}

// wildcards returns the tokens that the pattern's wildcards match in the subject, in order; for ">", all that follow,
// with their dots. The subject has to match the pattern.
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
