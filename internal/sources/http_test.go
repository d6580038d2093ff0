package sources_test

import (
	"context"
	"encoding/pem"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net"
	"net/http"
	"net/http/httptest"
	"net/netip"
	"net/url"
	"slices"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"deadman/checks/lookup"
	"deadman/internal/sources"
)

func base(tb testing.TB, text string) *url.URL {
	tb.Helper()
	u, err := url.Parse(text)
	if err != nil {
		tb.Fatal(err)
	}
	return u
}

// loopback lists the addresses of test servers.
var loopback = []netip.Prefix{netip.MustParsePrefix("127.0.0.0/8"), netip.MustParsePrefix("::1/128")}

const token = "s3cret"

// web returns an HTTP service as a source, with a secret.
func web(tb testing.TB, address string) lookup.Client {
	tb.Helper()
	return open(tb, sources.Spec{HTTP: &sources.HTTP{
		Base: base(tb, address), Allow: loopback, Headers: map[string]string{"Authorization": "Bearer " + token, "Host": "shop.example.com"},
	}})
}

// serve starts a test service.
func serve(tb testing.TB, f http.HandlerFunc) *httptest.Server {
	tb.Helper()
	s := httptest.NewServer(f)
	tb.Cleanup(func() { s.CloseClientConnections(); s.Close() })
	return s
}

func paths(all ...string) []lookup.KeyQuery {
	queries := make([]lookup.KeyQuery, len(all))
	for i, p := range all {
		queries[i].Path = p
	}
	return queries
}

var get = lookup.Question{HTTP: &lookup.HTTP{Absent: []int{404}}}

// TestManyKeysByHTTP queries many keys over few connections, with the operator's headers.
func TestManyKeysByHTTP(t *testing.T) {
	t.Parallel()
	var connections atomic.Int32
	s := httptest.NewUnstartedServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.Method != http.MethodGet || r.Host != "shop.example.com" || r.Header.Get("Authorization") != "Bearer "+token || r.Header.Get("Accept-Encoding") != "" {
			http.Error(w, "", http.StatusTeapot)
			return
		}
		fmt.Fprintf(w, `{"query": %q, "price": 12.50}`, r.RequestURI)
	}))
	s.Config.ConnState = func(_ net.Conn, state http.ConnState) {
		if state == http.StateNew {
			connections.Add(1)
		}
	}
	s.Start()
	t.Cleanup(s.Close)
	c := web(t, s.URL+"/api/")
	for range 3 {
		queries, want := make([]lookup.KeyQuery, 500), make([]string, 500)
		for i := range queries {
			queries[i].Path = fmt.Sprintf("/orders/a%%2F%d?full=true", i)
			want[i] = fmt.Sprintf(`{"query": "/api/orders/a%%2F%d?full=true", "price": 12.50}`, i)
		}
		found, err := c.Query(within(t, 20*time.Second), get, queries)
		checkLines(t, want, lines(found, err))
	}
	if n := connections.Load(); n > 48 { // some are opened although another becomes free first
		t.Errorf("%d connections", n)
	}
}

// TestAbsentKeysShareConnection checks that an answer without a value leaves its connection to the next request, also with the
// page of an error as its body.
func TestAbsentKeysShareConnection(t *testing.T) {
	t.Parallel()
	var connections atomic.Int32
	s := httptest.NewUnstartedServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		http.Error(w, strings.Repeat("no such order ", 1000), http.StatusNotFound)
	}))
	s.Config.ConnState = func(_ net.Conn, state http.ConnState) {
		if state == http.StateNew {
			connections.Add(1)
		}
	}
	s.Start()
	t.Cleanup(s.Close)
	c := web(t, s.URL)
	for range 20 {
		found, err := c.Query(within(t, 20*time.Second), get, paths("/orders/1"))
		checkLines(t, []string{"absent"}, lines(found, err))
	}
	if n := connections.Load(); n != 1 {
		t.Errorf("%d connections, want 1", n)
	}
}

