package badges_test

import (
	"encoding/xml"
	"errors"
	"strings"
	"testing"

	"deadman/internal/badges"
)

// TestVerify checks that an address is valid for its rule and key, and only with the key that signed it.
func TestVerify(t *testing.T) {
	key := badges.NewKey()
	for _, want := range []badges.Target{{RuleID: 1}, {RuleID: 1<<31 - 1, Key: "a/b\x00☃"}, {RuleID: 7, Key: strings.Repeat("k", 512)}} {
		path := badges.Sign(key, want)
		token := strings.TrimSuffix(strings.TrimPrefix(path, badges.Prefix), badges.Suffix)
		if got, err := badges.Verify(key, token); err != nil || got != want {
			t.Errorf("%+v: %+v, %v", want, got, err)
		}
		if rule, err := badges.RuleOf(token); err != nil || rule != want.RuleID {
			t.Errorf("%+v: rule %d, %v", want, rule, err)
		}
		for _, wrong := range [][]byte{badges.NewKey(), nil} {
			if _, err := badges.Verify(wrong, token); !errors.Is(err, badges.ErrInvalid) {
				t.Errorf("with another key: %v", err)
			}
		}
		for i := range min(len(token), 40) {
			other := byte('A')
			if token[i] == other {
				other = 'B'
			}
			if _, err := badges.Verify(key, token[:i]+string(other)+token[i+1:]); !errors.Is(err, badges.ErrInvalid) {
				t.Fatalf("changed at %d: %v", i, err)
			}
		}
	}
	for _, token := range []string{"", "AAAA", "ä", strings.Repeat("A", 10000)} {
		if _, err := badges.Verify(key, token); !errors.Is(err, badges.ErrInvalid) {
			t.Errorf("%.20q: %v", token, err)
		}
	}
}

// TestDraw checks that texts are escaped, that a long label is cut, and that any label gives well-formed XML.
func TestDraw(t *testing.T) {
	odd, err := badges.Draw("a\u001bb\u202ec\x00\xff", "up", badges.Green)
	if text := string(odd); err != nil || xml.Unmarshal(odd, new(struct{})) != nil || !strings.Contains(text, "a\uFFFDb\uFFFDc\uFFFD\uFFFD: up") {
		t.Errorf("%s, %v", text, err)
	}
	picture, err := badges.Draw(`<b>&"`+strings.Repeat("x", 100), "up", badges.Green)
	if text := string(picture); err != nil || strings.Contains(text, "<b>") || !strings.Contains(text, "&lt;b&gt;") || !strings.Contains(text, "xx…") || !strings.Contains(text, badges.Green) {
		t.Errorf("%s, %v", text, err)
	}
}
