package rules_test

import (
	"errors"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"

	"deadman/rules"
	"deadman/rules/document"
)

// The forms of proposals in problems: how to quote a value, another name for one, and a whole field to write.
var (
	quoteProposal = regexp.MustCompile(`quote (?:it|the whole expression|the whole value): ("(?:[^"\\]|\\.)*")`)
	nameProposal  = regexp.MustCompile(`(?:unknown|has no|is no|is not)[^"]*"([^"]+)"; did you mean "([^"]+)"`)
	fieldProposal = regexp.MustCompile(`(?:write:? )((?:trigger|resolve|escalate|update|pause|lookup|labels|slot|entity|name): .+)$`)
)

// proposed returns the document with the proposal of a problem applied, or "" if the problem has none of the forms. name is
// the proposed name, if it is one.
func proposed(text string, p document.Problem) (changed, name string) {
	lines := strings.SplitAfter(text, "\n")
	at := 0
	for _, line := range lines[:p.Line-1] {
		at += len(line)
	}
	at += p.Column - 1
	replace := func(old, by string) string {
		before, after, found := strings.Cut(text[at:], old)
		if !found {
			return ""
		}
		return text[:at] + before + by + after
	}
	switch {
	case quoteProposal.MatchString(p.Message):
		quoted := quoteProposal.FindStringSubmatch(p.Message)[1]
		plain, err := strconv.Unquote(quoted)
		if err != nil {
			return "", ""
		}
		return replace(plain, quoted), ""
	case nameProposal.MatchString(p.Message):
		names := nameProposal.FindStringSubmatch(p.Message)
		return replace(names[1], names[2]), names[2]
	case fieldProposal.MatchString(p.Message):
		return applyEdit(text, fieldProposal.FindStringSubmatch(p.Message)[1]), ""
	}
	return "", ""
}

// A proposal of a problem is accepted: with it, the document has no problem at the place; for a proposed name, none that is
// about the name.
func TestProposalsAreAccepted(t *testing.T) {
	tried := 0
	for _, c := range slices.Concat(badDocuments, badMeanings) {
		var problems document.Problems
		if _, err := rules.Parse([]byte(c.text), "bad.yaml"); !errors.As(err, &problems) {
			continue
		}
		for _, p := range problems {
			text, name := proposed(c.text, p)
			if text == "" {
				continue
			}
			tried++
			var left document.Problems
			_, err := rules.Parse([]byte(text), "proposed.yaml")
			errors.As(err, &left)
			for _, after := range left {
				if after.Pointer == p.Pointer && (name == "" || strings.Contains(after.Message, strconv.Quote(name))) {
					t.Errorf("%s: %s\nwith the proposal:\n%s\nis refused: %s", c.name, p.Message, text, after.Message)
				}
			}
		}
	}
	if tried < 30 {
		t.Errorf("%d proposals were tried, want at least 30", tried)
	}
	t.Logf("%d proposals", tried)
}
