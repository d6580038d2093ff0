package notify

import (
	"bytes"
	"context"
	"errors"
	"io"
	"net/http"
	"regexp"
	"strings"
	"time"

	"deadman/internal/addresses"
)

// sendTime is the timeout of sending a message to a channel.
const sendTime = 10 * time.Second

// Channel sends messages to people. Implementations are safe for concurrent use.
type Channel interface {
	// Send returns nil if the message was accepted. Its error may contain secrets.
	Send(ctx context.Context, m Message) error
}

// Open creates the channel of a specification without connecting. All HTTP requests use the client.
func Open(s Spec, client *http.Client) (Channel, error) {
	switch s.Kind {
	case Webhook:
		return newWebhook(s, client)
	case AlertmanagerWebhook:
		return &alertmanagerWebhook{name: s.Name, url: s.URL, header: headerOf(s.Headers), client: client}, nil
	case Alertmanager:
		return newAlertmanager(s, client)
	}
	if s.isChat() {
		return newChat(s, client), nil
	}
	return newShout(s, client)
}

// NewClient returns an HTTP client for operator-defined addresses. It follows no redirects, has the timeout sendTime,
// and reads only as much of a response as an error message needs. It connects to private addresses, because receivers
// may be internal, but to no cloud metadata service.
func NewClient() *http.Client {
	transport := http.DefaultTransport.(*http.Transport).Clone()
	transport.MaxResponseHeaderBytes = 64 << 10
	transport.DialContext = addresses.Dialer(sendTime).DialContext
	return &http.Client{
		Transport: bounded{transport}, Timeout: sendTime,
		CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse },
	}
}

// answerSize is the maximum part of a response that is read, in bytes.
const answerSize = 64 << 10

// bounded bounds response bodies.
type bounded struct{ *http.Transport }

func (b bounded) RoundTrip(r *http.Request) (*http.Response, error) {
	answer, err := b.Transport.RoundTrip(r)
	if err == nil {
		answer.Body = struct {
			io.Reader
			io.Closer
		}{io.LimitReader(answer.Body, answerSize), answer.Body}
	}
	return answer, err
}

// headerOf returns the headers of an operator, by their canonical names.
func headerOf(headers map[string]string) http.Header {
	header := make(http.Header, len(headers))
	for name, value := range headers {
		header.Set(name, value)
	}
	return header
}

// newPost returns a request that posts JSON, with the headers of an operator.
func newPost(ctx context.Context, url string, header http.Header, body []byte) (*http.Request, error) {
	r, err := http.NewRequestWithContext(ctx, http.MethodPost, url, bytes.NewReader(body))
	if err != nil {
		return nil, err
	}
	r.Header = header.Clone()
	r.Header.Set("Content-Type", "application/json")
	return r, nil
}

// answerError is the error of a response without a success status.
type answerError struct {
	status int
	text   string
}

func (e *answerError) Error() string { return e.text }

// do sends a request, and returns nil if the response has a success status.
func do(client *http.Client, r *http.Request) (err error) {
	answer, err := client.Do(r)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, answer.Body.Close()) }()
	text, err := io.ReadAll(io.LimitReader(answer.Body, 200))
	problem := "it answers " + answer.Status
	switch {
	case answer.StatusCode >= 200 && answer.StatusCode < 300:
		return nil // the message was accepted, even if reading the body fails
	case answer.StatusCode >= 300 && answer.StatusCode < 400:
		problem += ", and redirects are not followed; name the address that it leads to"
	case err != nil:
		problem += ", and then: " + err.Error()
	case len(text) > 0:
		problem += ": " + strings.ToValidUTF8(string(text), "\uFFFD")
	}
	return &answerError{answer.StatusCode, problem}
}

var (
	address = regexp.MustCompile(`([a-zA-Z][a-zA-Z0-9+.-]*)://[^\s"'<>]+`)
	breaks  = regexp.MustCompile(`\s+`)
)
