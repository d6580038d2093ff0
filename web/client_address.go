package web

import (
	"context"
	"net"
	"net/http"
	"net/netip"
	"slices"
	"strings"
)

// clientKey is the context's key for the address of the client.
type clientKey struct{}

// fromClient finds the address that a request comes from, and whom a trusted proxy names. Requests that a page makes in the
// process keep its visitor's.
func (a *api) fromClient(next http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if clientAddr(r.Context()) == "" {
			ctx := context.WithValue(r.Context(), clientKey{}, clientOf(r, a.TrustedProxies))
			r = r.WithContext(a.withNamed(ctx, r))
		}
		next.ServeHTTP(w, r)
	})
}

// clientAddr is the address that a request comes from, as the audit, the log and limits have it: that of the connection,
// or the one that a trusted proxy names.
func clientAddr(ctx context.Context) string {
	addr, _ := ctx.Value(clientKey{}).(string)
	return addr
}

// clientOf finds the address of the client.
//
//  1. A connection from an address that is not trusted is the client's, whatever its headers say.
//  2. The client is the rightmost address of X-Forwarded-For, or of Forwarded (RFC 7239), that is not trusted: the one
//     that the first trusted proxy saw. What stands to its left came from the client.
//  3. A proxy writes one of the headers and may let the other one pass. Where both are there and name different
//     clients, where an address cannot be read, or where all are trusted, the client is the proxy.
func clientOf(r *http.Request, trusted []netip.Prefix) string {
	peer, isTrusted := peerOf(r, trusted)
	if !isTrusted {
		return peer
	}
	var named []netip.Addr
	for header, addressOf := range map[string]func(string) string{"X-Forwarded-For": strings.TrimSpace, "Forwarded": forOf} {
		if values := r.Header.Values(header); len(values) > 0 {
			named = append(named, rightmost(strings.Split(strings.Join(values, ","), ","), addressOf, trusted))
		}
	}
	if len(named) == 0 || !named[0].IsValid() || named[0] != named[len(named)-1] {
		return peer
	}
	return named[0].String()
}

// peerOf is the address of the connection, and whether it is one of the trusted.
func peerOf(r *http.Request, trusted []netip.Prefix) (peer string, isTrusted bool) {
	peer = r.RemoteAddr
	if host, _, err := net.SplitHostPort(peer); err == nil {
		peer = host
	}
	at, err := netip.ParseAddr(peer)
	return peer, err == nil && inAny(trusted, at)
}

// rightmost is the last address of a header's elements that is not trusted; invalid, where there is none or what stands
// to its right cannot be read.
func rightmost(elements []string, addressOf func(string) string, trusted []netip.Prefix) netip.Addr {
	for _, element := range slices.Backward(elements) {
		at, ok := readAddr(addressOf(element))
		if !ok {
			return netip.Addr{}
		}
		if !inAny(trusted, at) {
			return at
		}
	}
	return netip.Addr{}
}

// forOf is the value of for in an element of Forwarded, such as for="[2001:db8::1]:47011";proto=https.
func forOf(element string) string {
	for pair := range strings.SplitSeq(element, ";") {
		name, value, _ := strings.Cut(strings.TrimSpace(pair), "=")
		if strings.EqualFold(name, "for") {
			return strings.Trim(value, `"`)
		}
	}
	return ""
}

// readAddr reads an address, with a port or without.
func readAddr(s string) (netip.Addr, bool) {
	if with, err := netip.ParseAddrPort(s); err == nil {
		return plainAddr(with.Addr()), true
	}
	at, err := netip.ParseAddr(strings.TrimSuffix(strings.TrimPrefix(s, "["), "]"))
	return plainAddr(at), err == nil
}

// plainAddr is an address in the one form in which prefixes know it: ::ffff:10.0.0.1 is 10.0.0.1, and zones mean nothing.
func plainAddr(at netip.Addr) netip.Addr { return at.Unmap().WithZone("") }

func inAny(prefixes []netip.Prefix, at netip.Addr) bool {
	at = plainAddr(at)
	return slices.ContainsFunc(prefixes, func(p netip.Prefix) bool { return p.Contains(at) })
}
