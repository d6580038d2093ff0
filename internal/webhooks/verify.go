package webhooks

import (
	"crypto/sha256"
	"encoding/base64"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"strconv"
	"strings"
	"time"
)

// maxSignatures is the maximum number of signatures checked per request.
const maxSignatures = 8

// stripe verifies Stripe's scheme: a header with the time and signatures of the time and the body.
// https://docs.stripe.com/webhooks#verify-manually
func stripe(h *Webhook, header func(string) string, body []byte, now time.Time) (string, error) {
	const name = "Stripe-Signature"
	var at string
	var given []string
	for part := range strings.SplitSeq(header(name), ",") {
		switch key, value, _ := strings.Cut(strings.TrimSpace(part), "="); key {
		case "t":
			at = value
		case "v1":
			given = append(given, value)
		}
	}
	if err := h.checkHMAC(name, given, hex.DecodeString, []byte(at+"."), body); err != nil {
		return "", err
	}
	if err := withinTolerance(at, now); err != nil {
		return "", err
	}
	var event struct{ ID string }
	if err := json.Unmarshal(body, &event); err != nil || event.ID == "" {
		return digest(body), nil //nolint:nilerr // what it is is for the rules to say
	}
	return event.ID, nil
}

// github verifies GitHub's scheme: a signature of the body. The scheme has no time and does not sign the delivery id,
// so a repeat is recognized by its body.
// https://docs.github.com/webhooks/using-webhooks/validating-webhook-deliveries
func github(h *Webhook, header func(string) string, body []byte, _ time.Time) (string, error) {
	const name = "X-Hub-Signature-256"
	var given []string
	if hash, ok := strings.CutPrefix(header(name), "sha256="); ok {
		given = append(given, hash)
	}
	if err := h.checkHMAC(name, given, hex.DecodeString, body); err != nil {
		return "", err
	}
	return digest(body), nil
}

// standard verifies the scheme of Standard Webhooks: signatures of an id, the time and the body.
// https://github.com/standard-webhooks/standard-webhooks/blob/main/spec/standard-webhooks.md
func standard(h *Webhook, header func(string) string, body []byte, now time.Time) (string, error) {
	const name = "webhook-signature"
	id, at := header("webhook-id"), header("webhook-timestamp")
	if id == "" || at == "" {
		return "", fmt.Errorf("%w: the headers webhook-id and webhook-timestamp are required", ErrDenied)
	}
	var given []string
	for part := range strings.FieldsSeq(header(name)) {
		if signature, ok := strings.CutPrefix(part, "v1,"); ok {
			given = append(given, signature)
		}
	}
	if err := h.checkHMAC(name, given, base64.StdEncoding.DecodeString, []byte(id+"."+at+"."), body); err != nil {
		return "", err
	}
	return id, withinTolerance(at, now)
}

// slack verifies Slack's scheme: a signature of the time and the body.
// https://docs.slack.dev/authentication/verifying-requests-from-slack
func slack(h *Webhook, header func(string) string, body []byte, now time.Time) (string, error) {
	const name = "X-Slack-Signature"
	at := header("X-Slack-Request-Timestamp")
	var given []string
	if signature, ok := strings.CutPrefix(header(name), "v0="); ok {
		given = append(given, signature)
	}
	if err := h.checkHMAC(name, given, hex.DecodeString, []byte("v0:"+at+":"), body); err != nil {
		return "", err
	}
	return "", withinTolerance(at, now)
}

func none(*Webhook, func(string) string, []byte, time.Time) (string, error) { return "", nil }

// withinTolerance checks the signed time of a request, in seconds since 1970.
func withinTolerance(at string, now time.Time) error {
	seconds, err := strconv.ParseInt(at, 10, 64)
	if err != nil {
		return fmt.Errorf("%w: its time is not in seconds since 1970", ErrDenied)
	}
	if away := now.Sub(time.Unix(seconds, 0)).Abs(); away > Tolerance {
		return fmt.Errorf("%w: it was signed more than %s from now; send it again, and check the clocks", ErrDenied, Tolerance)
	}
	return nil
}

func digest(body []byte) string {
	sum := sha256.Sum256(body)
	return hex.EncodeToString(sum[:])
}