// TestHTTPErrors checks the errors of one key beside a successful one. They contain neither the secret nor the
// path.
func TestHTTPErrors(t *testing.T) {
	t.Parallel()
	read := &floodServer{}
	t.Cleanup(func() {
		if n := read.taken.Load(); n > 256<<20 {
			t.Errorf("%d bytes of an answer were taken", n)
		}
	})
	answers := map[string]struct {
		does http.HandlerFunc
		want string
	}{
		"gone":            {status(410), "error: the response status is 410 Gone; if it means that the entity does not exist, write absent: [410] in the lookup"},
		"none":            {status(404), "absent"},
		"teapot":          {status(418), "error: the response status is 418 I'm a teapot"},
		"refused":         {status(401), "error: the response status is 401 Unauthorized; check the source's headers"},
		"500":             {status(500), "error: the response status is 500 Internal Server Error"},
		"busy":            {status(429), "error: the response status is 429 Too Many Requests"},
		"nothing":         {status(204), `error: the answer is not JSON; answer with an object such as {"status": "SHIPPED"}`},
		"metadata":        {redirect("http://169.254.169.254/latest/meta-data?x=" + token), "error: the response status is 302 Found, to http://169.254.169.254; redirects are not followed; configure the final address in the source"},
		"home":            {redirect("/elsewhere/" + token), "error: the response status is 302 Found, to http://…; redirects are not followed; configure the final address in the source"},
		"html":            {answer("<html>"), `error: the answer is not JSON; answer with an object such as {"status": "SHIPPED"}`},
		"half":            {answer(`{"a": [1`), `error: the answer is not JSON; answer with an object such as {"status": "SHIPPED"}`},
		"list":            {answer(`[1]`), `error: the answer is JSON but not an object; answer with an object such as {"status": "SHIPPED"}`},
		"null":            {answer(`null`), `error: the answer is JSON but not an object; answer with an object such as {"status": "SHIPPED"}`},
		"two":             {answer(`{} {}`), "error: the answer has data after the object"},
		"deep":            {answer(`{"a":` + strings.Repeat("[", 64) + strings.Repeat("]", 64) + "}"), "error: the answer has more than 64 levels of JSON"},
		"as deep as most": {answer(`{"a":` + strings.Repeat("[", 63) + strings.Repeat("]", 63) + "}"), `{"a":…}`},
		"as long as most": {answer(`{"a":"` + strings.Repeat("x", 64<<10-8) + `"}`), `{"a":"…x"}`},
		"too long":        {answer(`{"a":"` + strings.Repeat("x", 64<<10-7) + `"}`), "error: the answer is larger than 64 KiB; …"},
		"1 GB said":       {pgError(1 << 30), "error: the answer is larger than 64 KiB; …"},
		"1 GB":            {read.answerEndless(1 << 30), "error: the answer is larger than 64 KiB; …"},
		"cut off":         {answerTruncated, "error: unexpected EOF"},
		"hung up":         {hangUp, "error: EOF"},
		"headers":         {answerLongHeaders, "error: net/http: HTTP/1.x transport connection broken: net/http: server response headers exceeded 65536 bytes; aborted"},
	}
	s := serve(t, func(w http.ResponseWriter, r *http.Request) {
		name := strings.TrimPrefix(r.URL.Path, "/"+token+"/")
		if name == "fine" {
			answer("{}")(w, r)
			return
		}
		answers[name].does(w, r)
	})
	for name, k := range answers {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			found, err := web(t, s.URL+"/"+token).Query(within(t, 20*time.Second), get, paths("/fine", "/"+url.PathEscape(name), "/fine"))
			checkLines(t, []string{"{}", k.want, "{}"}, lines(found, err))
			for _, f := range found {
				if f.Err != nil && strings.Contains(f.Err.Error(), token) {
					t.Errorf("the error shows the secret: %v", f.Err)
				}
			}
		})
	}
}

func status(code int) http.HandlerFunc {
	return func(w http.ResponseWriter, _ *http.Request) { w.WriteHeader(code) }
}

func answer(body string) http.HandlerFunc {
	return func(w http.ResponseWriter, _ *http.Request) { _, _ = io.WriteString(w, body) }
}

func redirect(to string) http.HandlerFunc {
	return func(w http.ResponseWriter, r *http.Request) { http.Redirect(w, r, to, http.StatusFound) }
}

func pgError(size int) http.HandlerFunc {
	return func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("Content-Length", fmt.Sprint(size))
		_, _ = io.WriteString(w, "{")
	}
}

// floodServer counts the bytes read of a long response.
type floodServer struct{ taken atomic.Int64 }

