// Package addresses tells which addresses hold no service that a node may be made to ask.
package addresses

import (
	"fmt"
	"net"
	"net/netip"
	"slices"
	"syscall"
	"time"
)

// metadata are the addresses at which clouds tell a machine about itself, often with credentials.
var metadata = []netip.Prefix{
	netip.MustParsePrefix("169.254.0.0/16"),     // link-local: 169.254.169.254 of most, 169.254.170.2 of Amazon's containers
	netip.MustParsePrefix("fe80::/10"),          // link-local
	netip.MustParsePrefix("fd00:ec2::/32"),      // Amazon
	netip.MustParsePrefix("fd20:ce::254/128"),   // Google
	netip.MustParsePrefix("fd00:42::42/128"),    // Scaleway
	netip.MustParsePrefix("168.63.129.16/32"),   // Azure's wire server, in the public range
	netip.MustParsePrefix("100.100.100.200/32"), // Alibaba
	netip.MustParsePrefix("192.0.0.192/32"),     // Oracle
}

// nat64 is where gateways translate to the address of IPv4 in the last four bytes (RFC 6052).
var nat64 = netip.MustParsePrefix("64:ff9b::/96")

// IsMetadata reports whether a cloud's metadata may be at an address.
func IsMetadata(ip netip.Addr) bool {
	ip = ip.Unmap().WithZone("")
	if nat64.Contains(ip) {
		bytes := ip.As16()
		ip = netip.AddrFrom4([4]byte(bytes[12:]))
	}
	return slices.ContainsFunc(metadata, func(p netip.Prefix) bool { return p.Contains(ip) })
}

// Dialer returns a dialer that connects everywhere but to the metadata of a cloud. It checks the address of the connection, whatever
// a name was resolved to before.
func Dialer(timeout time.Duration) *net.Dialer {
	return &net.Dialer{
		Timeout:   timeout,
		KeepAlive: 30 * time.Second,
		Control: func(_, address string, _ syscall.RawConn) error {
			at, err := netip.ParseAddrPort(address)
			if err != nil {
				return fmt.Errorf("%q is not an address: %w", address, err)
			}
			if IsMetadata(at.Addr()) {
				return fmt.Errorf("%s is where a cloud keeps what it tells this machine alone, and no service; name the address of the service", at.Addr())
			}
			return nil
		},
	}
}
