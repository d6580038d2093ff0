// Package acklinks signs the links and buttons in messages that acknowledge alerts, and acknowledges alerts with them.
package acklinks

import (
	"crypto/hmac"
	"crypto/rand"
	"crypto/sha256"
	"encoding/base64"
	"encoding/binary"
	"errors"
	"fmt"
	"time"

	"deadman/alerts"
)

const (
	// Prefix is the path of a link before its token.
	Prefix = "/acknowledge/"
	// Lifetime is the time from the sending of a message for which its links are valid. Uses of links are remembered as
	// long (store.RequestStore).
	Lifetime = 24 * time.Hour
	// KeySize is the size of a key, in bytes.
	KeySize = 32
	// MaxToken is the maximum length of a token, in bytes.
	MaxToken = 200

	macSize = 16
)

var (
	// ErrInvalid means that a token was changed, is not from this database, or was revoked.
	ErrInvalid = errors.New("the link is invalid: it is incomplete, or was revoked; open the alert in deadman, or use the link of a newer message")
	// ErrExpired means that a token is too old.
	ErrExpired = errors.New("the link has expired")
	// ErrUsed means that a link was used, and that its acknowledgement was removed or has ended since.
	ErrUsed = errors.New("the link was used")
)

// Target is what a token acknowledges: an alert, or the alerts of a message to a channel.
type Target struct {
	Channel   string // of the message with the token
	Alert     alerts.ID
	Message   int64 // id of the notification with the alerts; 0: Alert
	Button    bool  // the token is for a button, and hidden from the readers of the message
	ExpiresAt time.Time
}

// NewKey returns a random key.
func NewKey() []byte {
	key := make([]byte, KeySize)
	_, _ = rand.Read(key) // it never fails
	return key
}

// The kinds of targets, as the first byte of a token. ofButton is added to them.
const (
	ofAlert   byte = 1
	ofMessage byte = 2
	ofButton  byte = 0x80
)

// Sign returns the token of a target. It has the time of its end to the second.
func Sign(key []byte, t Target) string {
	data := []byte{ofAlert}
	if t.Message != 0 {
		data = binary.BigEndian.AppendUint64([]byte{ofMessage}, uint64(t.Message)) //nolint:gosec // read back as it is
	} else {
		data = append(data, t.Alert[:]...)
	}
	if t.Button {
		data[0] |= ofButton
	}
	data = binary.BigEndian.AppendUint64(data, uint64(t.ExpiresAt.Unix())) //nolint:gosec // read back as it is
	data = append(data, t.Channel...)
	return base64.RawURLEncoding.EncodeToString(append(data, macOf(key, data)...))
}

// macOf returns the signature of a token's data. The label keeps it distinct from signatures of other data with the key.
func macOf(key, data []byte) []byte {
	mac := hmac.New(sha256.New, key)
	mac.Write([]byte("deadman acknowledge 1\x00"))
	mac.Write(data)
	return mac.Sum(nil)[:macSize]
}

// Verify returns the target of a token. It returns ErrInvalid, and ErrExpired with the target. Its duration does not depend
// on the number of matching bytes of the signature.
func Verify(key []byte, token string, now time.Time) (Target, error) {
	if len(token) > MaxToken {
		return Target{}, ErrInvalid
	}
	raw, err := base64.RawURLEncoding.Strict().DecodeString(token)
	if err != nil || len(raw) <= macSize || len(key) == 0 {
		return Target{}, ErrInvalid
	}
	data := raw[:len(raw)-macSize]
	if !hmac.Equal(raw[len(data):], macOf(key, data)) {
		return Target{}, ErrInvalid
	}
	t, ok := read(data)
	if !ok {
		return Target{}, ErrInvalid
	}
	if !now.Before(t.ExpiresAt) {
		return t, fmt.Errorf("%w, %s ago; open the alert in deadman", ErrExpired, now.Sub(t.ExpiresAt).Round(time.Second))
	}
	return t, nil
}

// read decodes signed data.
func read(data []byte) (t Target, ok bool) {
	const timeSize, numberSize = 8, 8
	isButton := data[0]&ofButton != 0
	kind, data := data[0]&^ofButton, data[1:]
	t.Button = isButton
	switch {
	case kind == ofAlert && len(data) >= len(t.Alert)+timeSize:
		copy(t.Alert[:], data)
		data = data[len(t.Alert):]
	case kind == ofMessage && len(data) >= numberSize+timeSize:
		t.Message = int64(binary.BigEndian.Uint64(data)) //nolint:gosec // written as it is
		data = data[numberSize:]
	default:
		return t, false
	}
	t.ExpiresAt = time.Unix(int64(binary.BigEndian.Uint64(data)), 0).UTC() //nolint:gosec // written as it is
	t.Channel = string(data[timeSize:])
	return t, true
}
