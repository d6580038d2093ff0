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

// openStream opens a stream and returns the answer, with any status. The stream is closed at the end of the test.
func openStream(t *testing.T, url string, header ...string) answer {
	t.Helper()
	request, err := http.NewRequestWithContext(t.Context(), "GET", url, nil)
	failOn(t, err)
	request.Header.Set("Accept", "text/event-stream")
	for i := 0; i < len(header); i += 2 {
		request.Header.Set(header[i], header[i+1])
	}
	transport := &http.Transport{}
	t.Cleanup(transport.CloseIdleConnections)
	begun, err := transport.RoundTrip(request)
	failOn(t, err)
	t.Cleanup(func() { _ = begun.Body.Close() })
	return answer{Response: begun}
}

// waitForEnd waits until a stream ends. It fails the test if the stream continues for much longer than permitted.
func waitForEnd(t *testing.T, what string, begun answer) {
	t.Helper()
	if begun.StatusCode != http.StatusOK {
		t.Fatalf("%s: %d", what, begun.StatusCode)
	}
	tooLong := time.AfterFunc(30*time.Second, func() {
		t.Errorf("%s continues", what)
		_ = begun.Body.Close()
	})
	defer tooLong.Stop()
	for lines := bufio.NewScanner(begun.Body); lines.Scan(); {
		continue
	}
}

// publishAlertsForever publishes alerts until the end of the test.
func (s *fixture) publishAlertsForever() {
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
			a := alerts.Alert{ID: alerts.ID{byte(i), byte(i >> 8), 9}, Rule: "order-unshipped", Key: "1", Detail: alerts.Detail{Draft: alerts.Draft{Severity: alerts.Info, Text: "late"}}}
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
			s := newFixture(t, closedNode)
			s.publishAlertsForever()
			here := openStream(t, s.URL+path, s.newToken("here", "", access.Read)...)
			there := openStream(t, s.URL+path, s.newToken("there", "", access.Read)...)
			browser := openStream(t, s.URL+path, s.logIn(s.newToken("ada", "", access.Read))...)
			_, short, err := s.keeper.Create(t.Context(), access.TokenRequest{Name: "short", Scopes: []access.Scope{access.Read}, Expires: 3 * time.Second})
			failOn(t, err)
			expires := openStream(t, s.URL+path, "Authorization", "Bearer "+short)

			failOn(t, s.keeper.Revoke(t.Context(), "here"))
			failOn(t, access.NewTokens(s.store, time.Now).Revoke(t.Context(), "there"))
			sessions, err := s.keeper.Sessions(t.Context())
			failOn(t, err)
			failOn(t, s.keeper.EndSession(t.Context(), sessions[0].ID))
			waitForEnd(t, "the stream of a token that this node revoked", here)
			waitForEnd(t, "the stream of a token that another node revoked", there)
			waitForEnd(t, "the stream of a session that ended", browser)
			waitForEnd(t, "the stream of a token that expired", expires)
		})
	}
}

func TestStreamsOfOpenNodeEndWhenItCloses(t *testing.T) {
	s := newFixture(t, closedNode, func(o *web.Options, s *fixture) {
		o.Open = func(ctx context.Context) (bool, error) {
			some, err := s.keeper.HasTokens(ctx)
			return !some, err
		}
	})
	s.publishAlertsForever()
	narrow := s.newToken("narrow", "acme-*", access.Read) // it sees everything while the node is open
	strangers := []answer{openStream(t, s.URL+"/api/v1/alerts"), openStream(t, s.URL+"/jobs?live=1"), openStream(t, s.URL+"/api/v1/alerts", narrow...)}
	s.newToken("first", "", access.Admin)
	for _, answer := range strangers {
		waitForEnd(t, "a stream that began on an open node that is closed by now", answer)
	}
}

// TestStreamsOfTokenAreBounded checks that one token cannot take all streams of a node.
func TestStreamsOfTokenAreBounded(t *testing.T) {
	s := newFixture(t, closedNode)
	greedy, other := s.newToken("greedy", "", access.Read), s.newToken("other", "", access.Read)
	for path, limit := range map[string]int{"/api/v1/alerts": 32, "/jobs?live=1": 16} {
		var open []answer
		for range limit {
			begun := openStream(t, s.URL+path, greedy...)
			if begun.StatusCode != http.StatusOK {
				t.Fatalf("%s: stream %d: %d", path, len(open)+1, begun.StatusCode)
			}
			open = append(open, begun)
		}
		for range 3 {
			full := openStream(t, s.URL+path, greedy...)
			if full.StatusCode == http.StatusOK {
				t.Fatalf("%s: one token gets more than %d streams", path, limit)
			}
			body, err := io.ReadAll(full.Body)
			failOn(t, err)
			a := answer{full.Response, string(body)}
			checkProblem(t, a, 429, web.TooManyRequests, "the token greedy", "close one of them")
			if a.Header.Get("Retry-After") != "10" {
				t.Errorf("%s: Retry-After is %q", path, a.Header.Get("Retry-After"))
			}
		}
		if a := openStream(t, s.URL+path, other...); a.StatusCode != http.StatusOK {
			t.Errorf("%s: another token gets %d", path, a.StatusCode)
		}
		if a := requestPath(t, s.Server, "GET", "/jobs", "", greedy...); a.StatusCode != http.StatusOK || !strings.Contains(a.body, "<h1") {
			t.Errorf("a page that is not live: %d", a.StatusCode)
		}
		failOn(t, open[0].Body.Close())
		for deadline := time.Now().Add(30 * time.Second); ; {
			a := openStream(t, s.URL+path, greedy...)
			if a.StatusCode == http.StatusOK {
				break
			}
			if time.Now().After(deadline) {
				t.Fatalf("%s: the place of a stream that was closed is not free: %d", path, a.StatusCode)
			}
		}
	}
}

// TestLiveRequestsTakeNoStreamPermit checks that the live parameter makes a stream only of GET requests for pages: other
// requests are answered as usual and take no permit.
func TestLiveRequestsTakeNoStreamPermit(t *testing.T) {
	s := newFixture(t, closedNode)
	header := s.newToken("me", "", access.Read)
	for range 20 {
		for _, path := range []string{"/login?live=1", "/healthz?live=1", "/openapi.json?live=1"} {
			if a := requestPath(t, s.Server, "GET", path, "", append(header, "Accept", "text/event-stream")...); a.StatusCode != http.StatusOK {
				t.Fatalf("%s: %d", path, a.StatusCode)
			}
		}
		if a := requestPath(t, s.Server, "HEAD", "/jobs?live=1", "", append(header, "Accept", "text/event-stream")...); a.StatusCode != http.StatusOK {
			t.Fatalf("HEAD: %d", a.StatusCode)
		}
	}
}
