package access_test

import (
	"errors"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"deadman/internal/access"
)

func TestTokenRequestsAreParsed(t *testing.T) {
	k := newTokens(t)
	for _, c := range []struct {
		request access.TokenRequest
		scopes  string
		prefix  string
	}{
		{newRequest("a", "read"), "read", ""},
		{newRequest("A.b_c@d-9", "admin read events read"), "read events admin", ""},
		{newRequest(strings.Repeat("n", 63), "rules"), "rules", ""},
		{access.TokenRequest{Name: "p1", Scopes: scopesOf("read"), Prefix: "acme-*"}, "read", "acme-"},
		{access.TokenRequest{Name: "p2", Scopes: scopesOf("read"), Prefix: "acme-"}, "read", "acme-"},
		{access.TokenRequest{Name: "p3", Scopes: scopesOf("read"), Prefix: "a*"}, "read", "a"},
	} {
		made, _, err := k.Create(t.Context(), c.request)
		if err != nil {
			t.Errorf("%+v: %v", c.request, err)
			continue
		}
		if diff := cmp.Diff(scopesOf(c.scopes), made.Scopes); diff != "" || made.Prefix != c.prefix || made.Name != c.request.Name {
			t.Errorf("%+v made %+v\n%s", c.request, made, diff)
		}
	}
}

func TestInvalidTokenRequestsChangeNothing(t *testing.T) {
	k := newTokens(t)
	const names = `is not 1 to 63 of letters, digits, ".", "_", "@" and "-", beginning with a letter or digit`
	const all = "read, events, oncall, rules and admin"
	for _, c := range []struct {
		request access.TokenRequest
		want    string // one line per problem
	}{
		{newRequest("", "read"), `name: "" ` + names},
		{newRequest("two words", "read"), `name: "two words" ` + names},
		{newRequest("-x", "read"), `name: "-x" ` + names},
		{newRequest("a/b", "read"), `name: "a/b" ` + names},
		{newRequest("a*", "read"), `name: "a*" ` + names},
		{newRequest("a\n", "read"), `name: "a\n" ` + names},
		{newRequest(strings.Repeat("n", 64), "read"), `name: "` + strings.Repeat("n", 64) + `" ` + names},
		{newRequest(strings.Repeat("n", 9999), "read"), `name: "` + strings.Repeat("n", 70) + `" ` + names},
		{newRequest("deadman", "read"), `name: the name "deadman" is reserved for an actor of the audit log; take another name`},
		{newRequest("Deadman", "read"), `name: the name "Deadman" is reserved for an actor of the audit log; take another name`},
		{newRequest("loopback", "read"), `name: the name "loopback" is reserved for an actor of the audit log; take another name`},
		{
			newRequest("01890a5d-ac96-774b-bcce-b302099a8057", "read"),
			`name: "01890a5d-ac96-774b-bcce-b302099a8057" looks like a token's id; take another name`,
		},
		{newRequest("n", ""), "scopes: there is none; give at least one of " + all},
		{newRequest("n", "event"), `scopes[0]: "event" is not one of ` + all + "; did you mean events?"},
		{newRequest("n", "read rules:write"), `scopes[1]: "rules:write" is not one of ` + all + "; did you mean rules?"},
		{newRequest("n", "Administrator"), `scopes[0]: "Administrator" is not one of ` + all + "; did you mean admin?"},
		{newRequest("n", "write"), `scopes[0]: "write" is not one of ` + all},
		{newRequest("n", "x"), `scopes[0]: "x" is not one of ` + all},
		{
			access.TokenRequest{Name: "n", Scopes: scopesOf("read"), Prefix: "*"},
			`prefix: "*" is all rules; leave the prefix out if the token is for all of them`,
		},
		{
			access.TokenRequest{Name: "n", Scopes: scopesOf("read"), Prefix: "a*b*"},
			`prefix: "a*b*" is not how the name of a rule begins; write 1 to 63 of a-z, 0-9, "_" and "-", and a "*" after them if you like: "acme-*"`,
		},
		{
			access.TokenRequest{Name: "n", Scopes: scopesOf("read"), Prefix: "Acme-"},
			`prefix: "Acme-" is not how the name of a rule begins; write 1 to 63 of a-z, 0-9, "_" and "-", and a "*" after them if you like: "acme-*"`,
		},
		{
			access.TokenRequest{Name: "n", Scopes: scopesOf("read"), Expires: -time.Hour},
			"expires: -1h0m0s is in the past; give a span such as 90d, or leave it out for a token that never expires",
		},
		{
			access.TokenRequest{Name: "", Prefix: "*"},
			`name: "" ` + names + "\nscopes: there is none; give at least one of " + all +
				"\n" + `prefix: "*" is all rules; leave the prefix out if the token is for all of them`,
		},
	} {
		_, secret, err := k.Create(t.Context(), c.request)
		var problems access.Problems
		if !errors.As(err, &problems) || err.Error() != c.want || secret != "" {
			t.Errorf("%.100v: %q\n got %v\nwant %s", c.request, secret, err, c.want)
		}
	}
	if tokens, err := k.List(t.Context()); err != nil || len(tokens) != 0 {
		t.Errorf("there are %v, %v", tokens, err)
	}
	if entries, _, err := k.Audit(t.Context(), access.AuditFilter{}); err != nil || len(entries) != 0 {
		t.Errorf("the audit has %v, %v", entries, err)
	}
}

