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

// slowly requests a page without reading the answer. The connection is closed at the end of the test.
func (s *stand) slowly(path string, header []string) net.Conn {
	s.t.Helper()
	return s.request(path, header, func(c *net.TCPConn) error { return c.SetReadBuffer(4096) })
}

// request requests a page on a connection of its own, which is closed at the end of the test.
func (s *stand) request(path string, header []string, set ...func(*net.TCPConn) error) net.Conn {
	s.t.Helper()
	c, err := net.Dial("tcp", s.Listener.Addr().String())
	fatal(s.t, err)
	s.t.Cleanup(func() { c.Close() })
	for _, set := range set {
		fatal(s.t, set(c.(*net.TCPConn)))
	}
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
	if !strings.Contains(a.body, "the responses to the token slow") || !strings.Contains(a.body, "at most 64 MiB") {
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

// unread is a request whose client reads no more than the beginning of its answer until told to.
type unread struct {
	begun chan int  // the status; 0: the connection ended
	whole chan bool // whether the answer could be read to its end
}

// leaveUnread sends a request, and reads its answer once read is closed.
func (s *stand) leaveUnread(path string, header []string, read <-chan struct{}) unread {
	s.t.Helper()
	c, u := s.request(path, header), unread{make(chan int, 1), make(chan bool, 1)}
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

// TestUnreadAnswersMakeRoom checks that requests which wait for capacity get that of unread answers of the tokens that
// hold most, that these tokens keep some, and that tokens with a single answer keep it.
func TestUnreadAnswersMakeRoom(t *testing.T) {
	s := newStand(t, closed)
	s.refuse(500, 16<<10-100) // 32 such answers leave no capacity for one more
	const page = "/api/v1/dead-letters?limit=500"
	read := make(chan struct{})
	var greedy [4][12]unread
	begun := make(chan int, 48)
	for i := range greedy {
		token := s.token(fmt.Sprint("greedy", i), "", access.Read)
		for j := range greedy[i] {
			u := s.leaveUnread(page, token, read)
			go func() { begun <- <-u.begun }()
			greedy[i][j] = u
		}
	}
	for held := 0; held < 24; { // they get at least six each, and the others wait
		if <-begun == http.StatusOK {
			held++
		}
	}
	var modest [12]unread
	for i := range modest {
		modest[i] = s.leaveUnread(page, s.token(fmt.Sprint("modest", i), "", access.Read), read)
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
		// An answer without a place is 429, after ten seconds.
		if a := do(t, s.Server, "GET", path, "", other...); a.StatusCode != 200 {
			t.Errorf("%s beside four that do not read: %d, %.200s", path, a.StatusCode, a.body)
		}
	}
	for i := range 8 {
		hold(4 + i)
	}
	time.Sleep(3 * time.Second)
	if a := do(t, s.Server, "GET", "/api/v1/jobs", "", other...); a.StatusCode != 200 {
		t.Errorf("beside twelve that do not read: %d %v %s", a.StatusCode, a.Header, a.body)
	}
}

// TestSlowReadersOfSmallAnswersDoNotBlockOthers checks that slow readers of small answers do not block others.
func TestSlowReadersOfSmallAnswersDoNotBlockOthers(t *testing.T) {
	s := newStand(t, closed)
	s.refuse(250, 16<<10-100) // more than the system buffers
	slow := s.token("slow", "", access.Read)
	for range 14 { // at most 8 are made at once
		s.slowly("/api/v1/dead-letters?limit=250", slow)
	}
	time.Sleep(time.Second) // until they are running
	if a := do(t, s.Server, "GET", "/api/v1/jobs", "", slow...); a.StatusCode != 200 {
		t.Errorf("%d: %s", a.StatusCode, a.body)
	}
}