func (f *floodServer) answerEndless(size int) http.HandlerFunc {
	return func(w http.ResponseWriter, _ *http.Request) {
		block := strings.Repeat(" ", 1<<20)
		for sent := 0; sent < size; sent += len(block) {
			if _, err := io.WriteString(w, block); err != nil {
				return
			}
			f.taken.Add(int64(len(block)))
		}
	}
}

func answerTruncated(w http.ResponseWriter, _ *http.Request) {
	w.Header().Set("Content-Length", "100")
	_, _ = io.WriteString(w, `{"a": 1`)
}

func hangUp(http.ResponseWriter, *http.Request) { panic(http.ErrAbortHandler) }

func answerLongHeaders(w http.ResponseWriter, _ *http.Request) {
	w.Header().Set("X-Words", strings.Repeat("x", 100<<10))
}

// TestUnavailableHTTP checks failures of the service as a whole: no key gets an answer, and not all keys are
// queried.
func TestUnavailableHTTP(t *testing.T) {
	t.Parallel()
	for name, k := range map[string]struct {
		does http.HandlerFunc
		want string
	}{
		"500s":         {status(500), "the response status is 500 Internal Server Error"},
		"503s":         {status(503), "the response status is 503 Service Unavailable"},
		"429s":         {status(429), "the response status is 429 Too Many Requests"},
		"a wrong key":  {status(403), "the response status is 403 Forbidden; check the source's headers"},
		"hanging up":   {hangUp, "EOF"},
		"cutting off":  {answerTruncated, "unexpected EOF"},
		"hanging":      {answerNever, "no answer in time"},
		"a hung body":  {answerNeverEnding, "no answer in time"},
		"a drip":       {answerSlowly, "no answer in time"},
		"no more HTTP": {answerGarbage, `net/http: HTTP/1.x transport connection broken: malformed HTTP response "gibberish"`},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			var requests atomic.Int32
			s := serve(t, func(w http.ResponseWriter, r *http.Request) {
				requests.Add(1)
				k.does(w, r)
			})
			queries := make([]lookup.KeyQuery, lookup.BatchMost)
			for i := range queries {
				queries[i].Path = fmt.Sprintf("/%d", i)
			}
			queries[3].Path = "/.." // not answered by the service
			patience := 20 * time.Second
			if strings.Contains(k.want, "in time") {
				patience = time.Second
			}
			found, err := web(t, s.URL).Query(within(t, patience), get, queries)
			checkLines(t, []string{sourceLine + k.want}, lines(found, err))
			if n := requests.Load(); n > 64 {
				t.Errorf("it was queried %d times", n)
			}
		})
	}
	t.Run("refuse", func(t *testing.T) {
		t.Parallel()
		c := web(t, "http://127.0.0.1:1/"+token)
		found, err := c.Query(within(t, 5*time.Second), get, paths("/1", "/2"))
		checkLines(t, []string{sourceLine + "dial tcp 127.0.0.1:1: connect: connection refused"}, lines(found, err))
		if err := c.Reach(t.Context()); err == nil || err.Error() != "dial tcp 127.0.0.1:1: connect: connection refused" {
			t.Errorf("reach: %v", err)
		}
	})
	t.Run("one key alone", func(t *testing.T) {
		t.Parallel()
		found, err := web(t, serve(t, status(500)).URL).Query(within(t, 5*time.Second), get, paths("/1"))
		checkLines(t, []string{"error: the response status is 500 Internal Server Error"}, lines(found, err))
		found, err = web(t, serve(t, status(503)).URL).Query(within(t, 5*time.Second), get, paths("/1"))
		checkLines(t, []string{sourceLine + "the response status is 503 Service Unavailable"}, lines(found, err))
	})
	t.Run("one key hangs", func(t *testing.T) {
		t.Parallel()
		s := serve(t, func(w http.ResponseWriter, r *http.Request) {
			if r.URL.Path == "/hangs" {
				answerNever(w, r)
			}
			answer("{}")(w, r)
		})
		found, err := web(t, s.URL).Query(within(t, 3*time.Second), get, paths("/1", "/hangs", "/2"))
		checkLines(t, []string{"{}", "error: timeout after 2 of 3 keys; …", "{}"}, lines(found, err))
	})
}

func answerNever(_ http.ResponseWriter, r *http.Request) { <-r.Context().Done() }

func answerNeverEnding(w http.ResponseWriter, r *http.Request) {
	_, _ = io.WriteString(w, `{"a":`)
	_ = http.NewResponseController(w).Flush()
	<-r.Context().Done()
}

