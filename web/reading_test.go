package web_test

import (
	"bytes"
	"fmt"
	"io"
	"net"
	"strings"
	"testing"
	"time"

	futurejobs "deadman/future_jobs"
	"deadman/internal/access"
)

// slowly requests a page without reading the answer. The connection is closed at the end of the test.
func (s *stand) slowly(path string, header []string) net.Conn {
	s.t.Helper()
	c, err := net.Dial("tcp", s.Listener.Addr().String())
	fatal(s.t, err)
	s.t.Cleanup(func() { c.Close() })
	fatal(s.t, c.(*net.TCPConn).SetReadBuffer(4096))
	var head strings.Builder
	for i := 0; i < len(header); i += 2 {
		fmt.Fprintf(&head, "%s: %s\r\n", header[i], header[i+1])
	}
	_, err = fmt.Fprintf(c, "GET %s HTTP/1.1\r\nHost: 127.0.0.1\r\n%s\r\n", path, head.String())
	fatal(s.t, err)
	return c
}

// refuse stores dead letters of that many bytes each.
func (s *stand) refuse(letters, size int) {
	s.t.Helper()
	revision, err := s.store.Revision(s.t.Context())
	fatal(s.t, err)
	b := futurejobs.EffectBatch{RuleSet: revision}
	for range letters {
		b.DeadLetters = append(b.DeadLetters, futurejobs.DeadLetter{
			Reason: "bad", Event: futurejobs.Event{Stream: "ORDERS", Subject: "orders.created", Data: bytes.Repeat([]byte("x"), size)},
		})
	}
	_, err = s.store.Apply(s.t.Context(), b)
	fatal(s.t, err)
}

// TestReadsAreBounded checks that slow readers hold their places: a token gets no more than its own, with a useful
// message; other tokens, streams and health continue.
func TestReadsAreBounded(t *testing.T) {
	s := newStand(t, closed)
	s.refuse(500, 16<<10-100)
	const page = "/api/v1/dead-letters?limit=500"
	slow, other := s.token("slow", "", access.Read), s.token("other", "", access.Read)
	if a := do(t, s.Server, "GET", page, "", other...); a.StatusCode != 200 || len(a.body) < 8_000_000 {
		t.Fatalf("%d, %d bytes", a.StatusCode, len(a.body))
	}
	held := make([]net.Conn, 8)
	for i := range held {
		held[i] = s.slowly(page, slow)
	}
	time.Sleep(time.Second) // until they are running
	begun := time.Now()
	a := do(t, s.Server, "GET", "/api/v1/jobs", "", slow...)
	if took := time.Since(begun); a.StatusCode != 429 || a.Header.Get("Retry-After") == "" || took < 9*time.Second {
		t.Errorf("beyond the bound of a token: %d %v after %s: %s", a.StatusCode, a.Header, took, a.body)
	}
	if !strings.Contains(a.body, "requests for the token slow") || !strings.Contains(a.body, "at most 64 MiB") {
		t.Errorf("it does not say what is wrong: %s", a.body)
	}
	for path, header := range map[string][]string{
		"/api/v1/jobs": other, "/healthz": nil, "/readyz": slow, "/static/style.css": nil, "/": other,
	} {
		if a := do(t, s.Server, "GET", path, "", header...); a.StatusCode == 429 || a.StatusCode == 503 {
			t.Errorf("%s meanwhile: %d %s", path, a.StatusCode, a.body)
		}
	}
	if a := stream(t, s.URL+"/api/v1/alerts", slow...); a.StatusCode != 200 {
		t.Errorf("a stream meanwhile: %d", a.StatusCode)
	}

	live := stream(t, s.URL+"/jobs?live=1", slow...) // a live page needs a place like a request
	if text, err := io.ReadAll(live.Body); live.StatusCode != 200 || err != nil || len(text) > 0 {
		t.Errorf("a live page meanwhile: %d, %d bytes, %v", live.StatusCode, len(text), err)
	}

	go func() { // a waiting one gets the place of one that leaves
		time.Sleep(time.Second)
		held[0].Close()
	}()
	if a := do(t, s.Server, "GET", "/api/v1/jobs", "", slow...); a.StatusCode != 200 {
		t.Errorf("one that waited for a place: %d %s", a.StatusCode, a.body)
	}
}

// TestPagesTakeOnePlace checks that all requests of a page to the API share one place, and that as many pages as a token
// has places answer at once.
func TestPagesTakeOnePlace(t *testing.T) {
	s := newStand(t, closed)
	s.place("1", time.Hour, `{"id":"1"}`)
	reader := append(s.token("reader", "", access.Read), "Accept", "text/html")
	statuses := make(chan string, 200)
	for i := range 200 {
		path := []string{"/", "/rules/order-unshipped", "/entities/order?key=1", "/alerts", "/health"}[i%5]
		go func() {
			a := do(t, s.Server, "GET", path, "", reader...)
			statuses <- fmt.Sprint(path, " ", a.StatusCode)
		}()
	}
	for range 200 {
		if got := <-statuses; !strings.HasSuffix(got, " 200") {
			t.Error(got)
		}
	}
}

// TestReadsOfANodeAreBounded checks that four tokens with slow readers leave capacity for others, who get small and
// large answers at once, even while the four retry. All tokens together stay within the node's capacity.
func TestReadsOfANodeAreBounded(t *testing.T) {
	s := newStand(t, closed)
	s.refuse(500, 16<<10-100)
	const page = "/api/v1/dead-letters?limit=500"
	hold := func(i int) {
		token := s.token(fmt.Sprint("slow", i), "", access.Read)
		for range 12 {
			s.slowly(page, token)
		}
	}
	for i := range 4 {
		hold(i)
	}
	time.Sleep(3 * time.Second) // until they are running
	other := s.token("other", "", access.Read)
	for _, path := range []string{"/api/v1/jobs", page, "/"} {
		begun := time.Now()
		if a, took := do(t, s.Server, "GET", path, "", other...), time.Since(begun); a.StatusCode != 200 || took > 5*time.Second {
			t.Errorf("%s beside four that do not read: %d after %s, %.200s", path, a.StatusCode, took, a.body)
		}
	}
	for i := range 8 {
		hold(4 + i)
	}
	time.Sleep(3 * time.Second)
	a := do(t, s.Server, "GET", "/api/v1/jobs", "", other...)
	if a.StatusCode != 503 || a.Header.Get("Retry-After") == "" || !strings.Contains(a.body, "256 MiB") {
		t.Errorf("%d %v %s", a.StatusCode, a.Header, a.body)
	}
}

// TestSmallAnswersTakeLittleRoom checks that slow readers of small answers do not block others.
func TestSmallAnswersTakeLittleRoom(t *testing.T) {
	s := newStand(t, closed)
	s.refuse(250, 16<<10-100) // more than the system buffers
	slow := s.token("slow", "", access.Read)
	for range 14 { // at most 8 are made at once
		s.slowly("/api/v1/dead-letters?limit=250", slow)
	}
	time.Sleep(time.Second) // until they are running
	begun := time.Now()
	if a, took := do(t, s.Server, "GET", "/api/v1/jobs", "", slow...), time.Since(begun); a.StatusCode != 200 || took > 5*time.Second {
		t.Errorf("%d after %s: %s", a.StatusCode, took, a.body)
	}
}
