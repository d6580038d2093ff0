package access_test

import (
	"encoding/json"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"pgregory.net/rapid"

	"deadman/internal/access"
)

func TestMay(t *testing.T) {
	for _, c := range []struct {
		scopes string
		prefix string
		rule   string
		may    string // as scopes
	}{
		{"read", "", "", "read"},
		{"events", "", "", "events"},
		{"oncall", "", "", "read oncall"},
		{"oncall", "acme-", "acme-late", "read oncall"},
		{"oncall", "acme-", "other", ""},
		{"oncall", "acme-", "", "read"},
		{"rules", "", "", "read oncall rules"},
		{"admin", "", "", "read events oncall rules admin"},
		{"read events", "", "", "read events"},
		{"events rules", "", "", "read events oncall rules"},
		{"", "", "", ""},
		{"root", "", "", ""},
		{"read", "", "acme-late", "read"},
		{"rules", "", "acme-late", "read oncall rules"},

		{"read", "acme-", "acme-late", "read"},
		{"rules", "acme-", "acme-late", "read oncall rules"},
		{"admin", "acme-", "acme-late", "read events oncall rules admin"},
		{"admin", "acme-", "acme-", "read events oncall rules admin"},
		{"admin", "acme-", "acme", ""},
		{"admin", "acme-", "other", ""},
		{"admin", "acme-", "not-acme-late", ""},
		{"admin", "acme-", "ACME-late", ""},

		{"read", "acme-", "", "read"}, // a list, limited to its prefix
		{"rules", "acme-", "", "read"},
		{"admin", "acme-", "", "read"},
		{"events", "acme-", "", ""},
	} {
		token := access.Token{Prefix: c.prefix, Scopes: scopesOf(c.scopes)}
		var may []string
		for _, s := range access.Scopes {
			if token.May(s, c.rule) {
				may = append(may, string(s))
			}
		}
		if got := strings.Join(may, " "); got != c.may {
			t.Errorf("scopes %q, prefix %q, rule %q: may %q, want %q", c.scopes, c.prefix, c.rule, got, c.may)
		}
	}
}

func TestUnknownScopeGrantsNothing(t *testing.T) {
	all := access.Token{Scopes: access.Scopes}
	for _, s := range []access.Scope{"", "write", "READ", "admin "} {
		if all.May(s, "") {
			t.Errorf("a token with all scopes may %q", s)
		}
	}
}

// A prefix and a missing scope only ever remove permissions.
func TestRightsAreMonotone(t *testing.T) {
	scopes := rapid.SliceOfDistinct(rapid.SampledFrom(access.Scopes), rapid.ID)
	name := rapid.StringMatching(`([ab-]{0,3})`)
	rapid.Check(t, func(t *rapid.T) {
		token := access.Token{Scopes: scopes.Draw(t, "scopes"), Prefix: name.Draw(t, "prefix")}
		rule, s := name.Draw(t, "rule"), rapid.SampledFrom(access.Scopes).Draw(t, "scope")
		if !token.May(s, rule) {
			return
		}
		if rule != "" && !strings.HasPrefix(rule, token.Prefix) {
			t.Fatalf("%+v may %s %s", token, s, rule)
		}
		wider := token
		wider.Prefix = token.Prefix[:rapid.IntRange(0, len(token.Prefix)).Draw(t, "shorter")]
		wider.Scopes = append(slices.Clone(token.Scopes), scopes.Draw(t, "more")...)
		if !wider.May(s, rule) {
			t.Fatalf("%+v may %s %q, and %+v may not", token, s, rule, wider)
		}
	})
}

func TestTokenStatus(t *testing.T) {
	now := time.Date(2026, 11, 20, 12, 0, 0, 0, time.UTC)
	before, after := now.Add(-time.Hour), now.Add(time.Hour)
	for _, c := range []struct {
		expires, revoked time.Time
		want             string
	}{
		{want: "active"},
		{expires: after, want: "active"},
		{expires: now.Add(1), want: "active"},
		{expires: now, want: "expired"},
		{expires: before, want: "expired"},
		{revoked: before, want: "revoked"},
		{expires: after, revoked: before, want: "revoked"},
		{expires: before, revoked: before.Add(-1), want: "revoked"},
		{expires: before, revoked: before, want: "expired"}, // its name was given to another token
		{expires: before, revoked: now, want: "expired"},
	} {
		token := access.Token{ExpiresAt: c.expires, RevokedAt: c.revoked}
		if got := token.Status(now); got != c.want || token.Live(now) != (c.want == "active") {
			t.Errorf("expires %s, revoked %s: %s, live %v; want %s", c.expires, c.revoked, got, token.Live(now), c.want)
		}
	}
}

func TestTokensJSONHasNoHash(t *testing.T) {
	b, err := json.Marshal(access.Token{ID: "1", Name: "ci", Scopes: scopesOf("read"), Hash: [32]byte{1, 2, 3}})
	if err != nil {
		t.Fatal(err)
	}
	want := `{"id":"1","name":"ci","scopes":["read"],"created_at":"0001-01-01T00:00:00Z","created_by":""}`
	if string(b) != want {
		t.Errorf("got  %s\nwant %s", b, want)
	}
}

func scopesOf(text string) (scopes []access.Scope) {
	for _, s := range strings.Fields(text) {
		scopes = append(scopes, access.Scope(s))
	}
	return scopes
}

func ExampleToken_May() {
	tenant := access.Token{Scopes: []access.Scope{access.Rules}, Prefix: "acme-"}
	fmt.Println(tenant.May(access.Rules, "acme-unshipped"), tenant.May(access.Rules, "other-unshipped"))
	// Output: true false
}
