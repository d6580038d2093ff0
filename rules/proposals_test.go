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

// The forms of proposals in problems: how to quote a value, another name for one, a whole field to write, another spelling,
// and a condition to remove.
var (
	quoteProposal    = regexp.MustCompile(`quote (?:it|the whole expression|the whole value): ("(?:[^"\\]|\\.)*")`)
	nameProposal     = regexp.MustCompile(`(?:unknown|has no|is no|is not)[^"]*"([^"]+)"; did you mean "([^"]+)"`)
	fieldProposal    = regexp.MustCompile(`(?:write:? )((?:trigger|resolve|escalate|update|pause|lookup|labels|slot|entity|name): .+)$`)
	spellingProposal = regexp.MustCompile(`\(at character \d+\); write (.+) instead of (.+)$`)
	spanProposal     = regexp.MustCompile(`"([^"]+)" is not a number; in an expression write (\S+)`)
	bareProposal     = regexp.MustCompile(`unknown name "([^"]+)"; write ("[^"]+") for a text, or (\S+) for a field`)
	bracesProposal   = regexp.MustCompile(`write it without braces: (.+)$`)
	endProposal      = regexp.MustCompile(`^the quote at character \d+ is not closed; write (.) at the end`)
	afterProposal    = regexp.MustCompile(`"([^"]+)" is a duration, but at is [^;]*; write (after: \w+)`)
	instantProposal  = regexp.MustCompile(`"([^"]+)" is a duration, but at is an instant; write one such as (.+)$`)
	pauseProposal    = regexp.MustCompile(`remove the condition and name the event that ends the pause, such as (until: \S+),`)
	compareProposal  = regexp.MustCompile(`such as ((?:event|state)\.\w+ (?:>|==) (?:\d+|"\w+"))`)
	removeProposal   = regexp.MustCompile(`or remove the condition$`)
)

// The name of a condition before its value, and a value.
var (
	condition = regexp.MustCompile(`(?:, )?(?:if|while): $`)
	value     = regexp.MustCompile(`^(?:'[^']*'|"(?:[^"\\]|\\.)*"|[^,}\n]*)`)
)

// editor applies proposals at the place of a problem in a text.
type editor struct{ before, after string }

// editorAt returns an editor for the place of a problem.
func editorAt(text string, p document.Problem) editor {
	lines := strings.SplitAfter(text, "\n")
	at := 0
	for _, line := range lines[:p.Line-1] {
		at += len(line)
	}
	at += p.Column - 1
	return editor{text[:at], text[at:]}
}

// replace returns the text with a part replaced, behind the place.
func (e editor) replace(old, by string) string {
	before, after, found := strings.Cut(e.after, old)
	if !found {
		return ""
	}
	return e.before + before + by + after
}

// value returns the text with another value of the field.
func (e editor) value(by string) string {
	return e.before + by + e.after[len(value.FindString(e.after)):]
}

// condition returns the text with another field instead of the condition; empty: with none.
func (e editor) condition(by string) string {
	name := condition.FindString(e.before)
	before, after := strings.TrimSuffix(e.before, name), e.after[len(value.FindString(e.after)):]
	if by != "" && strings.HasPrefix(name, ", ") {
		by = ", " + by
	}
	return before + by + after
}

// proposed returns the documents with a proposal of a problem applied; none: it has none of the forms. name is the
// proposed name, if it is one.
func proposed(text string, p document.Problem) (changed []string, name string) {
	e := editorAt(text, p)
	parts := func(form *regexp.Regexp) []string { return form.FindStringSubmatch(p.Message) }
	plain := func(s string) string {
		if strings.Count(s, `"`) == 2 && strings.HasPrefix(s, `"`) {
			return strings.Trim(s, `"`)
		}
		return s
	}
	for form, edit := range map[*regexp.Regexp]func(m []string) []string{
		quoteProposal: func(m []string) []string {
			text, err := strconv.Unquote(m[1])
			if err != nil {
				return nil
			}
			return []string{e.replace(text, m[1])}
		},
		fieldProposal:    func(m []string) []string { return []string{applyEdit(text, m[1])} },
		spanProposal:     func(m []string) []string { return []string{e.replace(m[1], m[2])} },
		bareProposal:     func(m []string) []string { return []string{e.replace(m[1], m[2]), e.replace(m[1], m[3])} },
		bracesProposal:   func(m []string) []string { return []string{e.value(m[1])} },
		endProposal:      func(m []string) []string { return []string{e.value(value.FindString(e.after) + m[1])} },
		afterProposal:    func(m []string) []string { return []string{strings.Replace(text, "at: "+m[1], m[2], 1)} },
		instantProposal:  func(m []string) []string { return []string{e.value(m[2])} },
		pauseProposal:    func(m []string) []string { return []string{e.condition(m[1])} },
		removeProposal:   func([]string) []string { return []string{e.condition("")} },
		compareProposal:  func(m []string) []string { return []string{e.value(m[1])} },
		spellingProposal: func(m []string) []string { return []string{e.replace(plain(m[2]), plain(m[1]))} },
	} {
		if m := parts(form); m != nil && !strings.Contains(p.Message, "startsWith or endsWith") {
			changed = append(changed, edit(m)...)
		}
	}
	if names := parts(nameProposal); names != nil && len(changed) == 0 {
		return []string{e.replace(names[1], names[2])}, names[2]
	}
	return changed, ""
}

// A proposal of a problem is accepted: with it, the document has no problem at the place, and no problem elsewhere that it
// did not have before; for a proposed name, no problem that is about the name.
func TestProposalsAreAccepted(t *testing.T) {
	tried := 0
	for _, c := range slices.Concat(badDocuments, badMeanings) {
		var problems document.Problems
		if _, err := rules.Parse([]byte(c.text), "bad.yaml"); !errors.As(err, &problems) {
			continue
		}
		for _, p := range problems {
			texts, name := proposed(c.text, p)
			for _, text := range texts {
				if text == "" {
					t.Errorf("%s: %s\nis not in the text:\n%s", c.name, p.Message, c.text)
					continue
				}
				tried++
				var left document.Problems
				_, err := rules.Parse([]byte(text), "proposed.yaml")
				errors.As(err, &left)
				for _, after := range left {
					isNew := !slices.ContainsFunc(problems, func(before document.Problem) bool { return before.Pointer == after.Pointer })
					if name == "" && isNew || after.Pointer == p.Pointer && (name == "" || strings.Contains(after.Message, strconv.Quote(name))) {
						t.Errorf("%s: %s\nwith the proposal:\n%s\nis refused: %s: %s", c.name, p.Message, text, after.Pointer, after.Message)
					}
				}
			}
		}
	}
	if tried < 90 {
		t.Errorf("%d proposals were tried, want at least 90", tried)
	}
	t.Logf("%d proposals", tried)
}
