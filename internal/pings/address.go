// Package pings takes in what programs say of themselves over HTTP: that they began, went well or
// failed. A ping is a beat of a rule with a heartbeat, and goes straight to the database.
package pings

import (
	"fmt"
	"regexp"
	"strings"
	"time"

	"github.com/google/uuid"
)

// MaxAddresses is how many addresses a rule has at most: whoever knows its ping key can make more.
const MaxAddresses = 10_000

// Address is where pings of a key come in, or of all keys of a rule. Its id is a secret, and all
// that a ping has to show.
type Address struct {
	ID        string
	RuleID    int32
	Rule      string // the rule's name
	Key       string // empty: it is the rule's ping key, to which a ping adds the key
	CreatedAt time.Time
	CreatedBy string
}

// IsPingKey reports whether a ping has to add its key.
func (a Address) IsPingKey() bool { return a.Key == "" }

// Path is the address below a node's own, without the key that a ping adds.
func (a Address) Path() string { return Prefix + a.ID }

// Prefix is what the paths of all pings begin with.
const Prefix = "/ping/"

// NewID is an id that nobody can guess: a random UUID (RFC 9562, version 4).
func NewID() (string, error) {
	id, err := uuid.NewRandom()
	if err != nil {
		return "", fmt.Errorf("address of pings: %w", err)
	}
	return id.String(), nil
}

// pingKey is what healthchecks' ping keys look like.
var pingKey = regexp.MustCompile(`^[A-Za-z0-9_-]{22}$`)

// ParseID reads an id that somebody brings along: the UUID of a check, or for a rule's ping key
// also one in healthchecks' own form.
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

// readUUID reads a UUID as it is written in an address: with its hyphens, and with nothing around.
func readUUID(s string) (id string, ok bool) {
	if len(s) != 36 || uuid.Validate(s) != nil {
		return "", false
	}
	return strings.ToLower(s), true
}
