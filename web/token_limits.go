package web

import (
	"context"
	"net/http"
	"sync"
	"time"

	"golang.org/x/time/rate"
)

const (
	// minSpenders is how many tokens are remembered before those with all of their requests left are forgotten.
	minSpenders = 1024
	// limitedAgain is the shortest time between two log messages about one token's excess of requests.
	limitedAgain = time.Minute
)

// spending is the remaining requests of tokens. It is safe for concurrent use; the zero value is ready.
type spending struct {
	mu       sync.Mutex
	spenders map[string]*spender // by the token's id
	full     int                 // number of spenders that need room for more
}

// spender is the remaining requests of one token.
type spender struct {
	left     *rate.Limiter
	loggedAt time.Time
}

// spend deducts a request from a token's limit: perSecond, and twice as many at once. toLog reports that a refusal is due
// to be logged.
func (s *spending) spend(id string, perSecond int, now time.Time) (ok, toLog bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	of, known := s.spenders[id]
	if !known {
		s.makeRoom(now)
		of = &spender{left: rate.NewLimiter(rate.Limit(perSecond), 2*perSecond)}
		s.spenders[id] = of
	}
	if of.left.AllowN(now, 1) {
		return true, false
	}
	if age := now.Sub(of.loggedAt); age < 0 || age >= limitedAgain {
		of.loggedAt, toLog = now, true
	}
	return false, toLog
}

// makeRoom forgets tokens in the same state as new ones. It reads all tokens only after their number doubled, so that a new
// token costs the same while many others are busy. s.mu is held.
func (s *spending) makeRoom(now time.Time) {
	if s.spenders == nil {
		s.spenders = make(map[string]*spender)
	}
	if len(s.spenders) < max(s.full, minSpenders) {
		return
	}
	for id, of := range s.spenders {
		if of.left.TokensAt(now) >= float64(of.left.Burst()) {
			delete(s.spenders, id)
		}
	}
	s.full = 2 * len(s.spenders)
}

// countedKey is the context's key of a request that was deducted from its token's limit.
type countedKey struct{}

// tokenRates limits the requests of tokens.
type tokenRates struct {
	*responder
	perSecond int // of each token; 0: no limit
	spending  spending
	now       func() time.Time
}

// limited refuses requests beyond the limit of their token. Requests that a page makes within the process count as part
// of the page's request. An open node has no tokens, and no such limit.
func (a *tokenRates) limited(next http.Handler) http.Handler {
	if a.perSecond <= 0 {
		return next
	}
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		token, counted := principalOf(r.Context()).token, r.Context().Value(countedKey{}) != nil
		if token.ID == "" || counted {
			next.ServeHTTP(w, r)
			return
		}
		ok, toLog := a.spending.spend(token.ID, a.perSecond, a.now())
		if !ok {
			if toLog {
				a.log.WarnContext(r.Context(), "a token sends too many requests", "token", token.Name, "token_id", token.ID, "from", clientAddr(r.Context()), "per_second", a.perSecond)
			}
			a.fail(w, r, problem(http.StatusTooManyRequests,
				"%s sends more than %d requests a second; wait a second, send fewer, or have --token-rate raised", token.Who(), a.perSecond))
			return
		}
		next.ServeHTTP(w, r.WithContext(context.WithValue(r.Context(), countedKey{}, true)))
	})
}
