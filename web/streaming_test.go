package web_test

import (
	"bufio"
	"context"
	"io"
	"net/http"
	"strings"
	"testing"
	"time"

	"deadman/alerts"
	"deadman/internal/access"
	"deadman/web"
)

// stream opens a stream and returns the answer, with any status. The stream is closed at the end of the test.
func stream(t *testing.T, url string, header ...string) answer {
	t.Helper()
	request, err := http.NewRequestWithContext(t.Context(), "GET", url, nil)
	fatal(t, err)
	request.Header.Set("Accept", "text/event-stream")
	for i := 0; i < len(header); i += 2 {
		request.Header.Set(header[i], header[i+1])
	}
	transport := &http.Transport{}
	t.Cleanup(transport.CloseIdleConnections)
	begun, err := transport.RoundTrip(request)
	fatal(t, err)
	t.Cleanup(func() { _ = begun.Body.Close() })
	return answer{Response: begun}
}

// ends waits until a stream ends. It fails the test if the stream continues for much longer than permitted.
func ends(t *testing.T, what string, begun answer) {
	t.Helper()
	if begun.StatusCode != http.StatusOK {
		t.Fatalf("%s: %d", what, begun.StatusCode)
	}
	tooLong := time.AfterFunc(30*time.Second, func() {
		t.Errorf("%s goes on", what)
		_ = begun.Body.Close()
	})
	defer tooLong.Stop()
	for lines := bufio.NewScanner(begun.Body); lines.Scan(); {
		continue
	}
}

// alertsComing publishes alerts until the end of the test.
func (s *stand) alertsComing() {
	stop, done := make(chan struct{}), make(chan struct{})
	s.t.Cleanup(func() {
		close(stop)
		<-done
	})
	ctx := s.t.Context()
	go func() {
		defer close(done)
		for i := 0; ; i++ {
			select {
			case <-stop:
				return
			case <-time.After(20 * time.Millisecond):
			}
			a := alerts.Alert{ID: alerts.ID{byte(i), byte(i >> 8), 9}, Rule: "order-unshipped", Key: "1", Detail: alerts.Detail{Draft: alerts.Draft{Severity: alerts.Info, Text: "news"}}}
			if _, err := s.bus.AlertPublisher.Publish(ctx, []alerts.Alert{a}); err != nil {
				return
			}
		}
	}()
}

// TestStreamsEndWithTheirToken checks that a stream ends with the token of its start, even while alerts arrive all the
// time: if this node or another one revokes the token, if it expires, if its session ends, and if the node was open at
// the start.
func TestStreamsEndWithTheirToken(t *testing.T) {
	for _, path := range []string{"/api/v1/alerts", "/jobs?live=1"} {
		t.Run(path, func(t *testing.T) {
			s := newStand(t, closed)
			s.alertsComing()
			here := stream(t, s.URL+path, s.token("here", "", access.Read)...)
			there := stream(t, s.URL+path, s.token("there", "", access.Read)...)
			browser := stream(t, s.URL+path, s.login(s.token("ada", "", access.Read))...)
			_, short, err := s.keeper.Create(t.Context(), access.TokenRequest{Name: "short", Scopes: []access.Scope{access.Read}, Expires: 3 * time.Second})
			fatal(t, err)
			expires := stream(t, s.URL+path, "Authorization", "Bearer "+short)

			fatal(t, s.keeper.Revoke(t.Context(), "here"))
			fatal(t, access.NewTokens(s.store, time.Now).Revoke(t.Context(), "there"))
			sessions, err := s.keeper.Sessions(t.Context())
			fatal(t, err)
			fatal(t, s.keeper.EndSession(t.Context(), sessions[0].ID))
			ends(t, "the stream of a token that this node revoked", here)
			ends(t, "the stream of a token that another node revoked", there)
			ends(t, "the stream of a session that ended", browser)
			ends(t, "the stream of a token that expired", expires)
		})
	}
}

func TestStreamsOfAnOpenNodeEndWhenItCloses(t *testing.T) {
	s := newStand(t, closed, func(o *web.Options, s *stand) {
		o.Open = func(ctx context.Context) bool {
			some, err := s.keeper.HasTokens(ctx)
			return err == nil && !some
		}
	})
	s.alertsComing()
	narrow := s.token("narrow", "acme-*", access.Read) // it sees everything while the node is open
	strangers := []answer{stream(t, s.URL+"/api/v1/alerts"), stream(t, s.URL+"/jobs?live=1"), stream(t, s.URL+"/api/v1/alerts", narrow...)}
	s.token("first", "", access.Admin)
	for _, answer := range strangers {
		ends(t, "a stream that began on an open node that is closed by now", answer)
	}
}

// TestStreamsOfATokenAreBounded checks that one token cannot take all streams of a node.
func TestStreamsOfATokenAreBounded(t *testing.T) {
	s := newStand(t, closed)
	greedy, other := s.token("greedy", "", access.Read), s.token("other", "", access.Read)
	for path, limit := range map[string]int{"/api/v1/alerts": 32, "/jobs?live=1": 16} {
		var open []answer
		for range limit {
			begun := stream(t, s.URL+path, greedy...)
			if begun.StatusCode != http.StatusOK {
				t.Fatalf("%s: stream %d: %d", path, len(open)+1, begun.StatusCode)
			}
			open = append(open, begun)
		}
		for range 3 {
			full := stream(t, s.URL+path, greedy...)
			if full.StatusCode == http.StatusOK {
				t.Fatalf("%s: one token gets more than %d streams", path, limit)
			}
			body, err := io.ReadAll(full.Body)
			fatal(t, err)
			a := answer{full.Response, string(body)}
			isProblem(t, a, 429, web.TooManyRequests, "the token greedy", "close one of them")
			if a.Header.Get("Retry-After") != "10" {
				t.Errorf("%s: the client is told to wait %q", path, a.Header.Get("Retry-After"))
			}
		}
		if a := stream(t, s.URL+path, other...); a.StatusCode != http.StatusOK {
			t.Errorf("%s: another token gets %d", path, a.StatusCode)
		}
		if a := do(t, s.Server, "GET", "/jobs", "", greedy...); a.StatusCode != http.StatusOK || !strings.Contains(a.body, "<h1") {
			t.Errorf("a page that is not live: %d", a.StatusCode)
		}
		fatal(t, open[0].Body.Close())
		for deadline := time.Now().Add(30 * time.Second); ; {
			a := stream(t, s.URL+path, greedy...)
			if a.StatusCode == http.StatusOK {
				break
			}
			if time.Now().After(deadline) {
				t.Fatalf("%s: the place of a stream that was closed is not free: %d", path, a.StatusCode)
			}
		}
	}
}

// TestOtherLiveRequestsUseNoStreamPlace checks that the live parameter makes a stream only of GET requests for pages: other
// requests are answered as usual and take no place.
func TestOtherLiveRequestsUseNoStreamPlace(t *testing.T) {
	s := newStand(t, closed)
	header := s.token("me", "", access.Read)
	for range 20 {
		for _, path := range []string{"/login?live=1", "/healthz?live=1", "/openapi.json?live=1"} {
			if a := do(t, s.Server, "GET", path, "", append(header, "Accept", "text/event-stream")...); a.StatusCode != http.StatusOK {
				t.Fatalf("%s: %d", path, a.StatusCode)
			}
		}
		if a := do(t, s.Server, "HEAD", "/jobs?live=1", "", append(header, "Accept", "text/event-stream")...); a.StatusCode != http.StatusOK {
			t.Fatalf("HEAD: %d", a.StatusCode)
		}
	}
}
