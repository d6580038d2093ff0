package rules

import (
	"cmp"
	"errors"
	"fmt"
	"regexp"
	"slices"
	"strconv"
	"strings"

	"github.com/expr-lang/expr/file"
	"github.com/expr-lang/expr/types"

	"deadman/internal/configfile"
	"deadman/rules/document"
)

// compileError is an error of the compiler at a character of an expression.
type compileError struct {
	exprEnv
	source  string
	at      int // the index of the character in the source, in bytes
	message string
}

// compileErrorOf translates an error of the compiler into words of the rule language.
func compileErrorOf(err error, source string, d exprEnv) error {
	var at *file.Error
	if !errors.As(err, &at) {
		return errors.New(plainly(err.Error()))
	}
	e := compileError{exprEnv: d, source: source, message: at.Message, at: byteOf(source, at.From)}
	if whole := e.explainWhole(); whole != "" {
		return errors.New(whole)
	}
	if old, by := e.foreign(); by != "" {
		if name, ok := strings.CutPrefix(e.message, "unknown name "); ok {
			e.message = fmt.Sprintf("unknown name %q", clip(name, 40))
		}
		return fmt.Errorf("%s (at character %d); write %s instead of %s", e.message, at.Column+1, inQuotes(by), inQuotes(old))
	}
	return errors.New(plainly(fmt.Sprintf("%s (at character %d)", cmp.Or(e.explain(), e.message), at.Column+1)))
}

// byteOf returns the index of the n-th character of a text.
func byteOf(text string, n int) int {
	for i := range text {
		if n == 0 {
			return i
		}
		n--
	}
	return len(text)
}

// inQuotes returns a part of an expression in quotes, or as it is if it has quotes of its own.
func inQuotes(part string) string {
	if strings.ContainsAny(part, `"'`) {
		return part
	}
	return `"` + part + `"`
}

// plainly replaces or completes messages of the compiler that name no remedy.
func plainly(message string) string {
	switch {
	case strings.Contains(message, `Operator("=")`):
		return message + `; to compare, write "=="`
	case strings.Contains(message, "unexpected token EOF"):
		return `the expression ends too early; close what is open, and quote the whole if " #" is in it`
	case strings.Contains(message, "maximum allowed nodes"):
		return fmt.Sprintf("the expression has more than %d parts; make it simpler", maxNodes)
	}
	return message
}

// braces matches an expression as a text has it; the first group is a field alone.
var braces = regexp.MustCompile(`\{\{\s*(?:\.?([A-Za-z_][\w.]*)|(.*?))\s*\}\}`)

// explainWhole returns the error text for an expression with a mistake that no single character shows.
func (e compileError) explainWhole() string {
	if strings.Contains(e.message, "literal not terminated") {
		at, quote := openQuote(e.source)
		return fmt.Sprintf(`the quote at character %d is not closed; write %c at the end of the text, or quote the whole expression if it contains " #", where YAML begins a comment`, at, quote)
	}
	unbraced := func(part string) string {
		m := braces.FindStringSubmatch(part)
		if m[1] != "" {
			return e.field(m[1])
		}
		return m[2]
	}
	if plain := braces.ReplaceAllStringFunc(e.source, unbraced); plain != e.source && strings.Contains(e.message, `Bracket("{")`) {
		return fmt.Sprintf(`"{{" begins an expression within a text, but the whole field is an expression; write it without braces: %s`, clip(plain, 200))
	}
	return ""
}

// openQuote returns the last quote of an expression that is not closed, and its place in characters, from 1.
func openQuote(source string) (at int, quote rune) {
	escaped := false
	for i, c := range []rune(source) {
		switch {
		case escaped:
			escaped = false
		case quote != 0 && c == '\\' && quote != '`':
			escaped = true
		case c == quote:
			quote = 0
		case quote == 0 && strings.ContainsRune("\"'`", c):
			at, quote = i+1, c
		}
	}
	return at, quote
}

// explain returns the text of an error with a name or a number; empty: it is another error.
func (e compileError) explain() string {
	if name, ok := strings.CutPrefix(e.message, "unknown name "); ok {
		return e.unknownName(name)
	}
	if name, ok := strings.CutPrefix(e.message, "unknown field "); ok {
		return unknownOfJob(name)
	}
	if m := mismatched.FindStringSubmatch(e.message); m != nil {
		return mismatch(m[1], m[2], m[3])
	}
	if strings.HasPrefix(e.message, "bad number syntax: ") {
		if text := e.around(numberPattern); spanCall(text) != "" {
			return fmt.Sprintf("%q is not a number; in an expression write %s", text, spanCall(text))
		}
	}
	return ""
}

