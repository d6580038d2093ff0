package web

import (
	"context"
	"errors"
	"net/http/httptest"
	"strconv"
	"testing"
	"time"

	"deadman/alerts"
	"deadman/internal/acklinks"
	"deadman/internal/store"
	"deadman/internal/store/storetest"
)

// A full limiter forgets idle tokens, and reads all of its tokens only after their number doubled.
func TestFullLimiterIsReadRarely(t *testing.T) {
	var s spending
	now, sent := time.Now(), 0
	add := func(until int) {
		for ; len(s.spenders) < until; sent++ {
			if ok, _ := s.spend(strconv.Itoa(sent), 5, now); !ok {
				t.Fatal("the first request of a token is refused")
			}
		}
	}
	add(minSpenders + 1) // none is idle
	now = now.Add(time.Minute)
	add(minSpenders + 2)
	if len(s.spenders) != minSpenders+2 || sent != minSpenders+2 {
		t.Errorf("%d tokens of %d: all were read for a new one", len(s.spenders), sent)
	}
	add(2 * minSpenders)
	now = now.Add(time.Minute)
	if s.spend("last", 5, now); len(s.spenders) != 1 {
		t.Errorf("%d tokens, although all but the last one are idle", len(s.spenders))
	}
}

// Only links that deadman signed count in the limit of requests with one link: any number of others fill no memory. An
// expired link counts.
func TestOnlySignedLinksAreCounted(t *testing.T) {
	db, err := store.Open(t.Context(), store.Options{DataDir: storetest.DataDir(t)})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = db.Close() })
	key, err := db.AckKey(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	now := time.Now()
	pages := &ackLinkPages{
		links: &acklinks.Links{Store: db, Now: func() time.Time { return now }, Enabled: func(string, string) bool { return true }},
		now:   func() time.Time { return now },
	}
	opened := 0
	visit := func(token string) error {
		_, err := pages.open(httptest.NewRequest("GET", "/", nil), token, func(context.Context, string) (acklinks.State, error) {
			opened++
			return acklinks.State{}, nil
		})
		return err
	}
	for i := range 50 {
		if err := visit("random" + strconv.Itoa(i)); !errors.Is(err, acklinks.ErrInvalid) {
			t.Errorf("a random link: %v", err)
		}
	}
	if len(pages.opened.spenders) != 0 || opened != 0 {
		t.Errorf("%d random links are counted, %d opened", len(pages.opened.spenders), opened)
	}
	for name, c := range map[string]struct {
		expiresAt time.Time
		is        error
		opened    int
	}{"valid": {now.Add(time.Hour), nil, 2 * maxLinkRequests}, "expired": {now.Add(-time.Hour), acklinks.ErrExpired, 0}} {
		token := acklinks.Sign(key, acklinks.Target{Channel: "team", Alert: alerts.ID{1}, ExpiresAt: c.expiresAt})
		opened = 0
		for i := range 2 * maxLinkRequests {
			if err := visit(token); !errors.Is(err, c.is) {
				t.Errorf("request %d with the %s link: %v", i+1, name, err)
			}
		}
		var refused *Problem
		if err := visit(token); !errors.As(err, &refused) || refused.Status != 429 || opened != c.opened {
			t.Errorf("one request too many with the %s link, opened %d times: %v", name, opened, err)
		}
	}
}
