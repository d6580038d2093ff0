package bus

import (
	"log/slog"
	"sync"
	"time"
)

// refusalsEvery is the shortest interval of logging one kind of refusal. A refused client retries within moments, and
// its lines would hide all others.
const refusalsEvery = time.Minute

// maxUserLogged is the logged length of a user name in bytes, because the client chooses the name.
const maxUserLogged = 40

// refusals counts the refusals of an embedded server. It is safe for concurrent use.
type refusals struct {
	log *slog.Logger
	dir string // folder of the users' secrets

	mu          sync.Mutex
	logins      refusal
	permissions refusal
}

// refusal counts one kind of refusal.
type refusal struct {
	count, logged uint64
	loggedAt      time.Time // zero: none was logged
}

// next counts a refusal. It reports whether to log it, and the number of unlogged ones before it.
func (r *refusal) next(now time.Time) (unlogged uint64, due bool) {
	r.count++
	if !r.loggedAt.IsZero() && now.Sub(r.loggedAt) < refusalsEvery {
		return 0, false
	}
	unlogged = r.count - r.logged - 1
	r.logged, r.loggedAt = r.count, now
	return unlogged, true
}

// login counts a client that failed to log in.
func (r *refusals) login(user, from string) {
	r.mu.Lock()
	unlogged, due := r.logins.next(time.Now())
	r.mu.Unlock()
	if due {
		r.log.Warn("a NATS client was refused: it shows no secret that the server knows; each user has a file with its secret",
			"user", prefix(user, maxUserLogged), "from", from, "users", r.dir, "not_logged_before", unlogged)
	}
}

// permission counts a denied request of a client, in the server's words.
func (r *refusals) permission(text string) {
	r.mu.Lock()
	unlogged, due := r.permissions.next(time.Now())
	r.mu.Unlock()
	if due {
		r.log.Warn("a NATS client was refused what its user may not do", "nats", text, "not_logged_before", unlogged)
	}
}

// counts returns the refusals so far.
func (r *refusals) counts() (logins, permissions uint64) {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.logins.count, r.permissions.count
}
