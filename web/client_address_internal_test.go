package web

import (
	"net/http"
	"net/http/httptest"
	"net/netip"
	"testing"
)

// TestClientAddress checks that the client address is that of the connection, or the one that a trusted proxy saw, and
// never one chosen by the client.
func TestClientAddress(t *testing.T) {
	trusted := []netip.Prefix{netip.MustParsePrefix("10.0.0.0/8"), netip.MustParsePrefix("fd00::/8")}
	const xff, rfc = "X-Forwarded-For", "Forwarded"
	for _, c := range []struct {
		name    string
		trusted []netip.Prefix
		peer    string
		header  http.Header
		want    string
	}{
		{"no proxy is trusted", nil, "10.0.0.1:9", http.Header{xff: {"203.0.113.7"}, rfc: {"for=203.0.113.7"}}, "10.0.0.1"},
		{"the peer is not trusted", trusted, "192.0.2.1:9", http.Header{xff: {"203.0.113.7"}}, "192.0.2.1"},
		{"nothing is forwarded", trusted, "10.0.0.1:9", nil, "10.0.0.1"},
		{"one proxy", trusted, "10.0.0.1:9", http.Header{xff: {"203.0.113.7"}}, "203.0.113.7"},
		{"two proxies", trusted, "10.0.0.1:9", http.Header{xff: {"203.0.113.7, 10.0.0.2"}}, "203.0.113.7"},
		{"two headers", trusted, "10.0.0.1:9", http.Header{xff: {"203.0.113.7", "10.0.0.2"}}, "203.0.113.7"},
		{"the client names another address", trusted, "10.0.0.1:9", http.Header{xff: {"198.51.100.1, 203.0.113.7"}}, "203.0.113.7"},
		{"the client names a trusted address", trusted, "10.0.0.1:9", http.Header{xff: {"10.9.9.9, 203.0.113.7, 10.0.0.2"}}, "203.0.113.7"},
		{"the client has a trusted address", trusted, "10.0.0.1:9", http.Header{xff: {"10.0.0.3"}}, "10.0.0.1"},
		{"invalid address on the left", trusted, "10.0.0.1:9", http.Header{xff: {"<script>, 203.0.113.7"}}, "203.0.113.7"},
		{"invalid address on the right", trusted, "10.0.0.1:9", http.Header{xff: {"203.0.113.7, unknown"}}, "10.0.0.1"},
		{"an empty one", trusted, "10.0.0.1:9", http.Header{xff: {""}}, "10.0.0.1"},
		{"with a port", trusted, "10.0.0.1:9", http.Header{xff: {"203.0.113.7:4711"}}, "203.0.113.7"},
		{"IPv6", trusted, "[fd00::1]:9", http.Header{xff: {"2001:db8::7"}}, "2001:db8::7"},
		{"IPv6 with a port", trusted, "[fd00::1]:9", http.Header{xff: {"[2001:db8::7]:4711"}}, "2001:db8::7"},
		{"IPv4 as IPv6", trusted, "[::ffff:10.0.0.1]:9", http.Header{xff: {"::ffff:203.0.113.7"}}, "203.0.113.7"},
		{"a trusted address with a zone", trusted, "10.0.0.1:9", http.Header{xff: {"203.0.113.7, fd00::2%eth0"}}, "203.0.113.7"},
		{"RFC 7239", trusted, "10.0.0.1:9", http.Header{rfc: {`for=198.51.100.1, For="[2001:db8::7]:4711";proto=https;by=10.0.0.1`}}, "2001:db8::7"},
		{"RFC 7239, hidden", trusted, "10.0.0.1:9", http.Header{rfc: {"for=_hidden"}}, "10.0.0.1"},
		{"RFC 7239, an open quote", trusted, "10.0.0.1:9", http.Header{rfc: {`for="198.51.100.1, for=203.0.113.7`}}, "203.0.113.7"},
		{"both, the same", trusted, "10.0.0.1:9", http.Header{xff: {"203.0.113.7"}, rfc: {"for=203.0.113.7"}}, "203.0.113.7"},
		{"both, one from the client", trusted, "10.0.0.1:9", http.Header{xff: {"203.0.113.7"}, rfc: {"for=198.51.100.1"}}, "10.0.0.1"},
		{"both, one cannot be read", trusted, "10.0.0.1:9", http.Header{xff: {"203.0.113.7"}, rfc: {"for=unknown"}}, "10.0.0.1"},
		{"other headers", trusted, "10.0.0.1:9", http.Header{"X-Real-Ip": {"203.0.113.7"}, "True-Client-Ip": {"203.0.113.7"}}, "10.0.0.1"},
	} {
		t.Run(c.name, func(t *testing.T) {
			r := httptest.NewRequestWithContext(t.Context(), "GET", "/", nil)
			r.RemoteAddr, r.Header = c.peer, c.header
			if got := clientOf(r, c.trusted); got != c.want {
				t.Errorf("the client is %s, want %s", got, c.want)
			}
		})
	}
}
