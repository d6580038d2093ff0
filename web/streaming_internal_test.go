package web

import (
	"context"
	"errors"
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"
)

// TestStreamEndsWithinFiveSeconds checks that a stream ends within 5 s after its visitor loses the permission,
// regardless of the amount of data, and that nothing is sent after it.
func TestStreamEndsWithinFiveSeconds(t *testing.T) {
	for name, pause := range map[string]time.Duration{"all the time": time.Millisecond, "now and then": 3 * time.Second, "never": time.Hour} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				ends := time.Now().Add(7 * time.Second)
				w := httptest.NewRecorder()
				follow(w, httptest.NewRequestWithContext(t.Context(), "GET", "/?live=1", nil), http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
					for {
						if _, err := io.WriteString(w, "data\n"); err != nil {
							return
						}
						select {
						case <-time.After(pause):
						case <-r.Context().Done():
							if n, err := w.Write([]byte("late")); n > 0 || err == nil {
								t.Error("an ended stream is written to")
							}
							return
						}
					}
				}), func(context.Context) error {
					if time.Now().Before(ends) {
						return nil
					}
					return problem(http.StatusUnauthorized, "revoked")
				})
				if took := time.Since(ends); took < 0 || took > 5*time.Second {
					t.Errorf("the stream ended %s after its token", took)
				}
				if strings.Contains(w.Body.String(), "late") {
					t.Error("an ended stream was written to")
				}
			})
		})
	}
}

// TestStreamOutlivesOneFailedCheck checks that a single failed check does not end a stream, but repeated failures do.
func TestStreamOutlivesOneFailedCheck(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		startedAt, requests := time.Now(), 0
		follow(httptest.NewRecorder(), httptest.NewRequestWithContext(t.Context(), "GET", "/?live=1", nil),
			http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) { <-r.Context().Done() }),
			func(context.Context) error {
				if requests++; requests == 2 || requests > 5 {
					return errors.New("the database is away")
				}
				return nil
			})
		if took := time.Since(startedAt); requests != 7 || took != 7*streamCheckInterval {
			t.Errorf("the stream ended after %d checks and %s, want 7", requests, took)
		}
	})
}

// TestAlertStreamOfStalledClientEnds checks that a stream ends even if its client does not read.
func TestAlertStreamOfStalledClientEnds(t *testing.T) {
	var revoked atomic.Bool
	blocked, ended := make(chan struct{}), make(chan struct{})
	s := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		follow(w, r, http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
			defer close(ended)
			writes := make(chan struct{}, 1)
			go func() { // no write for a moment: the buffers are full
				defer close(blocked)
				for {
					select {
					case <-writes:
					case <-time.After(200 * time.Millisecond):
						return
					}
				}
			}()
			flow := http.NewResponseController(w)
			for {
				_ = flow.SetWriteDeadline(time.Now().Add(writeTime)) // the write returns the error
				if _, err := w.Write(make([]byte, 64<<10)); err != nil {
					return
				}
				select {
				case writes <- struct{}{}:
				default:
				}
			}
		}), func(context.Context) error {
			if revoked.Load() {
				return problem(http.StatusUnauthorized, "revoked")
			}
			return nil
		})
	}))
	defer s.Close()
	request, err := http.NewRequestWithContext(t.Context(), "GET", s.URL, nil)
	if err != nil {
		t.Fatal(err)
	}
	answer, err := http.DefaultTransport.RoundTrip(request)
	if err != nil {
		t.Fatal(err)
	}
	defer answer.Body.Close()
	<-blocked
	revoked.Store(true)
	select {
	case <-ended:
	case <-time.After(writeTime / 2):
		t.Error("a stream to a client that does not read continues after its token was revoked")
	}
}

// TestStreamPermits checks that one token gets only a part of the permits of a node, and all tokens together no more
// than the node has.
func TestStreamPermits(t *testing.T) {
	p := newStreamSemaphore("live pages", 5, 2)
	who := func(id string) tokenRef { return tokenRef{id: id, who: id} }
	take := func(v tokenRef, want int, wantTexts ...string) {
		t.Helper()
		status := http.StatusOK
		full := p.acquire(v)
		if full != nil {
			status = full.Status
			for _, part := range wantTexts {
				if !strings.Contains(full.Detail, part) {
					t.Errorf("it does not contain %q: %s", part, full.Detail)
				}
			}
			if full.GetHeaders().Get("Retry-After") != "10" {
				t.Errorf("Retry-After is %v", full.GetHeaders())
			}
		}
		if status != want {
			t.Errorf("%s gets %d, want %d", v.id, status, want)
		}
	}
	take(who("ann"), 200)
	take(who("ann"), 200)
	take(who("ann"), 429, "ann has 2 live pages", "which is the limit; close one of them")
	take(who("bob"), 200)
	take(who("bob"), 200)
	take(tokenRef{}, 200)
	take(who("cas"), 503, "5 live pages", "close one of them, or use another node")
	take(tokenRef{}, 503)
	p.release(who("ann"))
	take(who("bob"), 429)
	take(who("cas"), 200)
	for _, id := range []string{"ann", "bob", "bob", "cas"} {
		p.release(who(id))
	}
	p.release(tokenRef{})
	if p.held != 0 || len(p.byOwner) != 0 {
		t.Errorf("%d places are taken, by %v", p.held, p.byOwner)
	}
	for range 5 {
		take(tokenRef{}, 200)
	}
}
