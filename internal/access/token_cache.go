package access

import (
	"maps"
	"sync"
	"time"
)

const (
	// tokenCacheTTL is how long an answer is believed without asking the store: the longest that a
	// token lives on after another node revoked it, and that a node stays open after another
	// one made the first token.
	tokenCacheTTL = 2 * time.Second
	// tokenCacheSize is how many secrets are remembered.
	tokenCacheSize = 1024
	// lastUsedInterval is how far apart the uses are that are written.
	lastUsedInterval = time.Minute
)

// pass is what a secret opens: a token or, where it is a session's, the session and its token, unless it is a person's.
type pass struct {
	token   Token
	session Session
}

// hash is that of the secret.
func (p pass) hash() [32]byte {
	if p.session.ID != "" {
		return p.session.Hash
	}
	return p.token.Hash
}

func (p pass) live(now time.Time) bool {
	held := p.session.Person != nil || p.token.ID != "" && p.token.Live(now)
	return held && (p.session.ID == "" || p.session.Live(now))
}

// usedAt is which use was noted last.
func (p *pass) usedAt() *time.Time {
	if p.session.ID != "" {
		return &p.session.LastUsedAt
	}
	return &p.token.LastUsedAt
}

// tokenCache remembers for moments what secrets open, so that not every request asks the store. What
// is denied is not remembered: it has to go the same way each time. The zero value is empty.
type tokenCache struct {
	mu      sync.Mutex
	passes  map[[32]byte]cachedToken
	changed int       // how often tokens were changed here
	freeAt  time.Time // when the store said that there was no token yet; zero: it did not
}

// cachedToken is what a secret opens, and when the store said so; zero: it has to be asked again.
type cachedToken struct {
	pass
	at time.Time
}

func (s cachedToken) fresh(now time.Time) bool {
	age := now.Sub(s.at)
	return age >= 0 && age < tokenCacheTTL && s.live(now)
}

// changes is how often tokens were changed. It is read before the store is asked.
func (r *tokenCache) changes() int {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.changed
}

func (r *tokenCache) get(hash [32]byte, now time.Time) (pass, bool) {
	r.mu.Lock()
	defer r.mu.Unlock()
	s, ok := r.passes[hash]
	if !ok || !s.fresh(now) {
		return pass{}, false
	}
	return s.pass, true
}

// has reports whether a secret opened something lately.
func (r *tokenCache) has(hash [32]byte) bool {
	r.mu.Lock()
	defer r.mu.Unlock()
	_, ok := r.passes[hash]
	return ok
}

// drop forgets a secret that opens nothing any more.
func (r *tokenCache) drop(hash [32]byte) {
	r.mu.Lock()
	defer r.mu.Unlock()
	delete(r.passes, hash)
}

// keep remembers what the store said, unless tokens were changed since it was asked.
func (r *tokenCache) keep(p pass, now time.Time, changes int) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.changed != changes {
		return
	}
	hash := p.hash()
	if s, ok := r.passes[hash]; ok && s.usedAt().After(*p.usedAt()) {
		*p.usedAt() = *s.usedAt() // its writing is under way
	}
	r.makeRoom(now)
	r.passes[hash] = cachedToken{p, now}
}

func (r *tokenCache) makeRoom(now time.Time) {
	if r.passes == nil {
		r.passes = make(map[[32]byte]cachedToken)
	}
	if len(r.passes) < tokenCacheSize {
		return
	}
	maps.DeleteFunc(r.passes, func(_ [32]byte, s cachedToken) bool { return !s.fresh(now) })
	if len(r.passes) >= tokenCacheSize {
		clear(r.passes) // asking again is all that it costs
	}
}

// used reports whether a use has to be written. Of several at once, one has to be.
func (r *tokenCache) used(p pass, now time.Time) bool {
	r.mu.Lock()
	defer r.mu.Unlock()
	hash := p.hash()
	s, ok := r.passes[hash]
	if ok {
		p = s.pass
	}
	if now.Sub(*p.usedAt()) < lastUsedInterval {
		return false
	}
	if ok {
		*s.usedAt() = now
		r.passes[hash] = s
	}
	return true
}

// forget has the store be asked again about everything.
func (r *tokenCache) forget() {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.changed++
	r.freeAt = time.Time{}
	for hash, s := range r.passes {
		s.at = time.Time{}
		r.passes[hash] = s
	}
}

// free reports whether the store said a moment ago that there was no token yet.
func (r *tokenCache) free(now time.Time) bool {
	r.mu.Lock()
	defer r.mu.Unlock()
	age := now.Sub(r.freeAt)
	return age >= 0 && age < tokenCacheTTL
}

// keepFree remembers that the store said so, unless tokens were changed since it was asked.
func (r *tokenCache) keepFree(now time.Time, changes int) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.changed == changes {
		r.freeAt = now
	}
}
