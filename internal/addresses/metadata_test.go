package addresses_test

import (
	"net/netip"
	"strings"
	"testing"
	"time"

	"deadman/internal/addresses"
)

func TestMetadataOfCloudsIsKnown(t *testing.T) {
	for address, want := range map[string]bool{
		"169.254.169.254": true, "169.254.170.2": true, "168.63.129.16": true, "100.100.100.200": true, "192.0.0.192": true,
		"fd00:ec2::254": true, "fd00:ec2::23": true, "fd20:ce::254": true, "fd00:42::42": true, "fe80::a9fe:a9fe%eth0": true,
		"::ffff:168.63.129.16": true, "64:ff9b::a9fe:a9fe": true, "64:ff9b::a83f:8110": true,
		"127.0.0.1": false, "::1": false, "10.0.0.1": false, "192.168.1.1": false, "168.63.129.17": false, "100.100.100.201": false, "fd12::1": false,
		"8.8.8.8": false, "64:ff9b::808:808": false,
	} {
		if got := addresses.IsMetadata(netip.MustParseAddr(address)); got != want {
			t.Errorf("%s: %v", address, got)
		}
	}
}

// Nothing is sent: the connection is refused before it is made.
func TestDialerDoesNotConnectToMetadata(t *testing.T) {
	for _, address := range []string{"169.254.169.254:80", "168.63.129.16:80", "[fd00:ec2::254]:80"} {
		conn, err := addresses.Dialer(time.Second).DialContext(t.Context(), "tcp", address)
		if err == nil {
			conn.Close()
		}
		if err == nil || !strings.Contains(err.Error(), "name the address of the service") {
			t.Errorf("%s: %v", address, err)
		}
	}
}