// mismatched matches the message about an operator whose operands have different types.
var mismatched = regexp.MustCompile(`^invalid operation: (\S+) \(mismatched types (\S+) and (\S+)\)`)

// typeNames are the types of values in words.
var typeNames = map[string]string{
	"time.Time": "an instant", "time.Duration": "a duration", "string": "text", "int": "a number", "float64": "a number", "bool": "true or false",
}

// mismatch returns the error text for an operator between values of two types, with the remedy.
func mismatch(operator, left, right string) string {
	one, other := cmp.Or(typeNames[left], left), cmp.Or(typeNames[right], right)
	text := fmt.Sprintf("%s does not apply to %s and %s", operator, one, other)
	both := []string{one, other}
	has := func(a, b string) bool { return slices.Contains(both, a) && slices.Contains(both, b) }
	switch {
	case has("an instant", "text"):
		return text + `; write the text as date("2026-03-02T10:00:00Z")`
	case has("an instant", "a number"):
		return text + "; write the number as a duration, such as hours(3)"
	case has("a duration", "a number"), has("a duration", "text"):
		return text + `; write a duration, such as hours(3) or duration("3h")`
	case has("text", "a number"):
		return text + "; write the number in quotes to compare texts, or remove the quotes to compare numbers"
	}
	return text
}

var numberPattern = regexp.MustCompile(`[0-9][0-9A-Za-z.]*`)

// around returns the match of a pattern that the character of the error belongs to or follows; empty: none.
func (e compileError) around(pattern *regexp.Regexp) string {
	for _, m := range pattern.FindAllStringIndex(e.source, -1) {
		if m[0] <= e.at && e.at <= m[1] {
			return e.source[m[0]:m[1]]
		}
	}
	return ""
}

// spanCall returns the call that has the value of a duration as other fields of a rule write it; empty: text is none.
func spanCall(text string) string {
	for unit, call := range map[string]string{"d": "days", "h": "hours", "m": "minutes", "s": "seconds"} {
		n, is := strings.CutSuffix(text, unit)
		if _, err := strconv.ParseFloat(n, 64); is && err == nil && strings.Trim(n, "0123456789.") == "" {
			return call + "(" + n + ")"
		}
	}
	if _, err := document.ParseDuration(text); err != nil {
		return ""
	}
	return fmt.Sprintf("duration(%q)", text)
}

// twoArguments matches the arguments of a call with two, and its end.
const twoArguments = `\s*([^(),]+?)\s*,\s*("[^"]*"|'[^']*'|[^(),]+?)\s*\)`

// foreignSpellings are parts of expressions of other languages, and how this one writes them. The first that matches is used.
var foreignSpellings = []struct {
	pattern *regexp.Regexp
	by      string
}{
	{regexp.MustCompile(`<>|!==`), "!="},
	{regexp.MustCompile(`===`), "=="},
	{regexp.MustCompile(`=<`), "<="},
	{regexp.MustCompile(`=>`), ">="},
	{regexp.MustCompile(`=?~`), "matches"},
	{regexp.MustCompile(`(?i)\bis\s+not\s+(?:null|nil|none)\b`), "!= nil"},
	{regexp.MustCompile(`(?i)\bis\s+(?:null|nil|none)\b`), "== nil"},
	{regexp.MustCompile(`(?i)\bexists\s*\(\s*([^()]+?)\s*\)`), "$1 != nil"},
	{regexp.MustCompile(`(?i)\bexists\b`), "!= nil"},
	{regexp.MustCompile(`\b(?:null|NULL|Null|None|undefined)\b`), "nil"},
	{regexp.MustCompile(`\b(?:TRUE|True)\b`), "true"},
	{regexp.MustCompile(`\b(?:FALSE|False)\b`), "false"},
	{regexp.MustCompile(`([\w.\[\]]+)\s+(?i:between)\s+(\S+)\s+(?i:and)\s+(\S+)`), "$1 >= $2 and $1 <= $3"},
	{regexp.MustCompile(`(?i)\bcontains\s*\(` + twoArguments), "$1 contains $2"},
	{regexp.MustCompile(`(?i)\bmatches\s*\(` + twoArguments), "$1 matches $2"},
	{regexp.MustCompile(`(?i)\bstarts_?with\s*\(` + twoArguments), "$1 startsWith $2"},
	{regexp.MustCompile(`(?i)\bends_?with\s*\(` + twoArguments), "$1 endsWith $2"},
	{regexp.MustCompile(`(?i)\blike\s+(["'])%([^%_"']+)%["']`), "contains $1$2$1"},
	{regexp.MustCompile(`(?i)\blike\s+(["'])%([^%_"']+)["']`), "endsWith $1$2$1"},
	{regexp.MustCompile(`(?i)\blike\s+(["'])([^%_"']+)%["']`), "startsWith $1$2$1"},
	{regexp.MustCompile(`(?i)\blike\s+(["'])([^%_"']+)["']`), "== $1$2$1"},
	{regexp.MustCompile(`(?i)\blike\b`), "matches, contains, startsWith or endsWith"},
	{regexp.MustCompile(`(?i)\bin\s*\(\s*(["'][^()]*|[^()]*,[^()]*)\)`), "in [$1]"},
	{regexp.MustCompile(`\bAND\b|&`), "and"},
	{regexp.MustCompile(`\bOR\b`), "or"},
	{regexp.MustCompile(`\bNOT\s`), "not "},
	{regexp.MustCompile(`\bIN\b`), "in"},
}

