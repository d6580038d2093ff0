package pings

import (
	"maps"
	"sync"
	"time"
)

const (
	// kept is the time an address is cached. It is also the longest time that an address deleted by another node still
	// works.
	kept = 5 * time.Second
	// maxAddresses is the maximum number of cached results.
	maxAddresses = 20_000
)

// addressCache caches addresses for a few seconds to save a store query per ping. Unknown addresses are not cached,
// because they may be created at any time. The zero value is empty.
type addressCache struct {
	mu      sync.Mutex
	known   map[string]cachedAddresses
	changed int // counts address changes made by this node
}

// cachedAddresses is a store result and its time.
type cachedAddresses struct {
	addresses []Address
	at        time.Time
}

func (s cachedAddresses) fresh(now time.Time) bool {
	age := now.Sub(s.at)
	return age >= 0 && age < kept
}

// changes returns the number of address changes made by this node. Callers read it before they query the store.
func (r *addressCache) changes() int {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.changed
}

func (r *addressCache) get(what string, now time.Time) ([]Address, bool) {
	r.mu.Lock()
	defer r.mu.Unlock()
	s, ok := r.known[what]
	return s.addresses, ok && s.fresh(now)
}

// keep caches a store result, unless addresses were changed since the query began.
func (r *addressCache) keep(what string, a []Address, now time.Time, changes int) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.changed != changes {
		return
	}
	if r.known == nil {
		r.known = make(map[string]cachedAddresses)
	}
	if len(r.known) >= maxAddresses {
		maps.DeleteFunc(r.known, func(_ string, s cachedAddresses) bool { return !s.fresh(now) })
	}
	if len(r.known) >= maxAddresses {
		clear(r.known) // costs only new queries
	}
	r.known[what] = cachedAddresses{a, now}
}

// forget clears the cache.
func (r *addressCache) forget() {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.changed++
	clear(r.known)
}
