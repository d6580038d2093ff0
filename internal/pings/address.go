// Package pings receives HTTP pings: a program reports that it started, succeeded or failed. A ping is a heartbeat of a
// rule and is written directly to the database.
package pings

import (
	"fmt"
	"regexp"
	"strings"
	"time"

	"github.com/google/uuid"
)

// MaxAddresses is the maximum number of addresses of a rule. Any client with the ping key can create addresses.
const MaxAddresses = 10_000

// Address is a ping URL of one key, or of all keys of a rule. Its id is a secret and the only credential of a ping.
type Address struct {
	ID        string
	RuleID    int32
	Rule      string // the rule's name
	Key       string // empty for the rule's ping key: the ping appends the key
	CreatedAt time.Time
	CreatedBy string
}

// IsPingKey reports whether a ping must append its key.
func (a Address) IsPingKey() bool { return a.Key == "" }

// Path returns the URL path below the node's base URL, without the key that a ping appends.
func (a Address) Path() string { return Prefix + a.ID }

// Prefix is the common prefix of all ping paths.
const Prefix = "/ping/"

// NewID returns an unguessable id: a random UUID (RFC 9562, version 4).
func NewID() (string, error) {
	id, err := uuid.NewRandom()
	if err != nil {
		return "", fmt.Errorf("ping address: %w", err)
	}
	return id.String(), nil
}

// pingKey matches the form of healthchecks' ping keys.
var pingKey = regexp.MustCompile(`^[A-Za-z0-9_-]{22}$`)

// ParseID parses an id chosen by the client: the UUID of a check or, for a rule's ping key, also a ping key in
// healthchecks' form.
func ParseID(s string, forPingKey bool) (string, error) {
	if id, ok := readUUID(s); ok {
		return id, nil
	}
	if forPingKey && pingKey.MatchString(s) {
		return s, nil
	}
	if forPingKey {
		return "", fmt.Errorf("%q is neither a UUID nor 22 of A-Z, a-z, 0-9, _ and -; leave it out for a new one", s)
	}
	return "", fmt.Errorf("%q is not a UUID, such as 5bf66975-d4c7-4bf5-bcc8-b8d8a82ea278; leave it out for a new one", s)
}

// readUUID parses a UUID in the form used in URLs: with hyphens, without braces or a prefix.
func readUUID(s string) (id string, ok bool) {
	if len(s) != 36 || uuid.Validate(s) != nil {
		return "", false
	}
	return strings.ToLower(s), true
}
