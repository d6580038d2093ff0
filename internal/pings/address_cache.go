package pings

import (
	"maps"
	"sync"
	"time"
)

const (
	// kept is how long an address is believed without asking the store: the longest that one lives
	// on after another node took it away.
	kept = 5 * time.Second
	// most is how many answers are remembered.
	most = 20_000
)

// addressCache remembers addresses for moments, so that not every ping asks the store. What is not there
// is not remembered: it may be made at any time. The zero value is empty.
type addressCache struct {
	mu      sync.Mutex
	known   map[string]cachedAddresses
	changed int // how often addresses were changed here
}

// cachedAddresses is what the store said, and when.
type cachedAddresses struct {
	addresses []Address
	at        time.Time
}

func (s cachedAddresses) fresh(now time.Time) bool {
	age := now.Sub(s.at)
	return age >= 0 && age < kept
}

// changes is how often addresses were changed. It is read before the store is asked.
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

// keep remembers what the store said, unless addresses were changed since it was asked.
func (r *addressCache) keep(what string, a []Address, now time.Time, changes int) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.changed != changes {
		return
	}
	if r.known == nil {
		r.known = make(map[string]cachedAddresses)
	}
	if len(r.known) >= most {
		maps.DeleteFunc(r.known, func(_ string, s cachedAddresses) bool { return !s.fresh(now) })
	}
	if len(r.known) >= most {
		clear(r.known) // asking again is all that it costs
	}
	r.known[what] = cachedAddresses{a, now}
}

// forget forgets everything.
func (r *addressCache) forget() {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.changed++
	clear(r.known)
}
