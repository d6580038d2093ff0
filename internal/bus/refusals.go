package bus

import (
	"log/slog"
	"sync"
	"time"
)

// refusalsEvery is how often refusals of one kind are logged at the most. A client that is refused
// comes again within moments, and its lines would hide all others.
const refusalsEvery = time.Minute

// maxUserSaid is how much of a user's name is repeated, in bytes: whoever connects chooses it.
const maxUserSaid = 40

// refusals counts what an embedded server refuses to its clients. It is safe for concurrent use.
type refusals struct {
	log *slog.Logger
	dir string // where the secrets of users are

	mu          sync.Mutex
	logins      refusal
	permissions refusal
}

// refusal is one kind of refusals.
type refusal struct {
	count, logged uint64
	loggedAt      time.Time // zero: none was logged
}

// next counts one more, and reports whether it is logged, and how many were not logged before it.
func (r *refusal) next(now time.Time) (unlogged uint64, due bool) {
	r.count++
	if !r.loggedAt.IsZero() && now.Sub(r.loggedAt) < refusalsEvery {
		return 0, false
	}
	unlogged = r.count - r.logged - 1
	r.logged, r.loggedAt = r.count, now
	return unlogged, true
}

// login counts a client that did not get in.
func (r *refusals) login(user, from string) {
	r.mu.Lock()
	unlogged, due := r.logins.next(time.Now())
	r.mu.Unlock()
	if due {
		r.log.Warn("a NATS client was refused: it shows no secret that the server knows; each user has a file with its secret",
			"user", prefix(user, maxUserSaid), "from", from, "users", r.dir, "not_logged_before", unlogged)
	}
}

// permission counts what a client that got in is not permitted, in the words of the server.
func (r *refusals) permission(text string) {
	r.mu.Lock()
	unlogged, due := r.permissions.next(time.Now())
	r.mu.Unlock()
	if due {
		r.log.Warn("a NATS client was refused what its user may not do", "nats", text, "not_logged_before", unlogged)
	}
}

// counts are the refusals so far.
func (r *refusals) counts() (logins, permissions uint64) {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.logins.count, r.permissions.count
}
