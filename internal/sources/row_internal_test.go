package sources

import (
	"net/netip"
	"net/url"
	"strings"
	"testing"

	"github.com/jackc/pgx/v5/pgconn"
)

// TestAddresses checks the permitted addresses, without and with an allow list.
func TestAddresses(t *testing.T) {
	t.Parallel()
	allow := []netip.Prefix{netip.MustParsePrefix("10.1.0.0/16"), netip.MustParsePrefix("fd00:1::/32")}
	for address, want := range map[string]bool{
		"93.184.216.34": true, "8.8.8.8": true, "2606:4700:4700::1111": true, "100.63.255.255": true, "172.32.0.1": true, "11.0.0.1": true,
		"127.0.0.1": false, "127.255.255.254": false, "0.0.0.0": false, "::": false, "::1": false,
		"10.0.0.1": false, "172.16.0.1": false, "172.31.255.255": false, "192.168.1.1": false, "fc00::1": false, "fd12::1": false,
		"169.254.169.254": false, "fd00:ec2::254": false, "169.254.170.2": false, "fe80::1": false, "fe80::1%eth0": false, "100.100.100.200": false, "168.63.129.16": false,
		"100.64.0.1": false, "100.127.255.255": false, "192.0.0.192": false, "198.18.0.1": false,
		"224.0.0.1": false, "239.255.255.255": false, "ff02::1": false, "255.255.255.255": false, "240.0.0.1": false,
		"::ffff:127.0.0.1": false, "::ffff:169.254.169.254": false, "::ffff:8.8.8.8": true, "::127.0.0.1": false,
		"64:ff9b::a9fe:a9fe": false, "64:ff9b::808:808": false, "64:ff9b:1::1": false, "2002:7f00:1::": false, "2001::1": false, "2001:db8::1": false,
		"10.1.2.3": true, "10.2.2.3": false, "::ffff:10.1.2.3": true, "fd00:1::5": true, "fd00:2::5": false,
	} {
		err := permitted(netip.AddrPortFrom(netip.MustParseAddr(address), 443).String(), allow)
		if (err == nil) != want {
			t.Errorf("%s: %v", address, err)
		}
	}
	if permitted("shop:443", nil) == nil {
		t.Error("a name is taken for an address")
	}
}

// TestPathsStayBelow checks the URLs of paths below a base that has a path.
func TestPathsStayBelow(t *testing.T) {
	t.Parallel()
	b, err := url.Parse("https://shop.example.com/api%2Fv1/")
	if err != nil {
		t.Fatal(err)
	}
	for path, want := range map[string]string{
		"/orders/1042":         "/api%2Fv1/orders/1042",
		"/":                    "/api%2Fv1/",
		"/orders/a%2Fb":        "/api%2Fv1/orders/a%2Fb",
		"/orders/a%3Fb%23c":    "/api%2Fv1/orders/a%3Fb%23c",
		"/orders?id=1&x=%26y":  "/api%2Fv1/orders?id=1&x=%26y",
		"/orders?":             "/api%2Fv1/orders?",
		"/orders?to=../../x":   "/api%2Fv1/orders?to=../../x",
		"/orders?to=http://x/": "/api%2Fv1/orders?to=http://x/",
		"/@evil.example/":      "/api%2Fv1/@evil.example/",
		"/a..b/...":            "/api%2Fv1/a..b/...",
		"":                     "", "orders": "", "//evil.example/x": "", "https://evil.example/": "", "@evil.example": "", ":80/": "",
		"/..": "", "/a/../b": "", "/a/./b": "", "/%2e%2e/x": "", "/%2E./x": "", "/..%2Fadmin": "", "/a%2f..%2fb": "", "/..;x=1/admin": "", "/..%5Cadmin": "",
		"/a#b": "", "/a b": "", "/a\nb": "", "/a\\b": "", "/%": "", "/%zz": "", "/a?b=%zz": "", "/a?b=#": "", "/a?b c": "",
		"/größe/a%2Fb": "", `/"a"/a%2Fb`: "", // net/url would escape it all again, and a%2Fb as a/b
		"/" + strings.Repeat("x", mostPath): "",
	} {
		u, err := below(b, path)
		switch {
		case want == "" && err == nil:
			t.Errorf("%q leads to %s", path, u)
		case want != "" && (err != nil || u.RequestURI() != want || u.Host != b.Host):
			t.Errorf("%q leads to %v, %v; want %s", path, u, err, want)
		}
	}
}

// TestOneStatement checks the tokenizing of SQL texts.
func TestOneStatement(t *testing.T) {
	t.Parallel()
	for text, want := range map[string]struct {
		statement string
		params    int
	}{
		"select 1":                            {"select 1", 0},
		"select $2, $1, $2":                   {"select $2, $1, $2", 2},
		"select 1 ; -- the end; really":       {"select 1 ", 0},
		"select 1;/* ; */ \n":                 {"select 1", 0},
		"select ';$3' || \"a;\" || [b;] $1":   {"select ';$3' || \"a;\" || [b;] $1", 1},
		"select 'it''s; fine', `a;``b`":       {"select 'it''s; fine', `a;``b`", 0},
		"select 1 -- $4 ;\n, $1":              {"select 1 -- $4 ;\n, $1", 1},
		"select a$1 /* never closed ; $5":     {"select a$1 /* never closed ; $5", 0},
		"select 'never closed ; $5":           {"select 'never closed ; $5", 0},
		"select 1; select 2":                  {},
		"select 1;;":                          {},
		"select 'a''; delete from x; --' ; b": {},
		"select ?":                            {},
		"select ?1":                           {},
		"select :a":                           {},
		"select @a":                           {},
		"select $a":                           {},
		"select $0":                           {},
		"select $99999999999999999999":        {},
	} {
		statement, params, err := singleStatement(text)
		if statement != want.statement || params != want.params || (err != nil) != (want.statement == "") {
			t.Errorf("%q: %q, %d, %v; want %q, %d", text, statement, params, err, want.statement, want.params)
		}
	}
}

// TestPostgresErrorScopes checks the scopes of Postgres errors.
func TestPostgresErrorScopes(t *testing.T) {
	t.Parallel()
	for code, want := range map[string]errorScope{
		"08006": scopeSource, "28P01": scopeSource, "28000": scopeSource, "3D000": scopeSource, "53300": scopeSource, "53200": scopeSource,
		"57P01": scopeSource, "57P02": scopeSource, "57P03": scopeSource, "57P05": scopeSource,
		"57014": scopeKey, "22P02": scopeKey, "22012": scopeKey, "21000": scopeKey, "P0001": scopeKey, "40001": scopeKey, "55P03": scopeKey, "XX001": scopeKey, "": scopeKey,
		"42703": scopeQuery, "42601": scopeQuery, "42501": scopeQuery, "25006": scopeQuery, "0A000": scopeQuery,
		"26000": scopeStalePlan,
	} {
		if got := blamed(&pgconn.PgError{Code: code}); got != want {
			t.Errorf("%s: %d, want %d", code, got, want)
		}
	}
	if blamed(&pgconn.PgError{Code: "0A000", Routine: "RevalidateCachedQuery"}) != scopeStalePlan {
		t.Error("a changed plan is not recognized")
	}
}
