package notify

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"regexp"
	"strings"
	"time"

	"deadman/internal/addresses"
)

// sendTime is how long a channel may take for a message.
const sendTime = 10 * time.Second

// Channel takes messages for people. Implementations are safe for concurrent use.
type Channel interface {
	// Send returns nil when the message was taken. What it returns else may have secrets
	// in it.
	Send(ctx context.Context, m Message) error
}

// Open makes a channel of what a file says about it. It connects to nothing yet. Whatever
// goes over HTTP goes through the client.
func Open(s Spec, client *http.Client) (Channel, error) {
	switch s.Kind {
	case Webhook:
		return newWebhook(s, client)
	case Alertmanager:
		return &alertmanager{name: s.Name, url: s.URL, client: client}, nil
	}
	return newShout(s, client)
}

// NewClient returns a client for what the operator named and for nothing else: it follows
// no redirects, waits no longer than sendTime, and reads no more of an answer than is needed to
// tell what went wrong. It connects to private addresses, where alerts may be wanted, and to no cloud's metadata.
func NewClient() *http.Client {
	transport := http.DefaultTransport.(*http.Transport).Clone()
	transport.MaxResponseHeaderBytes = 64 << 10
	transport.DialContext = addresses.Dialer(sendTime).DialContext
	return &http.Client{
		Transport: bounded{transport}, Timeout: sendTime,
		CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse },
	}
}

// answerSize is the most that is read of an answer, in bytes.
const answerSize = 64 << 10

// bounded bounds the bodies of answers.
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

// do sends a request, and returns nil when it was answered with a status of success.
func do(client *http.Client, r *http.Request) (err error) {
	answer, err := client.Do(r)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, answer.Body.Close()) }()
	said, err := io.ReadAll(io.LimitReader(answer.Body, 200))
	switch {
	case answer.StatusCode >= 200 && answer.StatusCode < 300:
		return nil // it was taken, whatever becomes of the answer
	case answer.StatusCode >= 300 && answer.StatusCode < 400:
		return fmt.Errorf("it answers %s, and redirects are not followed; name the address that it leads to", answer.Status)
	case err != nil:
		return fmt.Errorf("it answers %s, and then: %w", answer.Status, err)
	case len(said) == 0:
		return fmt.Errorf("it answers %s", answer.Status)
	}
	return fmt.Errorf("it answers %s: %s", answer.Status, strings.ToValidUTF8(string(said), "\uFFFD"))
}

var (
	address = regexp.MustCompile(`([a-zA-Z][a-zA-Z0-9+.-]*)://[^\s"'<>]+`)
	breaks  = regexp.MustCompile(`\s+`)
)

// reasonSize is the most bytes that are kept of why a message was not taken.
const reasonSize = 500

// reason is an error as it may be shown to everybody: of addresses only the host is left,
// where that is none of the secrets, and of secrets nothing.
func (s Spec) reason(err error) string {
	text := address.ReplaceAllStringFunc(err.Error(), func(found string) string {
		u, err := url.Parse(found)
		if err != nil || u.Scheme != "http" && u.Scheme != "https" {
			scheme, _, _ := strings.Cut(found, "://")
			return scheme + "://…"
		}
		return u.Scheme + "://" + u.Host + "/…"
	})
	for _, secret := range s.secrets() {
		text = strings.ReplaceAll(text, secret, "…")
	}
	text = strings.TrimSpace(breaks.ReplaceAllString(text, " "))
	if len(text) > reasonSize {
		text = strings.ToValidUTF8(text[:reasonSize], "") + "…"
	}
	return text
}

// secrets are the parts of a channel that nobody may see: whatever in its URL is long enough
// to be one, and the secret beside it.
func (s Spec) secrets() []string {
	parts := []string{s.URL, s.Secret}
	if u, err := url.Parse(s.URL); err == nil {
		password, _ := u.User.Password()
		parts = append(parts, password, u.User.Username())
		parts = append(parts, strings.FieldsFunc(u.Path, func(r rune) bool { return r == '/' || r == ':' })...)
		if s.Kind != Email {
			for _, values := range u.Query() {
				parts = append(parts, values...)
			}
		}
	}
	var long []string
	for _, p := range parts {
		if len(p) >= 8 {
			long = append(long, p)
		}
	}
	return long
}
