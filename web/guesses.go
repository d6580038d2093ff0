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
	// maxGuesses is how many secrets of one address are checked and refused in a row, and guessInterval how long it
	// takes until one more is checked. They also bound repeats of a refused token.
	maxGuesses    = 20
	guessInterval = 6 * time.Second
	// refusalMemory is how long a refused secret is refused again without a query, since it cannot become valid later.
	refusalMemory = time.Minute
	// maxRefusals is how many refused secrets of an address are remembered.
	maxRefusals = 32
	// maxGuessers is how many addresses are remembered; beyond it, the one refused longest ago is forgotten.
	maxGuessers = 4096
	// guessLogInterval is the shortest time between two log messages about refused secrets.
	guessLogInterval = 10 * time.Second
)

// guesses bounds the secrets tried from one address, so that a refused secret does not always cost a query. It is safe
// for concurrent use.
type guesses struct {
	log     *slog.Logger
	metrics *Metrics
	now     func() time.Time

	mu       sync.Mutex
	by       map[netip.Prefix]*guesser
	loggedAt time.Time
	unlogged int // refused since then
}

// guesser is an address that sent refused secrets.
type guesser struct {
	left    *rate.Limiter // secrets that are still checked
	repeats *rate.Limiter // repeats of a refused token that still get the first answer
	refused map[[sha256.Size]byte]time.Time
	at      time.Time // of the last refusal
}

func newGuesses(log *slog.Logger, metrics *Metrics, now func() time.Time) *guesses {
	return &guesses{log: log, metrics: metrics, now: now, by: make(map[netip.Prefix]*guesser)}
}

// check returns nil for a secret that has to be checked. A secret accepted on this node lately always is.
//
//  1. A secret that was refused a moment ago is refused again without a query. A browser with an expired session may
//     repeat it without limit and is sent to the login; a program that repeats a refused token has to wait.
//  2. After too many refused secrets of the address, no other one is checked until later.
func (g *guesses) check(r *http.Request, keeper *access.Tokens, c credential) error {
	if keeper != nil && keeper.IsKnown(c.secret) {
		return nil
	}
	again, wait := g.state(guesserOf(r), c)
	switch {
	case wait > 0:
		g.metrics.Refused(refusedUnseen)
		p := problem(http.StatusTooManyRequests, "too many invalid tokens from %s; wait %d s, and send a token that `deadman token list` shows as active",
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

// refused records a secret that was checked and is invalid.
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
	one.left.AllowN(now, 1) // several concurrent requests may have used the last one
}

// note counts a refusal, and logs it with the given attributes if the last log message is guessLogInterval old.
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

// makeRoom forgets addresses with all of their secrets left and, without such addresses, the one refused longest ago.
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

// guesserOf returns the network of a client for the limits: an IPv4 address, or a /64 of IPv6, the usual size for one
// customer.
func guesserOf(r *http.Request) netip.Prefix {
	addr, err := netip.ParseAddr(clientAddr(r.Context()))
	if err != nil {
		return netip.Prefix{} // requests without an address share one
	}
	addr = addr.Unmap().WithZone("")
	bits := addr.BitLen()
	if addr.Is6() {
		bits = 64
	}
	return netip.PrefixFrom(addr, bits).Masked()
}

// seconds rounds a wait up to whole seconds, at least one.
func seconds(wait time.Duration) int { return max(1, int(math.Ceil(wait.Seconds()))) }
