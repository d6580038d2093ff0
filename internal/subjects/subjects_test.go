package subjects_test

import (
	"strings"
	"testing"

	natsserver "github.com/nats-io/nats-server/v2/server"
	"pgregory.net/rapid"

	"deadman/internal/subjects"
)

func TestCovers(t *testing.T) {
	for _, c := range []struct {
		a, b string
		want bool
	}{
		{"orders.created", "orders.created", true},
		{"orders.created", "orders.shipped", false},
		{"orders.created", "orders", false},
		{"orders", "orders.created", false},
		{"orders.*", "orders.created", true},
		{"orders.*", "orders.*", true},
		{"orders.*", "orders.eu.created", false},
		{"orders.*", "orders", false},
		{"orders.*", "orders.>", false},
		{"orders.created", "orders.*", false},
		{"orders.>", "orders.>", true},
		{"orders.>", "orders.*", true},
		{"orders.>", "orders.*.created", true},
		{"orders.>", "orders", false},
		{"orders.>", "ordersx.created", false},
		{"orders.>", ">", false},
		{"orders.>", "*.created", false},
		{"*.created", "orders.created", true},
		{"*.created", "orders.>", false},
		{"*.*", "orders.>", false},
		{"*.>", "orders.>", true},
		{">", ">", true},
		{">", "orders.*.x", true},
	} {
		if got := subjects.Covers(c.a, c.b); got != c.want {
			t.Errorf("Covers(%q, %q) is %t", c.a, c.b, got)
		}
	}
}

// pattern draws patterns over few words, so that they meet.
func pattern(wild bool) *rapid.Generator[string] {
	return rapid.Custom(func(t *rapid.T) string {
		words := []string{"a", "b"}
		if wild {
			words = append(words, "*")
		}
		tokens := rapid.SliceOfN(rapid.SampledFrom(words), 1, 4).Draw(t, "tokens")
		if wild && rapid.Bool().Draw(t, "open") {
			tokens = append(tokens, ">")
		}
		return strings.Join(tokens, ".")
	})
}

// A pattern covers a subject exactly where the broker says so, and what it covers has no subject outside of it.
func TestCoversAsBrokerDoes(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		a, b, subject := pattern(true).Draw(t, "a"), pattern(true).Draw(t, "b"), pattern(false).Draw(t, "subject")
		if got, want := subjects.Covers(a, subject), natsserver.SubjectMatchesFilter(subject, a); got != want {
			t.Fatalf("Covers(%q, %q) is %t, the broker delivers: %t", a, subject, got, want)
		}
		if subjects.Covers(a, b) && subjects.Covers(b, subject) && !subjects.Covers(a, subject) {
			t.Fatalf("%q covers %q, which has %q, and it has not", a, b, subject)
		}
	})
}

func TestListsCover(t *testing.T) {
	l := subjects.List{"acme.>", "shared.*"}
	for pattern, want := range map[string]bool{"acme.a.b": true, "shared.x": true, "shared.>": false, "other.x": false, ">": false} {
		if got := l.Cover(pattern); got != want {
			t.Errorf("%q: %t", pattern, got)
		}
	}
	if (subjects.List{}).Cover("a") {
		t.Error("an empty list covers something")
	}
}

func TestPatternsAreChecked(t *testing.T) {
	for _, good := range []string{"orders.created", "orders.>", "*.created", ">", "a"} {
		if err := subjects.Check(good); err != nil {
			t.Errorf("%q: %v", good, err)
		}
	}
	for bad, part := range map[string]string{
		"": "empty token", "a..b": "empty token", "a.": "empty token", "a b": "space", "a.>.b": "before its end", "a*": "within a token", "a.x>": "within a token",
		"$JS.API.>": "servers", "_INBOX.x": "servers", "deadman.alerts.>": "servers", "deadman-staging.acks.x": "servers", strings.Repeat("a", 256): "256 bytes",
	} {
		if err := subjects.Check(bad); err == nil || !strings.Contains(err.Error(), part) {
			t.Errorf("%q: %v", bad, err)
		}
	}
}

func TestLiteralsAreChecked(t *testing.T) {
	if err := subjects.CheckLiteral("orders.created"); err != nil {
		t.Error(err)
	}
	for bad, part := range map[string]string{"orders.*": "wildcard", "orders.>": "wildcard", "a..b": "empty token", "deadman-staging.acks.x": "servers"} {
		if err := subjects.CheckLiteral(bad); err == nil || !strings.Contains(err.Error(), part) {
			t.Errorf("%q: %v", bad, err)
		}
	}
}

func TestWidened(t *testing.T) {
	for text, want := range map[string]string{"ships.\x00": "ships.*", "a\x00b.c": "*.c", "a.b": "a.b", "\x00.\x00": "*.*"} {
		if got := subjects.Widened(text, "\x00"); got != want {
			t.Errorf("%q: %q", text, got)
		}
	}
}
