package access

import (
	"maps"
	"sync"
	"time"
)

const (
	// kept is how long an answer is believed without asking the store: the longest that a
	// token lives on after another node revoked it, and that a node stays open after another
	// one made the first token.
	kept = 5 * time.Second
	// most is how many tokens are remembered.
	most = 1024
	// noted is how far apart the uses are that are written.
	noted = time.Minute
)

// recent remembers live tokens for moments, so that not every request asks the store. What
// is denied is not remembered: it has to go the same way each time. The zero value is empty.
type recent struct {
	mu      sync.Mutex
	tokens  map[[32]byte]seen
	changed int       // how often tokens were changed here
	freeAt  time.Time // when the store said that there was no token yet; zero: it did not
}

// seen is a token, and when the store said so.
type seen struct {
	Token
	at time.Time
}

func (s seen) fresh(now time.Time) bool {
	age := now.Sub(s.at)
	return age >= 0 && age < kept && s.Live(now)
}

// changes is how often tokens were changed. It is read before the store is asked.
func (r *recent) changes() int {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.changed
}

func (r *recent) get(hash [32]byte, now time.Time) (Token, bool) {
	r.mu.Lock()
	defer r.mu.Unlock()
	s, ok := r.tokens[hash]
	return s.Token, ok && s.fresh(now)
}

// keep remembers what the store said, unless tokens were changed since it was asked.
func (r *recent) keep(t Token, now time.Time, changes int) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.changed != changes {
		return
	}
	if s := r.tokens[t.Hash]; s.LastUsedAt.After(t.LastUsedAt) {
		t.LastUsedAt = s.LastUsedAt // its writing is under way
	}
	r.makeRoom(now)
	r.tokens[t.Hash] = seen{t, now}
}

func (r *recent) makeRoom(now time.Time) {
	if r.tokens == nil {
		r.tokens = make(map[[32]byte]seen)
	}
	if len(r.tokens) < most {
		return
	}
	maps.DeleteFunc(r.tokens, func(_ [32]byte, s seen) bool { return !s.fresh(now) })
	if len(r.tokens) >= most {
		clear(r.tokens) // asking again is all that it costs
	}
}

// used reports whether a use has to be written. Of several at once, one has to be.
func (r *recent) used(t Token, now time.Time) bool {
	r.mu.Lock()
	defer r.mu.Unlock()
	s, ok := r.tokens[t.Hash]
	if ok {
		t = s.Token
	}
	if now.Sub(t.LastUsedAt) < noted {
		return false
	}
	if ok {
		s.LastUsedAt = now
		r.tokens[t.Hash] = s
	}
	return true
}

// forget forgets everything.
func (r *recent) forget() {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.changed++
	r.freeAt = time.Time{}
	clear(r.tokens)
}

// free reports whether the store said a moment ago that there was no token yet.
func (r *recent) free(now time.Time) bool {
	r.mu.Lock()
	defer r.mu.Unlock()
	age := now.Sub(r.freeAt)
	return age >= 0 && age < kept
}

// keepFree remembers that the store said so, unless tokens were changed since it was asked.
func (r *recent) keepFree(now time.Time, changes int) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.changed == changes {
		r.freeAt = now
	}
}
