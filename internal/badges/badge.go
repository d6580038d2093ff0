// Package badges signs the addresses of badges, and draws them. A badge is a picture with the state of a heartbeat.
package badges

import (
	"crypto/hmac"
	"crypto/rand"
	"crypto/sha256"
	"encoding/base64"
	"encoding/binary"
	"errors"
)

const (
	// Prefix is the path of a badge before its token.
	Prefix = "/badge/"
	// Suffix is the path of a badge after its token.
	Suffix = ".svg"

	// maxToken is the length of the longest token, that of a key of 512 bytes.
	maxToken = 720

	keySize, ruleSize, macSize = 32, 4, 16
)

// ErrInvalid means that a token was changed, is not from this database, or was revoked.
var ErrInvalid = errors.New("the badge does not exist, or was revoked")

// Target is what a badge shows: a key of a rule, or the whole rule.
type Target struct {
	RuleID int32
	Key    string // empty: the whole rule
}

// NewKey returns a random key for the badges of a rule.
func NewKey() []byte {
	key := make([]byte, keySize)
	_, _ = rand.Read(key) // it never fails
	return key
}

// Sign returns the path of a badge, signed with the key of its rule.
func Sign(key []byte, t Target) string {
	data := binary.BigEndian.AppendUint32(nil, uint32(t.RuleID)) //nolint:gosec // read back as it is
	data = append(data, t.Key...)
	return Prefix + base64.RawURLEncoding.EncodeToString(append(data, macOf(key, data)...)) + Suffix
}

// RuleOf returns the rule that a token names. It does not verify the token. It returns ErrInvalid.
func RuleOf(token string) (int32, error) {
	t, _, _, err := read(token)
	return t.RuleID, err
}

// Verify returns the target of a token, which the key of its rule signed. It returns ErrInvalid. Its duration does not depend
// on the number of matching bytes of the signature.
func Verify(key []byte, token string) (Target, error) {
	t, data, mac, err := read(token)
	if err == nil && (len(key) == 0 || !hmac.Equal(mac, macOf(key, data))) {
		err = ErrInvalid
	}
	if err != nil {
		return Target{}, err
	}
	return t, nil
}

// macOf returns the signature of a token's data. The label keeps it distinct from signatures of other data.
func macOf(key, data []byte) []byte {
	mac := hmac.New(sha256.New, key)
	mac.Write([]byte("deadman badge 1\x00"))
	mac.Write(data)
	return mac.Sum(nil)[:macSize]
}

// read decodes a token.
func read(token string) (t Target, data, mac []byte, err error) {
	if len(token) > maxToken {
		return t, nil, nil, ErrInvalid
	}
	raw, err := base64.RawURLEncoding.Strict().DecodeString(token)
	if err != nil || len(raw) < ruleSize+macSize {
		return t, nil, nil, ErrInvalid
	}
	data, mac = raw[:len(raw)-macSize], raw[len(raw)-macSize:]
	t.RuleID, t.Key = int32(binary.BigEndian.Uint32(data)), string(data[ruleSize:]) //nolint:gosec // written as it was
	return t, data, mac, nil
}
