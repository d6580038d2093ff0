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

// answerRead is the most that is read of the answer to a heartbeat.
const answerRead = 4 << 10

// webBeat sends heartbeats over HTTP. Its errors never have the URL in them: it may be a
// secret.
type webBeat struct {
	url    string
	client *http.Client
}

// newWebBeat returns a sender that keeps no connection between two heartbeats.
func newWebBeat(url string) webBeat {
	transport := http.DefaultTransport.(*http.Transport).Clone()
	transport.DialContext, transport.DisableKeepAlives = addresses.Dialer(heartbeatWithin).DialContext, true
	return webBeat{url, &http.Client{
		Transport: transport, Timeout: heartbeatWithin,
		CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse },
	}}
}

// send posts a heartbeat. A receiver that takes no POST is asked with GET, without a body.
func (w webBeat) send(ctx context.Context, beat Heartbeat) error {
	body, err := beat.body()
	if err != nil {
		return err
	}
	status, err := w.ask(ctx, http.MethodPost, body)
	if err == nil && status == http.StatusMethodNotAllowed {
		status, err = w.ask(ctx, http.MethodGet, nil)
	}
	if err == nil && status/100 != 2 {
		err = fmt.Errorf("the receiver answers with %d %s; a status from 200 to 299 is expected, and redirects are not followed", status, http.StatusText(status))
	}
	return err
}

func (w webBeat) ask(ctx context.Context, method string, body []byte) (status int, err error) {
	r, err := http.NewRequestWithContext(ctx, method, w.url, bytes.NewReader(body))
	if err != nil {
		return 0, errors.New("the URL cannot be asked")
	}
	if body != nil {
		r.Header.Set("Content-Type", "application/json")
	}
	answer, err := w.client.Do(r)
	if err != nil {
		return 0, nameless(err)
	}
	defer answer.Body.Close()
	_, _ = io.CopyN(io.Discard, answer.Body, answerRead) // the status has said it all
	return answer.StatusCode, nil
}

// nameless is why a request failed, without where it went.
func nameless(err error) error {
	var of *url.Error
	var name *net.DNSError
	var errno syscall.Errno
	switch {
	case errors.As(err, &of) && of.Timeout():
		return fmt.Errorf("no answer within %s", heartbeatWithin)
	case errors.As(err, &name):
		return errors.New("the host's name is not known")
	case errors.As(err, &errno):
		return fmt.Errorf("the host cannot be reached: %w", errno)
	}
	return errors.New("the request failed; the host may not speak HTTP, or its certificate is not trusted")
}

// subjectBeat sends heartbeats over NATS.
type subjectBeat struct {
	subject string
	bus     *bus.Bus
}

func (s subjectBeat) send(ctx context.Context, beat Heartbeat) error {
	body, err := beat.body()
	if err != nil {
		return err
	}
	return s.bus.Say(ctx, s.subject, body)
}
