// Package access says who may do what, and keeps who did what: tokens and the audit.
package access

import (
	"crypto/rand"
	"crypto/sha256"
	"encoding/base64"
	"slices"
	"strings"
	"time"
)

// Token is a right to do things. Its secret is known to its holder alone.
type Token struct {
	ID         string    `json:"id"`
	Name       string    `json:"name"` // no two tokens that are not revoked have the same
	Scopes     []Scope   `json:"scopes"`
	Prefix     string    `json:"prefix,omitzero"` // what its rules' names begin with; empty: all rules
	Given      Bounds    `json:"given,omitzero"`  // the lists that it was made with; Bounds says what they come to
	CreatedAt  time.Time `json:"created_at"`
	CreatedBy  string    `json:"created_by"`
	ExpiresAt  time.Time `json:"expires_at,omitzero"`   // zero: never
	RevokedAt  time.Time `json:"revoked_at,omitzero"`   // zero: it is not
	LastUsedAt time.Time `json:"last_used_at,omitzero"` // to the minute; zero: never
	Hash       [32]byte  `json:"-"`                     // SHA-256 of the secret
}

// May reports whether the token allows what the scope is needed for, on a rule. An empty
// rule is what belongs to no rule: a token with a prefix does not change that, and reads it
// as far as it is about its rules.
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
func (t Token) Live(now time.Time) bool { return t.Standing(now) == "live" }

// Standing is "live", "expired" or "revoked", whichever came first.
func (t Token) Standing(now time.Time) string {
	expired := !t.ExpiresAt.IsZero() && !now.Before(t.ExpiresAt)
	switch {
	case !t.RevokedAt.IsZero() && (!expired || t.RevokedAt.Before(t.ExpiresAt)):
		return "revoked"
	case expired:
		return "expired"
	}
	return "live"
}

// tokenPrefix is how a secret begins, so that people and scanners know one when they see it.
const tokenPrefix = "dm_"

// newSecret returns a secret: 256 random bits after a mark.
func newSecret(mark string) string {
	var b [32]byte
	_, _ = rand.Read(b[:]) // it never fails: it ends the process instead
	return mark + base64.RawURLEncoding.EncodeToString(b[:])
}

// hashOf is what is kept of a secret. It needs no salt and no slowness: there is nothing to
// guess in 256 random bits.
func hashOf(secret string) [32]byte { return sha256.Sum256([]byte(secret)) }
