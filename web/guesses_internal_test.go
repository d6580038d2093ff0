package web

import (
	"context"
	"fmt"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"testing"
	"time"
)

// requestFromAddress returns a request from an address.
func requestFromAddress(addr string) *http.Request {
	r := httptest.NewRequest(http.MethodGet, "/api/v1/jobs", nil)
	r.RemoteAddr = addr
	return r.WithContext(context.WithValue(r.Context(), clientKey{}, clientOf(r, nil)))
}

// TestTokenGuesses checks that refused secrets are checked again later, that a /64 network counts as one guesser, and that
// the number of remembered guessers is bounded.
func TestTokenGuesses(t *testing.T) {
	now := time.Date(2026, 11, 25, 12, 0, 0, 0, time.UTC)
	g := newGuesses(slog.New(slog.DiscardHandler), nil, func() time.Time { return now })
	n := 0
	try := func(addr string) int {
		t.Helper()
		n++
		c := credential{fmt.Sprint("dm_", n), byToken}
		if err := g.check(requestFromAddress(addr), nil, c); err != nil {
			return 429
		}
		g.refused(requestFromAddress(addr), c)
		return 401
	}
	series := func(addr string, tries int) (verified int) {
		for range tries {
			if try(addr) == 401 {
				verified++
			}
		}
		return verified
	}
	if verified := series("192.0.2.7:1", 100); verified != maxGuesses {
		t.Errorf("of 100 wrong tokens %d are verified, want %d", verified, maxGuesses)
	}
	now = now.Add(guessInterval)
	if verified := series("192.0.2.7:2", 100); verified != 1 {
		t.Errorf("a while later %d are verified, want 1", verified)
	}
	if verified := series("[::ffff:192.0.2.7]:2", 5); verified != 0 {
		t.Errorf("an address that is written otherwise has %d", verified)
	}
	now = now.Add(time.Hour)
	if verified := series("192.0.2.7:2", 100); verified != maxGuesses {
		t.Errorf("an hour later %d are verified, want %d", verified, maxGuesses)
	}
	verified := 0
	for i := range 100 {
		verified += series(fmt.Sprintf("[2001:db8::%x:1]:4", i), 1)
	}
	if verified != maxGuesses {
		t.Errorf("of one IPv6 network %d are verified, want %d", verified, maxGuesses)
	}
	if try("[2001:db8:0:1::1]:4") != 401 {
		t.Error("another IPv6 network is limited with it")
	}
	if try("@") != 401 {
		t.Error("a client without an address is not answered")
	}
	var newest string
	for i := range maxGuessers + 256 {
		now = now.Add(time.Millisecond)
		newest = fmt.Sprintf("10.%d.%d.1:4", i>>8, i&255)
		try(newest)
	}
	if len(g.by) > maxGuessers {
		t.Errorf("%d addresses are remembered, want at most %d", len(g.by), maxGuessers)
	}
	if g.by[guesserOf(requestFromAddress(newest))] == nil {
		t.Error("the newest address is forgotten")
	}
	for _, one := range g.by {
		if len(one.refused) > maxRefusals {
			t.Errorf("%d secrets of one address are remembered", len(one.refused))
		}
	}
}
