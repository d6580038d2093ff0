package sources

import (
	"fmt"
	"net"
	"net/netip"
	"slices"
	"syscall"
	"time"

	"code.dny.dev/ssrf"

	"deadman/internal/addresses"
)

// dialer returns a dialer that connects only to public and explicitly allowed addresses. It checks the address of the
// actual connection, independent of name resolution.
func dialer(allow []netip.Prefix) *net.Dialer {
	return &net.Dialer{
		Timeout:   connectTimeout,
		KeepAlive: 30 * time.Second,
		Control:   func(_, address string, _ syscall.RawConn) error { return permitted(address, allow) },
	}
}

// public recognizes addresses that IANA reserves for special purposes. Some cloud metadata addresses are not among
// them.
var public = ssrf.New(ssrf.WithAnyNetwork(), ssrf.WithAnyPort())

// permitted returns an error if connections to an address with a port are not allowed.
func permitted(address string, allow []netip.Prefix) error {
	at, err := netip.ParseAddrPort(address)
	if err != nil {
		return fmt.Errorf("%q is not an address: %w", address, err)
	}
	ip := at.Addr().Unmap().WithZone("")
	if slices.ContainsFunc(allow, func(p netip.Prefix) bool { return p.Contains(ip) }) {
		return nil
	}
	if public.SafeAddr(ip) != nil || addresses.IsMetadata(ip) {
		return addressError{ip}
	}
	return nil
}

// addressError is the error of an address that is not public.
type addressError struct{ ip netip.Addr }

func (f addressError) Error() string {
	return fmt.Sprintf("%s is not a public address; if it is correct, allow it in the source, as in allow: [%s]", f.ip, netip.PrefixFrom(f.ip, f.ip.BitLen()))
}
