// Package webhooks configures incoming webhooks and verifies their signatures.
package webhooks

import (
	"bytes"
	"crypto/hmac"
	"crypto/sha256"
	"encoding/base64"
	"errors"
	"fmt"
	"strings"
	"time"

	"deadman/internal/configfile"
)

// ErrDenied means that the signature of a request is missing or invalid.
var ErrDenied = errors.New("webhook signature verification failed")

// Tolerance is the maximum difference between the signed time of a webhook and now.
const Tolerance = 5 * time.Minute

// Webhook is an endpoint for the webhooks of another service.
type Webhook struct {
	Name       string
	Subject    string // of the published events; empty for buttons
	Scheme     Scheme
	SecretFile string // its path; empty: the scheme has no secret

	secrets [][]byte
}

// Set is a set of hooks by name.
type Set map[string]*Webhook

func (set Set) read(v configfile.Value) {
	items := v.List("hook")
	if len(items) > MaxHooks {
		v.Problem("there are %d hooks, and the limit is %d; remove unused ones", len(items), MaxHooks)
		return
	}
	for _, item := range items {
		fields := item.In(hookFields)
		h := readHook(fields)
		if h.Name != "" && set[h.Name] != nil {
			fields["name"].Problem("there are two hooks %s; use unique names", h.Name)
		}
		set[h.Name] = h
	}
}

// Scheme is the signature scheme of a webhook.
type Scheme string

// The signature schemes.
const (
	Stripe   Scheme = "stripe"
	GitHub   Scheme = "github"
	Standard Scheme = "standard" // Standard Webhooks, https://www.standardwebhooks.com
	None     Scheme = "none"     // every request is accepted

	// The schemes of buttons in messages that acknowledge alerts. Their requests are not published.
	Slack      Scheme = "slack"
	Mattermost Scheme = "mattermost" // unsigned: the token of the button is the proof
)

// IsButton reports whether the hook takes presses of buttons.
func (h *Webhook) IsButton() bool { return h.Scheme == Slack || h.Scheme == Mattermost }

// hasSecret reports whether the scheme of the hook has a secret.
func (h *Webhook) hasSecret() bool { return h.Scheme != None && h.Scheme != Mattermost }

// verifier checks the signatures of a request against a hook's secrets. It returns an id that is the same for a repeat
// of the request and cannot be forged. header returns a header by name.
type verifier func(h *Webhook, header func(string) string, body []byte, now time.Time) (id string, err error)

var verifiers = map[Scheme]verifier{Stripe: stripe, GitHub: github, Standard: standard, None: none, Slack: slack, Mattermost: none}

// maxSecrets is the maximum number of secrets of a hook, to allow overlapping rotation.
const maxSecrets = 8

// LoadSecrets sets the hook's secrets from the contents of its secret file: one secret per line, each of them valid, so
// that secrets can be rotated.
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
		return fmt.Errorf("hook %s: %s has no secret; write one per line", h.Name, h.SecretFile)
	case n > maxSecrets:
		return fmt.Errorf("hook %s: %s has %d secrets, and the limit is %d; remove the old ones", h.Name, h.SecretFile, n, maxSecrets)
	}
	return nil
}

// secret decodes a line of the file. Standard Webhooks encodes bytes as base64 after a prefix.
func (h *Webhook) secret(text string) ([]byte, error) {
	if h.Scheme != Standard {
		return []byte(text), nil
	}
	secret, err := base64.StdEncoding.DecodeString(strings.TrimPrefix(text, "whsec_"))
	if err != nil || len(secret) == 0 {
		return nil, errors.New("a secret is not base64; Standard Webhooks encodes it as whsec_ and base64")
	}
	return secret, nil
}

// Verify verifies a request and returns an id that is the same for its repeats; empty if the scheme has none. header
// returns a header by name. It returns ErrDenied.
func (h *Webhook) Verify(header func(string) string, body []byte, now time.Time) (id string, err error) {
	return verifiers[h.Scheme](h, header, body, now)
}

// checkHMAC verifies that a signature in the header matches the parts under one of the secrets. Its duration does not
// depend on the number of matching bytes.
func (h *Webhook) checkHMAC(name string, given []string, decode func(string) ([]byte, error), parts ...[]byte) error {
	if len(given) == 0 || len(given) > maxSignatures {
		return fmt.Errorf("%w: the header %s has no %s signature, or more than %d", ErrDenied, name, h.Scheme, maxSignatures)
	}
	good := false
	for _, secret := range h.secrets {
		mac := hmac.New(sha256.New, secret)
		for _, part := range parts {
			mac.Write(part)
		}
		want := mac.Sum(nil)
		for _, text := range given {
			signature, err := decode(text)
			good = err == nil && hmac.Equal(signature, want) || good
		}
	}
	if !good {
		return fmt.Errorf("%w: the signature does not match the body and the hook's secret", ErrDenied)
	}
	return nil
}
