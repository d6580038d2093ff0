package sources

import (
	"context"
	"crypto/tls"
	"crypto/x509"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/url"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"deadman/checks"
	"deadman/checks/lookup"
)

const (
	mostRequests = 16               // concurrent requests to a service
	mostTogether = 4 * mostRequests // keys of one query; four batches may query concurrently
)

// service queries an HTTP service by GET. It has one host, follows no redirects and uses no proxy.
type service struct {
	base    *url.URL
	headers http.Header
	dialer  *net.Dialer
	client  *http.Client
	tls     *tls.Config
	slots   chan struct{} // of requests, over all batches

	certificate atomic.Pointer[x509.Certificate] // of the last Reach
}

var _ lookup.Certified = (*service)(nil)

func openHTTP(name string, o HTTP) (lookup.Client, error) {
	if err := checkBase(o.Base); err != nil {
		return nil, fmt.Errorf("source %s: %w", name, err)
	}
	s := &service{
		base: o.Base, headers: http.Header{"Accept": {"application/json"}, "User-Agent": {"deadman"}},
		dialer: dialer(o.Allow), tls: &tls.Config{ServerName: o.Base.Hostname(), MinVersion: tls.VersionTLS12},
		slots: make(chan struct{}, mostRequests),
	}
	for key, value := range o.Headers {
		s.headers.Set(key, value)
	}
	if o.CA != nil {
		s.tls.RootCAs = x509.NewCertPool()
		if !s.tls.RootCAs.AppendCertsFromPEM(o.CA) {
			return nil, fmt.Errorf("source %s: the CA file has no certificate; write PEM, with -----BEGIN CERTIFICATE-----", name)
		}
	}
	s.client = &http.Client{
		Transport: &http.Transport{
			DialContext:            s.dialer.DialContext,
			TLSClientConfig:        s.tls,
			TLSHandshakeTimeout:    connectTimeout,
			MaxConnsPerHost:        mostRequests,
			MaxIdleConnsPerHost:    mostRequests,
			IdleConnTimeout:        90 * time.Second,
			MaxResponseHeaderBytes: lookup.MaxValue,
			DisableCompression:     true, // a small compressed body may be huge
		},
		CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse },
	}
	return s, nil
}

// Query sends a GET for each key, some concurrently.
func (s *service) Query(ctx context.Context, q lookup.Question, queries []lookup.KeyQuery) ([]checks.Finding, error) {
	if q.HTTP == nil {
		return nil, wrapSourceKind("an HTTP service", "http")
	}
	return s.round(ctx, q.HTTP, queries)
}

// Verify checks only the kind of the question: a path can't be validated without a request.
func (s *service) Verify(_ context.Context, q lookup.Question, _ int) ([]lookup.Column, error) {
	if q.HTTP == nil {
		return nil, wrapSourceKind("an HTTP service", "http")
	}
	return nil, nil
}

// Reach connects to the host without a request.
func (s *service) Reach(ctx context.Context) error {
	port := s.base.Port()
	if port == "" {
		port = s.base.Scheme // also valid as the name of a port
	}
	c, err := s.dialer.DialContext(ctx, "tcp", net.JoinHostPort(s.base.Hostname(), port))
	if err != nil {
		return unanswered(err)
	}
	if s.base.Scheme == "https" {
		t := tls.Client(c, s.tls)
		if err := t.HandshakeContext(ctx); err != nil {
			return errors.Join(unanswered(err), c.Close())
		}
		s.certificate.Store(t.ConnectionState().PeerCertificates[0]) // a handshake without one fails
		c = t
	}
	return c.Close()
}

// Certificate implements lookup.Certified.
func (s *service) Certificate() *x509.Certificate { return s.certificate.Load() }

// Close closes idle connections.
func (s *service) Close() { s.client.CloseIdleConnections() }

// maxUnread is the largest rest of a body that is read so that its connection can be used again, in bytes.
const maxUnread = 64 << 10

// get queries one key. For a single key, a status of 500 may be a failure of the service or of the key; it counts as
// one of the key.
func (s *service) get(ctx context.Context, q *lookup.HTTP, path string, alone bool) (f checks.Finding) {
	u, err := below(s.base, path)
	if err != nil {
		return checks.Finding{Err: fmt.Errorf("%w: %w", errPath, err)}
	}
	req := (&http.Request{Method: http.MethodGet, URL: u, Header: s.headers.Clone()}).WithContext(ctx)
	if host := req.Header.Get("Host"); host != "" { // the client ignores it in the headers
		req.Host = host
	}
	res, err := s.client.Do(req)
	if err != nil {
		return checks.Finding{Err: serviceError{unanswered(err)}}
	}
	defer func() {
		_, _ = io.CopyN(io.Discard, res.Body, maxUnread) // the next request has the connection, unless more is left
		_ = res.Body.Close()
	}()
	switch {
	case slices.Contains(q.Absent, res.StatusCode):
		return f
	case res.StatusCode >= 200 && res.StatusCode < 300:
		f.Value, f.Err = body(res)
		return f
	}
	return checks.Finding{Err: statusError(res, alone)}
}

func (s *service) round(ctx context.Context, q *lookup.HTTP, queries []lookup.KeyQuery) ([]checks.Finding, error) {
	r := &httpRound{found: unknown(queries), answered: make([]bool, len(queries))}
	var working sync.WaitGroup
	for i := range queries {
		if r.shouldStop() || !s.enter(ctx) {
			break
		}
		working.Go(func() {
			defer s.leave()
			f := s.get(ctx, q, queries[i].Path, len(queries) == 1)
			r.answer(ctx, i, f)
		})
	}
	working.Wait()
	return r.result(ctx)
}

// enter acquires a request slot; false: ctx ended first.
func (s *service) enter(ctx context.Context) bool {
	select {
	case s.slots <- struct{}{}:
		return true
	case <-ctx.Done():
		return false
	}
}

func (s *service) leave() { <-s.slots }

// unanswered returns the cause of a failed request without its URL; the error contains no headers or paths.
func unanswered(err error) error {
	var at *url.Error
	if errors.As(err, &at) {
		err = at.Err
	}
	var not addressError
	switch {
	case errors.As(err, &not):
		return not
	case errors.Is(err, context.DeadlineExceeded), errors.Is(err, context.Canceled):
		return errNoAnswer
	case strings.Contains(err.Error(), "\n"):
		return errors.New(strings.ReplaceAll(err.Error(), "\n", "; "))
	}
	return err
}
