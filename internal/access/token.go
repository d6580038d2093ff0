// Package access implements API tokens, scopes, sessions, quotas and the audit log.
package access

import (
	"crypto/rand"
	"crypto/sha256"
	"encoding/base64"
	"slices"
	"strings"
	"time"
)

// Token grants permissions to its holder. Only the holder knows the secret.
type Token struct {
	ID         string    `json:"id"`
	Name       string    `json:"name"` // unique among tokens that are not revoked
	Scopes     []Scope   `json:"scopes"`
	Prefix     string    `json:"prefix,omitzero"` // of the names of its rules; empty: all rules
	Given      Bounds    `json:"given,omitzero"`  // lists given at creation; Bounds returns the effective ones
	CreatedAt  time.Time `json:"created_at"`
	CreatedBy  string    `json:"created_by"`
	ExpiresAt  time.Time `json:"expires_at,omitzero"`   // zero: never
	RevokedAt  time.Time `json:"revoked_at,omitzero"`   // zero: not revoked
	LastUsedAt time.Time `json:"last_used_at,omitzero"` // to the minute; zero: never
	Hash       [32]byte  `json:"-"`                     // SHA-256 of the secret
}

// May reports whether the token has the scope for a rule. An empty rule stands for objects that belong to no rule: a
// token with a prefix can't change them, and reads only the parts about its rules.
func (t Token) May(s Scope, rule string) bool {
	if !slices.ContainsFunc(t.Scopes, func(has Scope) bool { return has.covers(s) }) {
		return false
	}
	if rule == "" {
		return t.Prefix == "" || s == Read
	}
	return strings.HasPrefix(rule, t.Prefix)
}

// Live reports whether the token is neither revoked nor expired.
func (t Token) Live(now time.Time) bool { return t.Status(now) == "active" }

// Status returns "active", or the earlier of "expired" and "revoked".
func (t Token) Status(now time.Time) string {
	expired := !t.ExpiresAt.IsZero() && !now.Before(t.ExpiresAt)
	switch {
	case !t.RevokedAt.IsZero() && (!expired || t.RevokedAt.Before(t.ExpiresAt)):
		return "revoked"
	case expired:
		return "expired"
	}
	return "active"
}

// Bounds returns the bounds of the token; nil: none. A token with a prefix may use only the entries given to it; one
// without is bound by its given lists only.
func (t Token) Bounds() *Bounds {
	if t.Prefix == "" && !t.Given.given() {
		return nil
	}
	b := t.Given
	b.Token, b.Prefix = t.Name, t.Prefix
	if t.Prefix != "" {
		b.Subjects, b.Publish = orNone(b.Subjects), orNone(b.Publish)
		b.Sources, b.Handlers = orNone(b.Sources), orNone(b.Handlers)
	}
	return &b
}

// Alike reports whether two tokens grant the same permissions.
func (t Token) Alike(other Token) bool {
	return slices.Equal(t.Scopes, other.Scopes) && t.Prefix == other.Prefix && t.Bounds().Equal(other.Bounds())
}

// Who returns the holder for messages: "the token ci", or the person.
func (t Token) Who() string { return whoIs(t.Name) }

// tokenPrefix is the prefix of a token's secret, recognizable to people and scanners.
const tokenPrefix = "dm_"

// newSecret returns a secret: a mark and 256 random bits.
func newSecret(mark string) string {
	var b [32]byte
	_, _ = rand.Read(b[:]) // it never fails: it ends the process instead
	return mark + base64.RawURLEncoding.EncodeToString(b[:])
}

// hashOf returns the stored hash of a secret. It needs no salt and no slow hash, as 256 random bits can't be guessed.
func hashOf(secret string) [32]byte { return sha256.Sum256([]byte(secret)) }
