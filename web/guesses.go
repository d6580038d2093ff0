package web

import (
	"crypto/sha256"
	"log/slog"
	"math"
	"net/http"
	"net/netip"
	"sync"
	"time"

	"golang.org/x/time/rate"

	"deadman/internal/access"
)

const (
	// maxGuesses is how many secrets of one address are looked at and refused one after the other, and
	// guessInterval is how long it takes until one more is looked at. They bound the repeats of a refused
	// token, too.
	maxGuesses    = 20
	guessInterval = 6 * time.Second
	// refusalMemory is how long a refused secret is known again without a query: it opens nothing later.
	refusalMemory = time.Minute
	// maxRefusals is how many refused secrets of an address are known again.
	maxRefusals = 32
	// maxGuessers is how many addresses are remembered; beyond it the one that was refused longest ago is
	// forgotten.
	maxGuessers = 4096
	// guessLogInterval is how far apart the lines of the log about refused secrets are.
	guessLogInterval = 10 * time.Second
)

// guesses bounds the secrets that are tried from one address, so that a refused one does not always cost
// a query. It is safe for concurrent use.
type guesses struct {
	log     *slog.Logger
	metrics *Metrics
	now     func() time.Time

	mu       sync.Mutex
	by       map[netip.Prefix]*guesser
	loggedAt time.Time
	unlogged int // refused since then
}

// guesser is an address from which secrets were refused.
type guesser struct {
	left    *rate.Limiter // how many more secrets are looked at
	repeats *rate.Limiter // how many more repeats of a refused token are answered as the first one
	refused map[[sha256.Size]byte]time.Time
	at      time.Time // of the last one that was refused
}

func newGuesses(log *slog.Logger, metrics *Metrics, now func() time.Time) *guesses {
	return &guesses{log: log, metrics: metrics, now: now, by: make(map[netip.Prefix]*guesser)}
}

// check returns nil for a secret that has to be looked at. A secret that opened something on this node
// lately always is.
//
//  1. A secret that was refused a moment ago is refused again, without a query. A browser whose session is
//     over may ask as often as it likes, and is led to the login; a program that repeats a refused token is
//     told to wait.
//  2. Where too many secrets of the address were refused, no other one is looked at until later.
func (g *guesses) check(r *http.Request, keeper *access.Tokens, c credential) error {
	if keeper != nil && keeper.Knows(c.secret) {
		return nil
	}
	again, wait := g.state(guesserOf(r), c)
	switch {
	case wait > 0:
		g.metrics.Refused(refusedUnseen)
		p := problem(http.StatusTooManyRequests, "too many tokens from %s were refused, and no more are looked at for now; wait %d s, and send one that `deadman token list` shows as live",
			clientAddr(r.Context()), seconds(wait))
		p.retry = wait
		return p
	case again:
		g.note(r, c.kind)
		return c.denial()
	}
	return nil
}

// state reports whether a secret of an address was refused a moment ago, and how long it has to wait.
func (g *guesses) state(from netip.Prefix, c credential) (again bool, wait time.Duration) {
	g.mu.Lock()
	defer g.mu.Unlock()
	one, now := g.by[from], g.now()
	if one == nil {
		return false, 0
	}
	at, known := one.refused[sha256.Sum256([]byte(c.secret))]
	bucket := one.left
	if again = known && now.Sub(at) < refusalMemory; again {
		if c.kind == bySession || one.repeats.AllowN(now, 1) {
			return true, 0
		}
		bucket = one.repeats
	}
	missing := 1 - bucket.TokensAt(now)
	return again, time.Duration(missing * float64(guessInterval))
}

// refused takes down a secret that was looked at and opens nothing.
func (g *guesses) refused(r *http.Request, c credential) {
	g.note(r, c.kind)
	g.mu.Lock()
	defer g.mu.Unlock()
	now, from := g.now(), guesserOf(r)
	one := g.by[from]
	if one == nil {
		g.makeRoom(now)
		one = &guesser{
			left: rate.NewLimiter(rate.Every(guessInterval), maxGuesses), repeats: rate.NewLimiter(rate.Every(guessInterval), maxGuesses),
			refused: make(map[[sha256.Size]byte]time.Time),
		}
		g.by[from] = one
	}
	if len(one.refused) >= maxRefusals {
		clear(one.refused)
	}
	one.refused[sha256.Sum256([]byte(c.secret))] = now
	one.at = now
	one.left.AllowN(now, 1) // there may be none left, where several came at once
}

// note counts a refusal, and says so in the log from time to time, with more about it.
func (g *guesses) note(r *http.Request, kind string, more ...any) {
	g.metrics.Refused(kind)
	g.mu.Lock()
	defer g.mu.Unlock()
	now := g.now()
	if now.Sub(g.loggedAt) < guessLogInterval {
		g.unlogged++
		return
	}
	about := []any{"kind", kind, "from", clientAddr(r.Context()), "path", logged(r.URL.Path), "others_not_logged", g.unlogged}
	g.log.WarnContext(r.Context(), "token refused", append(about, more...)...)
	g.loggedAt, g.unlogged = now, 0
}

// makeRoom forgets addresses of which as many secrets are looked at as of a new one and, where there are
// none, the one that was refused longest ago.
func (g *guesses) makeRoom(now time.Time) {
	if len(g.by) < maxGuessers {
		return
	}
	var oldest netip.Prefix
	for from, one := range g.by {
		if one.left.TokensAt(now) >= maxGuesses {
			delete(g.by, from)
			continue
		}
		if old := g.by[oldest]; old == nil || one.at.Before(old.at) {
			oldest = from
		}
	}
	if len(g.by) >= maxGuessers {
		delete(g.by, oldest)
	}
}

// guesserOf is whose guesses are counted together: an IPv4 address, or a network of 2^64 IPv6 addresses,
// which is what one customer has.
func guesserOf(r *http.Request) netip.Prefix {
	addr, err := netip.ParseAddr(clientAddr(r.Context()))
	if err != nil {
		return netip.Prefix{} // all that have no address are one
	}
	addr = addr.Unmap().WithZone("")
	bits := addr.BitLen()
	if addr.Is6() {
		bits = 64
	}
	return netip.PrefixFrom(addr, bits).Masked()
}

// seconds is a wait in whole seconds, at least one.
func seconds(wait time.Duration) int { return max(1, int(math.Ceil(wait.Seconds()))) }
