package web

import (
	"net/http"
	"net/netip"
	"sync"
	"time"
)

// Bounds of webhooks whose bodies are read before they prove whose they are.
const (
	maxUnproven       = 256 // of a node, which are 64 MiB
	maxClientUnproven = 32  // of one client
	hookReadTime      = 10 * time.Second
	unprovenRetry     = 5 * time.Second
)

// unproven counts the webhooks that have proved nothing yet, and refuses those beyond its bounds. Its zero value is ready to be
// used, and it is safe for concurrent use.
type unproven struct {
	mu       sync.Mutex
	taken    int
	byClient map[netip.Prefix]int
}

// take takes a place for a webhook of a client, or returns the problem that there is none.
func (u *unproven) take(client netip.Prefix) *Problem {
	u.mu.Lock()
	defer u.mu.Unlock()
	var full *Problem
	switch {
	case u.byClient[client] >= maxClientUnproven:
		full = problem(http.StatusTooManyRequests, "%d webhooks of your address are being read, and no address may have more at a time; send it again", maxClientUnproven)
	case u.taken >= maxUnproven:
		full = problem(http.StatusServiceUnavailable, "this node reads %d webhooks, and no more at a time; send it again", maxUnproven)
	default:
		if u.byClient == nil {
			u.byClient = make(map[netip.Prefix]int)
		}
		u.taken++
		u.byClient[client]++
		return nil
	}
	full.retry = unprovenRetry
	return full
}

// leave gives the place of a client's webhook back.
func (u *unproven) leave(client netip.Prefix) {
	u.mu.Lock()
	defer u.mu.Unlock()
	u.taken--
	if u.byClient[client]--; u.byClient[client] == 0 {
		delete(u.byClient, client)
	}
}
