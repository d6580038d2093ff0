package access

import (
	"maps"
	"sync"
	"time"
)

const (
	// tokenCacheTTL is the time for which a cached answer is used without a store query. It bounds the time that a
	// token still works after another node revoked it, and that a node stays open after another node created the
	// first token.
	tokenCacheTTL = 2 * time.Second
	// tokenCacheSize is the maximum number of cached secrets.
	tokenCacheSize = 1024
	// lastUsedInterval is the minimum interval between recorded uses.
	lastUsedInterval = time.Minute
)

// pass is the object behind a secret: a token, or a session with its token; a person's session has no token.
type pass struct {
	token   Token
	session Session
}

// hash returns the hash of the secret.
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

// usedAt returns the last recorded use.
func (p *pass) usedAt() *time.Time {
	if p.session.ID != "" {
		return &p.session.LastUsedAt
	}
	return &p.token.LastUsedAt
}

// tokenCache briefly caches the objects behind secrets, so that not every request queries the store. Denials are not
// cached: each must take the same path. The zero value is empty.
type tokenCache struct {
	mu      sync.Mutex
	passes  map[[32]byte]cachedToken
	changed int       // number of local token changes
	freeAt  time.Time // time at which the store had no tokens yet; zero: it had some
}

// cachedToken is the object behind a secret, and the time of the store's answer; a zero time requires a new query.
type cachedToken struct {
	pass
	at time.Time
}

func (s cachedToken) fresh(now time.Time) bool {
	age := now.Sub(s.at)
	return age >= 0 && age < tokenCacheTTL && s.live(now)
}

// changes returns the number of local token changes. It must be read before the store is queried.
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

// has reports whether a secret was recently valid.
func (r *tokenCache) has(hash [32]byte) bool {
	r.mu.Lock()
	defer r.mu.Unlock()
	_, ok := r.passes[hash]
	return ok
}

// drop removes a secret that is no longer valid.
func (r *tokenCache) drop(hash [32]byte) {
	r.mu.Lock()
	defer r.mu.Unlock()
	delete(r.passes, hash)
}

// keep caches an answer of the store, unless tokens were changed since the query began.
func (r *tokenCache) keep(p pass, now time.Time, changes int) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.changed != changes {
		return
	}
	hash := p.hash()
	if s, ok := r.passes[hash]; ok && s.usedAt().After(*p.usedAt()) {
		*p.usedAt() = *s.usedAt() // its recording is in progress
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
		clear(r.passes) // the only cost is further queries
	}
}

// used reports whether a use must be recorded. Of concurrent uses, one must be.
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

// forget invalidates all cached answers.
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

// free reports whether the store recently had no tokens yet.
func (r *tokenCache) free(now time.Time) bool {
	r.mu.Lock()
	defer r.mu.Unlock()
	age := now.Sub(r.freeAt)
	return age >= 0 && age < tokenCacheTTL
}

// keepFree caches that the store had no tokens, unless tokens were changed since the query began.
func (r *tokenCache) keepFree(now time.Time, changes int) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.changed == changes {
		r.freeAt = now
	}
}
