package web_test

import (
	"bufio"
	"bytes"
	"fmt"
	"io"
	"net"
	"net/http"
	"strings"
	"testing"
	"time"

	futurejobs "deadman/future_jobs"
	"deadman/internal/access"
)

// requestWithoutReading requests a page without reading the answer. The connection is closed at the end of the test.
func (s *fixture) requestWithoutReading(path string, header []string) net.Conn {
	s.t.Helper()
	return s.request(path, header, func(c *net.TCPConn) error { return c.SetReadBuffer(4096) })
}

// request requests a page on a connection of its own, which is closed at the end of the test.
func (s *fixture) request(path string, header []string, set ...func(*net.TCPConn) error) net.Conn {
	s.t.Helper()
	c, err := net.Dial("tcp", s.Listener.Addr().String())
	failOn(s.t, err)
	s.t.Cleanup(func() { c.Close() })
	for _, set := range set {
		failOn(s.t, set(c.(*net.TCPConn)))
	}
	var head strings.Builder
	for i := 0; i < len(header); i += 2 {
		fmt.Fprintf(&head, "%s: %s\r\n", header[i], header[i+1])
	}
	_, err = fmt.Fprintf(c, "GET %s HTTP/1.1\r\nHost: 127.0.0.1\r\n%s\r\n", path, head.String())
	failOn(s.t, err)
	return c
}

// writeDeadLetters stores dead letters of that many bytes each.
func (s *fixture) writeDeadLetters(letters, size int) {
	s.t.Helper()
	revision, err := s.store.Revision(s.t.Context())
	failOn(s.t, err)
	b := futurejobs.EffectBatch{RuleSet: revision}
	for range letters {
		b.DeadLetters = append(b.DeadLetters, futurejobs.DeadLetter{
			Reason: "bad", Event: futurejobs.Event{Stream: "ORDERS", Subject: "orders.created", Data: bytes.Repeat([]byte("x"), size)},
		})
	}
	_, err = s.store.Apply(s.t.Context(), b)
	failOn(s.t, err)
}

// TestReadsAreBounded checks that slow readers hold their permits: a token gets no more than its own, with a useful
// message; other tokens, streams and health continue.
func TestReadsAreBounded(t *testing.T) {
	s := newFixture(t, closedNode)
	s.writeDeadLetters(500, 16<<10-100)
	const page = "/api/v1/dead-letters?limit=500"
	slow, other := s.newToken("slow", "", access.Read), s.newToken("other", "", access.Read)
	if a := requestPath(t, s.Server, "GET", page, "", other...); a.StatusCode != 200 || len(a.body) < 8_000_000 {
		t.Fatalf("%d, %d bytes", a.StatusCode, len(a.body))
	}
	held := make([]net.Conn, 8)
	for i := range held {
		held[i] = s.requestWithoutReading(page, slow)
	}
	time.Sleep(time.Second) // until they are running
	begun := time.Now()
	a := requestPath(t, s.Server, "GET", "/api/v1/jobs", "", slow...)
	if took := time.Since(begun); a.StatusCode != 429 || a.Header.Get("Retry-After") == "" || took < 9*time.Second {
		t.Errorf("beyond the bound of a token: %d %v after %s: %s", a.StatusCode, a.Header, took, a.body)
	}
	if !strings.Contains(a.body, "the responses to the token slow") || !strings.Contains(a.body, "at most 64 MiB") {
		t.Errorf("the answer does not name the error: %s", a.body)
	}
	for path, header := range map[string][]string{
		"/api/v1/jobs": other, "/healthz": nil, "/readyz": slow, "/static/style.css": nil, "/": other,
	} {
		if a := requestPath(t, s.Server, "GET", path, "", header...); a.StatusCode == 429 || a.StatusCode == 503 {
			t.Errorf("%s meanwhile: %d %s", path, a.StatusCode, a.body)
		}
	}
	if a := openStream(t, s.URL+"/api/v1/alerts", slow...); a.StatusCode != 200 {
		t.Errorf("a stream meanwhile: %d", a.StatusCode)
	}

	live := openStream(t, s.URL+"/jobs?live=1", slow...) // a live page needs a permit like a request
	if text, err := io.ReadAll(live.Body); live.StatusCode != 200 || err != nil || len(text) > 0 {
		t.Errorf("a live page meanwhile: %d, %d bytes, %v", live.StatusCode, len(text), err)
	}

	go func() { // a waiting one gets the permit of one that leaves
		time.Sleep(time.Second)
		held[0].Close()
	}()
	if a := requestPath(t, s.Server, "GET", "/api/v1/jobs", "", slow...); a.StatusCode != 200 {
		t.Errorf("one that waited for a place: %d %s", a.StatusCode, a.body)
	}
}

// unreadRequest is a request whose client reads no more than the beginning of its answer until told to.
type unreadRequest struct {
	begun chan int  // the status; 0: the connection ended
	whole chan bool // whether the answer could be read to its end
}

