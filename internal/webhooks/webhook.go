// Package webhooks says whose webhooks are taken in, and proves that they are theirs.
package webhooks

import (
	"bytes"
	"encoding/base64"
	"errors"
	"fmt"
	"strings"
	"time"
)

// ErrDenied means that a request does not prove that it comes from whom the hook is for.
var ErrDenied = errors.New("the webhook is not proven")

// Tolerance is how far the time that a webhook was signed at may be from now.
const Tolerance = 5 * time.Minute

// Webhook is an address that somebody else's webhooks are taken in at.
type Webhook struct {
	Name       string
	Subject    string // what they are published on
	Scheme     Scheme
	SecretFile string // its path; empty: the scheme has no secret

	secrets [][]byte
}

// Set is hooks by their names.
type Set map[string]*Webhook

// Scheme is how a webhook is signed.
type Scheme string

// The schemes that there are.
const (
	Stripe   Scheme = "stripe"
	GitHub   Scheme = "github"
	Standard Scheme = "standard" // Standard Webhooks, https://www.standardwebhooks.com
	None     Scheme = "none"     // whoever reaches the address is believed
)

// verifier checks a request's signatures against a hook's secrets, and returns what is the same
// in a repeat of the request and cannot be forged. It reads a header by its name.
type verifier func(h *Webhook, header func(string) string, body []byte, now time.Time) (id string, err error)

var verifiers = map[Scheme]verifier{Stripe: stripe, GitHub: github, Standard: standard, None: none}

// maxSecrets is how many secrets a hook can have: an old one, a new one, and some more.
const maxSecrets = 8

// LoadSecrets gives the hook what its file of secrets holds: one on each line, of which any is good,
// so that one can be replaced by the next.
func (h *Webhook) LoadSecrets(file []byte) error {
	h.secrets = nil
	for line := range bytes.Lines(file) {
		text := strings.TrimSpace(string(line))
		if text == "" {
			continue
		}
		secret, err := h.secret(text)
		if err != nil {
			return fmt.Errorf("hook %s: %s: %w", h.Name, h.SecretFile, err)
		}
		h.secrets = append(h.secrets, secret)
	}
	switch n := len(h.secrets); {
	case n == 0:
		return fmt.Errorf("hook %s: %s holds no secret; write one on each line", h.Name, h.SecretFile)
	case n > maxSecrets:
		return fmt.Errorf("hook %s: %s holds %d secrets, and the limit is %d; leave out the old ones", h.Name, h.SecretFile, n, maxSecrets)
	}
	return nil
}

// secret is what a line stands for. Standard Webhooks writes bytes as base64 after a prefix.
func (h *Webhook) secret(text string) ([]byte, error) {
	if h.Scheme != Standard {
		return []byte(text), nil
	}
	secret, err := base64.StdEncoding.DecodeString(strings.TrimPrefix(text, "whsec_"))
	if err != nil || len(secret) == 0 {
		return nil, errors.New("a secret is no base64; Standard Webhooks writes it as whsec_ and base64")
	}
	return secret, nil
}

// Verify makes sure of a request, whose headers are read by their names, and returns what tells
// it from others but not from its repeats; empty where nothing does. It returns ErrDenied.
func (h *Webhook) Verify(header func(string) string, body []byte, now time.Time) (id string, err error) {
	return verifiers[h.Scheme](h, header, body, now)
}
