package web_test

import (
	"fmt"
	"io"
	"net"
	"net/netip"
	"strings"
	"testing"
	"time"

	"deadman/internal/testwait"
	"deadman/web"
)

// TestUnverifiedWebhooksAreBounded checks that unverified webhooks of one client hold few bodies in memory, and do not
// block those of others.
func TestUnverifiedWebhooksAreBounded(t *testing.T) {
	s := newFixture(t, closedNode, withHooks, func(o *web.Options, _ *fixture) {
		o.TrustedProxies = []netip.Prefix{netip.MustParsePrefix("127.0.0.1/32")}
	})
	half := func(client string) net.Conn {
		t.Helper()
		c, err := net.Dial("tcp", s.Listener.Addr().String())
		failOn(t, err)
		t.Cleanup(func() { c.Close() })
		_, err = fmt.Fprintf(c, "POST /hooks/shop HTTP/1.1\r\nHost: 127.0.0.1\r\nX-Forwarded-For: %s\r\nContent-Length: 1000\r\n\r\n%s", client, strings.Repeat(" ", 900))
		failOn(t, err)
		return c
	}
	body, now := `{"id":"evt_1"}`, time.Now()
	shop := func(client string) answer {
		t.Helper()
		return requestPath(t, s.Server, "POST", "/hooks/shop", body, append(stripe(body, now), "X-Forwarded-For", client)...)
	}
	var waiting []net.Conn
	// fill sends 32 webhooks of each of n addresses, from 203.0.113.7 on, until one of another address has a status. They
	// end after some seconds, so on a slow machine they are sent again.
	fill := func(n int, from string, status int) {
		t.Helper()
		var sent time.Time
		testwait.Until(t, fmt.Sprintf("%d addresses are full", n), func() bool {
			if time.Since(sent) > 5*time.Second {
				for _, c := range waiting {
					c.Close()
				}
				waiting = nil
				for i := range 32 * n {
					waiting = append(waiting, half(fmt.Sprintf("203.0.113.%d", 7+i/32*10)))
				}
				sent = time.Now()
			}
			return shop(from).StatusCode == status
		})
	}
	fill(1, "203.0.113.7", 429)
	if a := shop("203.0.113.7"); a.Header.Get("Retry-After") != "5" || !strings.Contains(a.body, "32 webhooks of your address") {
		t.Errorf("%d %v %s", a.StatusCode, a.Header, a.body)
	}
	if a := shop("203.0.113.8"); a.StatusCode != 202 {
		t.Errorf("another address: %d %s", a.StatusCode, a.body)
	}
	fill(8, "203.0.113.8", 503)
	_, err := waiting[0].Write([]byte(strings.Repeat(" ", 100)))
	failOn(t, err)
	garbage := make([]byte, 12)
	_, err = io.ReadFull(waiting[0], garbage)
	failOn(t, err)
	if string(garbage) != "HTTP/1.1 401" {
		t.Errorf("one that was whole: %s", garbage)
	}
	if a := shop("203.0.113.8"); a.StatusCode != 202 {
		t.Errorf("once there is a place: %d %s", a.StatusCode, a.body)
	}
}
