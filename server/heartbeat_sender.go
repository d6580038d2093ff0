package server

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/url"
	"syscall"

	"deadman/internal/addresses"
	"deadman/internal/bus"
)

// maxResponseRead is the largest part of a response that is read, in bytes.
const maxResponseRead = 4 << 10

// httpHeartbeat sends heartbeats over HTTP. Its errors never contain the URL, as it may be a secret.
type httpHeartbeat struct {
	url    string
	client *http.Client
}

// newHTTPHeartbeat returns a sender that keeps no idle connections.
func newHTTPHeartbeat(url string) httpHeartbeat {
	transport := http.DefaultTransport.(*http.Transport).Clone()
	transport.DialContext, transport.DisableKeepAlives = addresses.Dialer(heartbeatTimeout).DialContext, true
	return httpHeartbeat{url, &http.Client{
		Transport: transport, Timeout: heartbeatTimeout,
		CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse },
	}}
}

// send posts a heartbeat. If the receiver rejects POST with 405, it sends a GET without a body.
func (w httpHeartbeat) send(ctx context.Context, beat Heartbeat) error {
	body, err := beat.body()
	if err != nil {
		return err
	}
	status, err := w.do(ctx, http.MethodPost, body)
	if err == nil && status == http.StatusMethodNotAllowed {
		status, err = w.do(ctx, http.MethodGet, nil)
	}
	if err == nil && status/100 != 2 {
		err = fmt.Errorf("the receiver answers with %d %s; a status from 200 to 299 is expected, and redirects are not followed", status, http.StatusText(status))
	}
	return err
}

func (w httpHeartbeat) do(ctx context.Context, method string, body []byte) (status int, err error) {
	r, err := http.NewRequestWithContext(ctx, method, w.url, bytes.NewReader(body))
	if err != nil {
		return 0, errors.New("a request to the URL cannot be built")
	}
	if body != nil {
		r.Header.Set("Content-Type", "application/json")
	}
	answer, err := w.client.Do(r)
	if err != nil {
		return 0, withoutURL(err)
	}
	defer answer.Body.Close()
	_, _ = io.CopyN(io.Discard, answer.Body, maxResponseRead) // only the status matters
	return answer.StatusCode, nil
}

// withoutURL returns the cause of a failed request without the URL.
func withoutURL(err error) error {
	var of *url.Error
	var name *net.DNSError
	var errno syscall.Errno
	switch {
	case errors.As(err, &of) && of.Timeout():
		return fmt.Errorf("no answer within %s", heartbeatTimeout)
	case errors.As(err, &name):
		return errors.New("the host's name is not known")
	case errors.As(err, &errno):
		return fmt.Errorf("the host cannot be reached: %w", errno)
	}
	return errors.New("the request failed; the host may not speak HTTP, or its certificate is not trusted")
}

// natsHeartbeat sends heartbeats over NATS.
type natsHeartbeat struct {
	subject string
	bus     *bus.Messages
}

func (s natsHeartbeat) send(ctx context.Context, beat Heartbeat) error {
	body, err := beat.body()
	if err != nil {
		return err
	}
	return s.bus.Publish(ctx, s.subject, body)
}
