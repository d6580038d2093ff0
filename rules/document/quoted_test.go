package document

import (
	"testing"

	"github.com/goccy/go-yaml"
	"pgregory.net/rapid"
)

// TestQuoted checks that any text that is written as YAML is read as the same text.
func TestQuoted(t *testing.T) {
	check := func(t interface{ Fatalf(string, ...any) }, s string) {
		for _, text := range []string{"a: " + quoted(s) + "\n", quoted(s) + ": x\n", "a:\n  - " + quoted(s) + "\n", "a:\n  b: " + quoted(s) + "\n"} {
			nodes, problems := readYAML([]byte(text))
			if problems != nil {
				t.Fatalf("%q: %v", text, problems)
			}
			f := nodes[0].fields[0]
			for len(f.value.fields)+len(f.value.items) > 0 {
				if len(f.value.items) > 0 {
					f = field{value: f.value.items[0]}
				} else {
					f = f.value.fields[0]
				}
			}
			if got := f.value; f.name != s && (got.kind != aText || got.text != s) {
				t.Fatalf("%q is read as %s %q", text, got.kind, got.text)
			}
		}
	}
	for _, s := range []string{
		"", " ", "a", "true", "No", "null", "~", "1", "1e3", "0x1f", "1_000", "12:30", "3h", "1d2h", "1d 2h", ".5", "-", "- a", "a - b", "a: b", "a #b", "a#b", "#a",
		"!x", "&a", "*a", "a*", "orders.*.>", ">", "|", "%a", "@a", "`a", "{a}", "[a]", "a, b", "'a'", "\"a\"", "a\nb", "a\tb", "a ", " a", "a\\b", "\u0085", "\u2028", "\ufeff", "ä€😀", "a  b",
		"0x1", "0o7", "0123", "2026-01-02", "1970-01-01T00:00:00Z", ".inf", "+1", "1.", "\n", "\ta", "a\r\nb", "a\rb", "  a\n b\n", "a\n\nb ", "Yes", "OFF",
		"a ? b : c", "a ? b", "? a", "=", "<<", "inf", "nan", "event.a == \"x\"", "a \"b", "a 'b", "y", "---", "...", "a |", "a >", "a | b", "\x7f", "\x01",
	} {
		check(t, s)
	}
	rapid.Check(t, func(t *rapid.T) {
		check(t, rapid.StringMatching(`[a-z01 .:#'"{}\[\]!&*?|<>=@%,~+()/$\\\n\t_-]{0,12}`).Draw(t, "text"))
	})
}

// TestLibraryLosesTexts shows why documents have a writer of their own: the library writes texts that it reads as other
// values (decision 99). If it keeps one of them, try to replace the writer.
func TestLibraryLosesTexts(t *testing.T) {
	for _, s := range []string{".inf", "a\tb", "\ta", "\n", "? a", "a\r\nb"} {
		text, err := yaml.Marshal(map[string]any{"a": s})
		if err != nil {
			t.Fatal(err)
		}
		var back map[string]any
		if err := yaml.Unmarshal(text, &back); err == nil && back["a"] == s {
			t.Errorf("the library keeps %q, as %q", s, text)
		}
		nodes, problems := readYAML([]byte("a: " + quoted(s) + "\n"))
		if problems != nil || nodes[0].fields[0].value.text != s {
			t.Errorf("the writer loses %q, as %s: %v", s, quoted(s), problems)
		}
	}
}
