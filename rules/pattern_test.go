package rules

import (
	"encoding/json"
	"fmt"
	"regexp"
	"runtime"
	"strings"
	"testing"

	"deadman/rules/bodies"
)

// A pattern beyond the bounds is refused before it allocates much, and takes little within them.
func TestPatternsAreBounded(t *testing.T) {
	const most = 8 << 20 // bytes that compiling one pattern may take
	for name, c := range map[string]struct{ pattern, want string }{
		"long":             {strings.Repeat("a", MaxPattern+1), "257 bytes, the most is 256"},
		"counted":          {"x{0,1000}[yw]", "repeats 1000 times, the most is 100"},
		"counted open":     {"x{101,}", "repeats 101 times"},
		"counted in count": {"(x{50}){3}", "repeats 150 times"},
		"many counts":      {strings.Repeat("x{0,100}", 20), "the most is 1000"},
		"large classes":    {`^(?:` + strings.Repeat(`\PL?`, 32) + `){9}$`, "the most is 1000"},
		"not a pattern":    {"(", "missing closing )"},
		"too much":         {"((x{1000}){1000}){1000}", "invalid repeat count"},
		"no room":          {strings.Repeat("a", 50), "40 are left"},

		"a few counts":    {"x{0,100}" + strings.Repeat("x{0,99}", 3), ""},
		"classes":         {`(?i)` + strings.Repeat(`[\pL\pN]`, 8), ""},
		"anchored":        {`^` + strings.Repeat(`(\pL|\pN)`, 8) + `$`, ""},
		"all but a class": {`^[^\pL]{9}[^\pN]{9}$`, ""},
	} {
		left := maxRulePatterns
		if name == "no room" {
			left = 40
		}
		var before, after runtime.MemStats
		runtime.ReadMemStats(&before)
		_, err := compilePattern(c.pattern, &left)
		runtime.ReadMemStats(&after)
		switch {
		case c.want == "" && err != nil, c.want != "" && (err == nil || !strings.Contains(err.Error(), c.want)):
			t.Errorf("%s: %v", name, err)
		case after.TotalAlloc-before.TotalAlloc > most:
			t.Errorf("%s took %d KiB", name, (after.TotalAlloc-before.TotalAlloc)>>10)
		}
	}
}

// The patterns of a rule, and those of a text, have a size together.
func TestPatternsOfRuleAndTextAreBounded(t *testing.T) {
	of := func(name string, conditions int) string {
		var b strings.Builder
		fmt.Fprintf(&b, "name: %s\nentity: order\ntrigger: {event: orders.created, key: event.id}\nescalate: [{after: 3h}]\nresolve:\n", name)
		for i := range conditions {
			fmt.Fprintf(&b, "  - {event: orders.e%d, key: event.id, if: 'event.s matches \"%sx{0,100}x{0,99}x{0,99}\"'}\n", i, strings.Repeat("y", 190))
		}
		return b.String()
	}
	if _, err := Parse([]byte(of("some", 12)), ""); err != nil {
		t.Errorf("some patterns: %v", err)
	}
	_, err := Parse([]byte(of("many", 13)), "")
	if err == nil || !strings.Contains(err.Error(), "resolve[12].if") || !strings.Contains(err.Error(), "the patterns of a rule have 10000 together") {
		t.Errorf("many patterns: %v", err)
	}
	var all []string
	for i := range 7 {
		all = append(all, of(fmt.Sprintf("r%d", i), 10))
	}
	_, err = Parse([]byte(strings.Join(all, "---\n")), "")
	if err == nil || !strings.Contains(err.Error(), "those of a text 50000") {
		t.Errorf("a text: %v", err)
	}
}

// A pattern pays for its search before it begins, in any position: a matcher cannot be stopped.
func TestPatternPaysForItsSearch(t *testing.T) {
	long, err := json.Marshal(map[string]string{"s": strings.Repeat("y", 250_000)})
	if err != nil {
		t.Fatal(err)
	}
	for source, tooMuch := range map[string]bool{
		`event.s matches "(y{0,50}){0,2}z"`: true, `not (event.s matches "(y+y+)+z")`: false,
		`event.s matches "error"`: false, `event.s matches "(y{1,30}x?){3}z" or event.t == 1`: true,
	} {
		for _, d := range []exprEnv{inIf, inWhile} {
			x, err := compileExpression(source, d)
			if err != nil {
				t.Fatal(err)
			}
			_, err = x.holds(scope{event: bodies.New(long), state: bodies.New(long)})
			if is := err != nil && strings.Contains(err.Error(), errTooExpensive.Error()); is != tooMuch {
				t.Errorf("%s: %v", source, err)
			}
		}
	}
}

// The results of a pattern are those of the library's own matches.
func TestPatternsMatch(t *testing.T) {
	for value, want := range map[string]string{
		`"UNSHIPPED"`: "true", `"SHIPPED"`: "false", `null`: "false", `""`: "false",
		`7`: `"matches" needs text, and the value is a number`, `[1]`: `"matches" needs text, and the value is a list`,
	} {
		x, err := compileExpression(`event.s matches "^UN.*D$"`, inIf)
		if err != nil {
			t.Fatal(err)
		}
		got, err := x.holds(scope{event: bodies.New(fmt.Appendf(nil, `{"s": %s}`, value))})
		text := fmt.Sprint(got)
		if err != nil {
			text = err.Error()
		}
		if !regexp.MustCompile(regexp.QuoteMeta(want) + "$").MatchString(text) {
			t.Errorf("%s: %s, want %s", value, text, want)
		}
	}
}