func answerSlowly(w http.ResponseWriter, r *http.Request) {
	tick := time.NewTicker(50 * time.Millisecond)
	defer tick.Stop()
	for {
		_, _ = io.WriteString(w, " ")
		_ = http.NewResponseController(w).Flush()
		select {
		case <-tick.C:
		case <-r.Context().Done():
			return
		}
	}
}

func answerGarbage(w http.ResponseWriter, _ *http.Request) {
	c, _, err := http.NewResponseController(w).Hijack()
	if err != nil {
		panic(err)
	}
	_, _ = io.WriteString(c, "gibberish\r\n\r\n")
	_ = c.Close()
}

// TestPrivateHosts checks notations of this machine's addresses. No request reaches it.
func TestPrivateHosts(t *testing.T) {
	t.Parallel()
	var requests atomic.Int32
	s := serve(t, func(http.ResponseWriter, *http.Request) { requests.Add(1) })
	_, port, err := net.SplitHostPort(strings.TrimPrefix(s.URL, "http://"))
	if err != nil {
		t.Fatal(err)
	}
	const wantText = "127.0.0.1 is not a public address; if it is correct, allow it in the source, as in allow: [127.0.0.1/32]"
	for host, want := range map[string]string{
		"127.0.0.1": wantText, "[::ffff:127.0.0.1]": wantText, "[::ffff:7f00:1]": wantText,
		"[::1]":   "::1 is not a public address; if it is correct, allow it in the source, as in allow: [::1/128]",
		"0.0.0.0": "0.0.0.0 is not a public address; …",
		"[::]":    ":: is not a public address; …",
		// The resolver may or may not resolve these.
		"localhost": "…", "2130706433": "…", "017700000001": "…", "0x7f000001": "…", "0x7f.1": "…", "127.1": "…", "0177.0.0.1": "…", "127.0.0.1.": "…",
	} {
		c := open(t, sources.Spec{HTTP: &sources.HTTP{Base: base(t, "http://"+host+":"+port)}})
		found, err := c.Query(within(t, 2*time.Second), get, paths("/1", "/2"))
		checkLines(t, []string{sourceLine + want}, lines(found, err))
		if err := c.Reach(within(t, 2*time.Second)); err == nil {
			t.Errorf("%s is reached", host)
		}
	}
	if n := requests.Load(); n > 0 {
		t.Errorf("it was queried %d times", n)
	}
}

// TestHTTPS trusts only the operator's CA, and Reach sends no request.
func TestHTTPS(t *testing.T) {
	t.Parallel()
	var requests atomic.Int32
	s := httptest.NewUnstartedServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		requests.Add(1)
		answer("{}")(w, r)
	}))
	s.Config.ErrorLog = slog.NewLogLogger(slog.DiscardHandler, 0)
	s.StartTLS()
	t.Cleanup(s.Close)
	ca := pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: s.Certificate().Raw})
	trusting := open(t, sources.Spec{HTTP: &sources.HTTP{Base: base(t, s.URL), Allow: loopback, CA: ca}})
	if err := trusting.Reach(within(t, 5*time.Second)); err != nil || requests.Load() != 0 {
		t.Errorf("%v, %d requests", err, requests.Load())
	}
	found, err := trusting.Query(within(t, 5*time.Second), get, paths("/1"))
	checkLines(t, []string{"{}"}, lines(found, err))
	strict := open(t, sources.Spec{HTTP: &sources.HTTP{Base: base(t, s.URL), Allow: loopback}})
	found, err = strict.Query(within(t, 5*time.Second), get, paths("/1"))
	checkLines(t, []string{sourceLine + "tls: failed to verify certificate: x509: certificate signed by unknown authority"}, lines(found, err))
	if err := strict.Reach(within(t, 5*time.Second)); err == nil {
		t.Error("an unknown certificate is trusted")
	}
}

// TestProxiesOfEnvironment checks that sources ignore proxies of the environment, as those would bypass the
// address checks.
func TestProxiesOfEnvironment(t *testing.T) {
	proxy := serve(t, answer(`{"by": "proxy"}`))
	t.Setenv("HTTP_PROXY", proxy.URL)
	t.Setenv("http_proxy", proxy.URL)
	found, err := web(t, "http://shop.invalid").Query(within(t, 5*time.Second), get, paths("/1"))
	if err == nil {
		t.Errorf("it was answered: %v", lines(found, err))
	}
}