func newRequest(name, scopes string) access.TokenRequest {
	return access.TokenRequest{Name: name, Scopes: scopesOf(scopes)}
}

// The audit log identifies tokens by name only: no token gets a name confusable with that of a live token.
func TestConfusableTokenNamesAreRefused(t *testing.T) {
	k := newTokens(t)
	create(t, k, newRequest("payroll.admin-10", "read"))
	for _, name := range []string{"Payroll.Admin-10", "payroll.admin_10", "payro11.admin-lo", "PAYROLL-ADMIN-IO", "payroIl.adrnin-10"} {
		if _, _, err := k.Create(t.Context(), newRequest(name, "read")); !errors.Is(err, access.ErrExists) || !strings.Contains(err.Error(), `"`+name+`" looks like "payroll.admin-10"`) {
			t.Errorf("%s: %v", name, err)
		}
	}
	for _, name := range []string{"payroll.admin-11", "payroll.admin", "payrolladmin-10"} {
		create(t, k, newRequest(name, "read"))
	}
	if err := k.Revoke(t.Context(), "payroll.admin-10"); err != nil {
		t.Fatal(err)
	}
	create(t, k, newRequest("Payroll.Admin-10", "read")) // the other token is no longer live
	if _, _, err := k.Create(t.Context(), newRequest("1oopback", "read")); err == nil || !strings.Contains(err.Error(), "reserved for an actor of the audit log") {
		t.Errorf("as the audit calls an open node's visitors: %v", err)
	}
}

// TestSimilarNames checks that a name is refused beside one that looks like it in some font, and that names which
// differ visibly are not.
func TestSimilarNames(t *testing.T) {
	for _, c := range []struct {
		a, b  string
		alike bool
	}{
		{"vvv1", "vw1", true},
		{"vvvv", "ww", true},
		{"wv", "vw", true},
		{"clev", "dev", true},
		{"c1ev", "dev", true},
		{"cIev", "DEV", true},
		{"acclcl", "acdd", true},
		{"rnrn", "mm", true},
		{"rnail", "mail", true},
		{"adm5", "adms", true},
		{"5ales", "sales", true},
		{"o0O", "000", true},
		{"l1iI", "1111", true},
		{"8uild", "build", true},
		{"2one", "zone", true},
		{"ci--1", "ci-1", true},
		{"ci-_.1", "ci.1", true},
		{"ci-", "ci", true},
		{"ci_.-", "ci", true},
		{"a@", "a", true},
		{"ann-@", "ann", true},
		{"6uild", "build", true},
		{"ca6", "cab", true},
		{"uuest", "west", true},
		{"uuest", "vvest", true},
		{"zone-6", "zone-8", false},
		{"a6", "a8", false},
		{"a@b", "ab", false},
		{"vv", "v-v", false},
		{"vvv", "vv", false},
		{"vvv", "ww", false},
		{"uv", "w", false},
		{"cev", "dev", false},
		{"c-lev", "dev", false},
		{"nm", "rnm", false},
		{"r-n", "m", false},
		{"adm5", "adm6", false},
		{"adm5", "adm", false},
		{"ci-1", "ci-2", false},
		{"ci-1", "ci1", false},
		{"ci-1", "ci-11", false},
		{"ci-1-2", "ci-12", false},
		{"ann@x", "ann-x", false},
		{"zone-3", "zone-8", false},
	} {
		k := newTokens(t)
		create(t, k, newRequest(c.a, "read"))
		if _, _, err := k.Create(t.Context(), newRequest(c.b, "read")); errors.Is(err, access.ErrExists) != c.alike {
			t.Errorf("%s beside %s: %v", c.b, c.a, err)
		}
	}
	for name, alike := range map[string]bool{
		"clead-man": true, "Deaclman": true, "cleadrnan_": true, "loop8ack": true, "loopback--": true, "dead.man": true, "d.e.a.d.m.a.n": true,
		"deadman@": true, "loop-6ack": true, "deadmen": false, "loopbacks": false, "deadman-1": false,
	} {
		_, _, err := newTokens(t).Create(t.Context(), newRequest(name, "read"))
		if refused := err != nil && strings.Contains(err.Error(), "reserved for an actor of the audit log"); refused != alike {
			t.Errorf("%s: %v", name, err)
		}
	}
}