// requestReadingLater sends a request, and reads its answer once read is closed.
func (s *fixture) requestReadingLater(path string, header []string, read <-chan struct{}) unreadRequest {
	s.t.Helper()
	c, u := s.request(path, header), unreadRequest{make(chan int, 1), make(chan bool, 1)}
	go func() {
		a, err := http.ReadResponse(bufio.NewReader(c), nil)
		if err != nil {
			u.begun <- 0
			u.whole <- false
			return
		}
		defer a.Body.Close()
		u.begun <- a.StatusCode
		<-read
		_, err = io.Copy(io.Discard, a.Body)
		u.whole <- err == nil && a.StatusCode == http.StatusOK
	}()
	return u
}

// TestUnreadAnswersAreReclaimed checks that requests which wait for capacity get that of unread answers of the tokens that
// hold most, that these tokens keep some, and that tokens with a single answer keep it.
func TestUnreadAnswersAreReclaimed(t *testing.T) {
	s := newFixture(t, closedNode)
	s.writeDeadLetters(500, 16<<10-100) // 32 such answers leave no capacity for one more
	const page = "/api/v1/dead-letters?limit=500"
	read := make(chan struct{})
	var greedy [4][12]unreadRequest
	begun := make(chan int, 48)
	for i := range greedy {
		token := s.newToken(fmt.Sprint("greedy", i), "", access.Read)
		for j := range greedy[i] {
			u := s.requestReadingLater(page, token, read)
			go func() { begun <- <-u.begun }()
			greedy[i][j] = u
		}
	}
	for held := 0; held < 24; { // they get at least six each, and the others wait
		if <-begun == http.StatusOK {
			held++
		}
	}
	var modest [12]unreadRequest
	for i := range modest {
		modest[i] = s.requestReadingLater(page, s.newToken(fmt.Sprint("modest", i), "", access.Read), read)
	}
	for i, u := range modest {
		if status := <-u.begun; status != http.StatusOK {
			t.Errorf("modest%d gets no room: %d", i, status)
		}
	}
	close(read)
	for i, u := range modest {
		if !<-u.whole {
			t.Errorf("modest%d lost its answer", i)
		}
	}
	lost := 0
	for i, answers := range greedy {
		before := lost
		for _, u := range answers {
			if !<-u.whole {
				lost++
			}
		}
		if lost == before+len(answers) {
			t.Errorf("greedy%d has no whole answer", i)
		}
	}
	if lost < 4 {
		t.Errorf("the greedy lost %d answers", lost)
	}
}

// TestPageTakesOnePermit checks that all requests of a page to the API share one permit, and that as many pages as a token
// has permits answer at once.
func TestPageTakesOnePermit(t *testing.T) {
	s := newFixture(t, closedNode)
	s.createJob("1", time.Hour, `{"id":"1"}`)
	reader := append(s.newToken("reader", "", access.Read), "Accept", "text/html")
	statuses := make(chan string, 200)
	for i := range 200 {
		path := []string{"/", "/rules/order-unshipped", "/entities/order?key=1", "/alerts", "/health"}[i%5]
		go func() {
			a := requestPath(t, s.Server, "GET", path, "", reader...)
			statuses <- fmt.Sprint(path, " ", a.StatusCode)
		}()
	}
	for range 200 {
		if got := <-statuses; !strings.HasSuffix(got, " 200") {
			t.Error(got)
		}
	}
}

// TestReadsOfNodeAreBounded checks that four tokens with slow readers leave capacity for others, who get small and
// large answers at once, even while the four retry. All tokens together stay within the node's capacity.
func TestReadsOfNodeAreBounded(t *testing.T) {
	s := newFixture(t, closedNode)
	s.writeDeadLetters(500, 16<<10-100)
	const page = "/api/v1/dead-letters?limit=500"
	hold := func(i int) {
		token := s.newToken(fmt.Sprint("slow", i), "", access.Read)
		for range 12 {
			s.requestWithoutReading(page, token)
		}
	}
	for i := range 4 {
		hold(i)
	}
	time.Sleep(3 * time.Second) // until they are running
	other := s.newToken("other", "", access.Read)
	for _, path := range []string{"/api/v1/jobs", page, "/"} {
		// An answer without a permit is 429, after ten seconds.
		if a := requestPath(t, s.Server, "GET", path, "", other...); a.StatusCode != 200 {
			t.Errorf("%s beside four that do not read: %d, %.200s", path, a.StatusCode, a.body)
		}
	}
	for i := range 8 {
		hold(4 + i)
	}
	time.Sleep(3 * time.Second)
	if a := requestPath(t, s.Server, "GET", "/api/v1/jobs", "", other...); a.StatusCode != 200 {
		t.Errorf("beside twelve that do not read: %d %v %s", a.StatusCode, a.Header, a.body)
	}
}

// TestSlowReadersOfSmallAnswersDoNotBlockOthers checks that slow readers of small answers do not block others.
func TestSlowReadersOfSmallAnswersDoNotBlockOthers(t *testing.T) {
	s := newFixture(t, closedNode)
	s.writeDeadLetters(250, 16<<10-100) // more than the system buffers
	slow := s.newToken("slow", "", access.Read)
	for range 14 { // at most 8 are made at once
		s.requestWithoutReading("/api/v1/dead-letters?limit=250", slow)
	}
	time.Sleep(time.Second) // until they are running
	if a := requestPath(t, s.Server, "GET", "/api/v1/jobs", "", slow...); a.StatusCode != 200 {
		t.Errorf("%d: %s", a.StatusCode, a.body)
	}
}