// TestHTTPRejectsOtherKinds checks that a service rejects questions for other kinds.
func TestHTTPRejectsOtherKinds(t *testing.T) {
	t.Parallel()
	c := web(t, "http://127.0.0.1:1")
	_, queryErr := c.Query(context.Background(), lookup.Question{SQL: byID}, keys(1))
	_, verified := c.Verify(context.Background(), lookup.Question{KV: "orders"}, 0)
	for _, err := range []error{queryErr, verified} {
		if !errors.Is(err, lookup.ErrQuestion) || !strings.Contains(err.Error(), "the source is an HTTP service; query it with http") {
			t.Error(err)
		}
	}
	if _, err := c.Verify(context.Background(), get, 0); err != nil {
		t.Error(err)
	}
}

// TestRecoveredServiceIsQueriedAgain lets a service fail for many batches that are given up early: this must not leak
// request slots.
func TestRecoveredServiceIsQueriedAgain(t *testing.T) {
	t.Parallel()
	var back atomic.Bool
	s := serve(t, func(w http.ResponseWriter, _ *http.Request) {
		if !back.Load() {
			http.Error(w, "", http.StatusServiceUnavailable)
			return
		}
		fmt.Fprint(w, `{"status": "SHIPPED"}`)
	})
	c := web(t, s.URL)
	queries := paths(slices.Repeat([]string{"/orders/1"}, 100)...)
	for range 40 {
		if _, err := c.Query(within(t, 10*time.Second), get, queries); err == nil || !strings.Contains(err.Error(), "503") {
			t.Fatal(err)
		}
	}
	back.Store(true)
	found, err := c.Query(within(t, 10*time.Second), get, queries[:1])
	checkLines(t, []string{`{"status": "SHIPPED"}`}, lines(found, err))
}

// If a service recovers while the rest of a round is given up, the remaining keys are not absent.
func TestKeysOfAbandonedRoundAreNotAbsent(t *testing.T) {
	t.Parallel()
	const inVain, keys = 16, 60
	var requests atomic.Int32
	vain, back := make(chan struct{}), make(chan struct{})
	s := serve(t, func(w http.ResponseWriter, _ *http.Request) {
		n := requests.Add(1)
		if n == inVain {
			close(vain)
		}
		if n <= inVain {
			<-vain
			panic(http.ErrAbortHandler)
		}
		<-back
		fmt.Fprint(w, `{}`)
	})
	queries := make([]lookup.KeyQuery, keys)
	for i := range queries {
		queries[i].Path = fmt.Sprintf("/%d", i)
	}
	time.AfterFunc(time.Second, func() { close(back) }) // long after the round was given up
	found, err := web(t, s.URL).Query(within(t, 20*time.Second), get, queries)
	texts := lines(found, err)
	var answered, left int
	for _, line := range texts {
		switch {
		case line == "{}":
			answered++
		case strings.Contains(line, "was not queried for this key, as it failed for 16 others: EOF"):
			left++
		case line != "error: EOF":
			t.Errorf("error %q", line)
		}
	}
	if answered == 0 || left == 0 || answered+left != keys-inVain {
		t.Errorf("%d of %d keys were answered, %d were left", answered, keys, left)
	}
}

// TestServiceHasTimeForEachKey queries a slow service about more keys than it answers within one timeout.
func TestServiceHasTimeForEachKey(t *testing.T) {
	t.Parallel()
	s := serve(t, func(w http.ResponseWriter, r *http.Request) {
		select {
		case <-time.After(50 * time.Millisecond):
			fmt.Fprint(w, `{"status": "SHIPPED"}`)
		case <-r.Context().Done():
		}
	})
	spec := sources.Spec{HTTP: &sources.HTTP{Base: base(t, s.URL), Allow: loopback}}
	source := lookup.NewSource(lookup.Options{
		Name: "shop", Client: open(t, spec), Most: spec.Most(), Now: time.Now, Log: slog.New(slog.DiscardHandler),
	})
	if !source.Enter() {
		t.Fatal("the line is full")
	}
	queries := paths(slices.Repeat([]string{"/orders/1"}, 600)...)
	for i, f := range source.Query(t.Context(), 1500*time.Millisecond, get, queries) {
		if f.Err != nil {
			t.Fatalf("key %d: %v", i, f.Err)
		}
	}
}
