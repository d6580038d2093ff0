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

// clientAddr returns the client address for the audit log, the log and limits: that of the connection, or the one named
// by a trusted proxy.
func clientAddr(ctx context.Context) string {
	addr, _ := ctx.Value(clientKey{}).(string)
	return addr
}

// clientOf finds the address of the client.
//
//  1. A connection from an untrusted address is the client's, regardless of its headers.
//  2. The client is the rightmost untrusted address of X-Forwarded-For, or of Forwarded (RFC 7239): the one that the first
//     trusted proxy saw. Addresses to its left came from the client.
//  3. A proxy writes one of the headers and may pass the other one on. If both are present and name different clients, an
//     address cannot be parsed, or all are trusted, the client is the proxy.
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

// peerOf returns the address of the connection, and whether it is trusted.
func peerOf(r *http.Request, trusted []netip.Prefix) (peer string, isTrusted bool) {
	peer = r.RemoteAddr
	if host, _, err := net.SplitHostPort(peer); err == nil {
		peer = host
	}
	at, err := netip.ParseAddr(peer)
	return peer, err == nil && inAny(trusted, at)
}

// rightmost returns the last untrusted address of a header's elements. It is invalid if all are trusted or an element to
// its right cannot be parsed.
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

// forOf returns the for parameter of an element of Forwarded, such as for="[2001:db8::1]:47011";proto=https.
func forOf(element string) string {
	for pair := range strings.SplitSeq(element, ";") {
		name, value, _ := strings.Cut(strings.TrimSpace(pair), "=")
		if strings.EqualFold(name, "for") {
			return strings.Trim(value, `"`)
		}
	}
	return ""
}

// readAddr parses an address with or without a port.
func readAddr(s string) (netip.Addr, bool) {
	if with, err := netip.ParseAddrPort(s); err == nil {
		return plainAddr(with.Addr()), true
	}
	at, err := netip.ParseAddr(strings.TrimSuffix(strings.TrimPrefix(s, "["), "]"))
	return plainAddr(at), err == nil
}

// plainAddr normalizes an address for prefixes: ::ffff:10.0.0.1 becomes 10.0.0.1, and zones are dropped.
func plainAddr(at netip.Addr) netip.Addr { return at.Unmap().WithZone("") }

func inAny(prefixes []netip.Prefix, at netip.Addr) bool {
	at = plainAddr(at)
	return slices.ContainsFunc(prefixes, func(p netip.Prefix) bool { return p.Contains(at) })
}
