package main

import (
	"bytes"
	"encoding/json"
	"strings"
	"testing"
	"unicode"

	"pgregory.net/rapid"
)

func TestPlain(t *testing.T) {
	for from, want := range map[string]string{
		"":                     "",
		"order 1234":           "order 1234",
		"Grüße, 世界 ✓":          "Grüße, 世界 ✓",
		"\x1b[2Jgone":          `\x1b[2Jgone`,
		"a\nb\tc\rd\x00e\x7f":  `a\nb\tc\rd\x00e\x7f`,
		"\u009b31mred":         `\u009b31mred`,
		"\u202eevil":           `\u202eevil`,
		"broken \xff utf-8":    `broken \xff utf-8`,
		"it's \"quoted\"":      `it's "quoted"`,
		"\u2028line separator": `\u2028line separator`,
		"\ufffd":               "\ufffd",
	} {
		if got := sanitize(from); got != want {
			t.Errorf("%q is shown as %q, want %q", from, got, want)
		}
	}
}

func TestPlainIsPrintable(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		s := rapid.OneOf(rapid.String(), rapid.Map(rapid.SliceOf(rapid.Byte()), func(b []byte) string { return string(b) })).Draw(t, "s")
		got := sanitize(s)
		if i := strings.IndexFunc(got, func(r rune) bool { return !unicode.IsPrint(r) }); i >= 0 {
			t.Fatalf("%q has what is not printable at %d", got, i)
		}
		if sanitize(got) != got {
			t.Fatalf("%q changes again", got)
		}
	})
}

func TestPlainJSONIsSameJSON(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		s := rapid.String().Draw(t, "s")
		raw, err := json.Marshal(map[string]string{s: s})
		if err != nil {
			t.Fatal(err)
		}
		safe := plainJSON(raw)
		if i := bytes.IndexFunc(safe, func(r rune) bool { return unicode.IsControl(r) || r == '\u202e' }); i >= 0 {
			t.Fatalf("%q has a control character at %d", safe, i)
		}
		var was, is map[string]string
		if err := json.Unmarshal(raw, &was); err != nil {
			t.Fatal(err)
		}
		if err := json.Unmarshal(safe, &is); err != nil {
			t.Fatalf("%s: %v", safe, err)
		}
		for k := range was {
			if is[k] != was[k] {
				t.Fatalf("%q became %q", was, is)
			}
		}
	})
}

func TestClip(t *testing.T) {
	for _, c := range []struct{ from, want string }{
		{"", ""}, {"abc", "abc"}, {"abcd", "abcd"}, {"abcde", "abc…"}, {"äöüßé", "äöü…"},
	} {
		if got := clip(c.from, 4); got != c.want {
			t.Errorf("%q is clipped to %q, want %q", c.from, got, c.want)
		}
	}
}
