package web

import (
	"net/http"
	"net/netip"
	"time"
)

// Bounds of webhooks with unverified signatures and bodies in memory.
const (
	maxUnproven       = 256 // of a node: 64 MiB
	maxClientUnproven = 32  // of one client
	hookReadTime      = 10 * time.Second
	unprovenRetry     = 5 * time.Second
)

// newUnproven bounds the unverified webhooks by client.
func newUnproven() *semaphore[netip.Prefix] {
	return &semaphore[netip.Prefix]{perNode: maxUnproven, perOwner: maxClientUnproven, full: func(_ netip.Prefix, node bool) (full *Problem) {
		defer func() { full.retry = unprovenRetry }()
		if node {
			return problem(http.StatusServiceUnavailable, "this node receives %d webhooks, which is its limit; send it again", maxUnproven)
		}
		return problem(http.StatusTooManyRequests, "%d webhooks of your address are in progress, which is the limit; send it again", maxClientUnproven)
	}}
}