// foreignField matches the spellings of a field in templates of other languages: ${id}, $.order.id, $id and .id.
var foreignField = regexp.MustCompile(`\$\{\.?([A-Za-z_][\w.]*)\}|\$\.?([A-Za-z_][\w.]*)|(?:^|[^\w)\]?])\.([A-Za-z_][\w.]*)`)

// foreign returns the part of the expression around the error that is written as in another language, and how this one
// writes it; empty: there is none.
func (e compileError) foreign() (old, by string) {
	if !slices.ContainsFunc([]string{"unexpected token", "unrecognized character", "unknown name"}, func(s string) bool { return strings.HasPrefix(e.message, s) }) {
		return "", ""
	}
	for _, f := range foreignSpellings {
		if old := e.around(f.pattern); old != "" {
			return strings.TrimSpace(old), strings.TrimSpace(f.pattern.ReplaceAllString(old, f.by))
		}
	}
	old = e.around(foreignField)
	m := foreignField.FindStringSubmatch(old)
	if m == nil {
		return "", ""
	}
	return old[strings.IndexAny(old, "$."):], e.field(m[1] + m[2] + m[3])
}

// operandPattern matches the end of an expression before an operand that is compared, which may be a text.
var operandPattern = regexp.MustCompile(`(?:[!=]=|\bin\s*\[[^\]]*|\b(?:contains|matches|startsWith|endsWith))\s*$`)

// isBareText reports whether an unknown name may be a text without its quotes.
func (e compileError) isBareText(name string) bool {
	rest := strings.TrimSpace(strings.TrimPrefix(e.source[e.at:], name))
	return operandPattern.MatchString(e.source[:e.at]) && (rest == "" || !strings.ContainsRune(".([?", rune(rest[0])))
}

// unknownName returns the error text for a name that cannot be read, with the nearest that can.
func (e compileError) unknownName(name string) string {
	known, quoted := e.readable(), clip(name, 40)
	switch {
	case name == "now":
		return "there is no clock in an expression; use since, or a step's after"
	case name == nameState && (e.yields == span || e.place == inAt.place):
		return `"state" can't be read here: a step's time is fixed when the wait begins; use recheck for what changes`
	case name == nameEvent && e.names[name] == nil:
		return fmt.Sprintf(`"event" can't be read here, only %s: a schedule has no event`, strings.Join(known, ", "))
	case e.names[name] == nil && typesOf[name] != nil && len(known) > 0:
		return fmt.Sprintf("%q can't be read here, only %s", name, strings.Join(known, ", "))
	}
	if e.isBareText(name) {
		if field := e.field(quoted); field != quoted {
			return fmt.Sprintf("unknown name %q; write %[1]q for a text, or %s for a field", quoted, field)
		}
		return fmt.Sprintf("unknown name %q; write %[1]q in quotes for a text", quoted)
	}
	if near := configfile.Suggest(name, append(functionNames(), known...)); near != "" {
		return fmt.Sprintf("unknown name %q; did you mean %q?", quoted, near)
	}
	example := ""
	if e.names[nameEvent] != nil {
		example = ", as in event." + quoted
	}
	return fmt.Sprintf("unknown name %q; an expression reads %s%s", quoted, strings.Join(known, ", "), example)
}

// unknownOfJob returns the error text for an unknown field of job, the only name with fields that the compiler knows.
func unknownOfJob(name string) string {
	var fields []string
	for f := range typesOf[nameJob].(types.Map) {
		fields = append(fields, f)
	}
	slices.Sort(fields)
	return configfile.UnknownName("field of job", name, fields)
}
