package webhooks

import (
	"crypto/hmac"
	"crypto/sha256"
	"encoding/base64"
	"encoding/hex"
	"errors"
	"net/http"
	"strings"
	"testing"
	"time"
)

// signedAt is the signing time in the examples of the schemes' documentation.
var signedAt = time.Unix(1614265330, 0)

// signedRequest is a request that its hook accepts.
type signedRequest struct {
	scheme Scheme
	secret string
	body   string
	header map[string]string
	id     string // the id of a repeat
}

// signedRequests are requests with third-party signatures: those of GitHub and Standard Webhooks are from their documentation;
// the one of Stripe was made by hand, following its documentation.
var signedRequests = []signedRequest{
	{GitHub, "It's a Secret to Everybody", "Hello, World!", map[string]string{
		"X-Hub-Signature-256": "sha256=757107ea0eb2509fc211221cce984b8a37570b6d7586c22c46f4379c8b043e17",
	}, "dffd6021bb2bd5b0af676290809ec3a53191dd81c7f70a4b28688a362182986f"},
	{Standard, "whsec_MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw", `{"test": 2432232314}`, map[string]string{
		"webhook-id": "msg_p5jXN8AQM9LWM0D4loKWxJek", "webhook-timestamp": "1614265330",
		"webhook-signature": "v1,g0hM9SsE+OTPJTGt/tmIKtSyZlE3uFJELVlNIOLJ1OE=",
	}, "msg_p5jXN8AQM9LWM0D4loKWxJek"},
	{Stripe, "whsec_test", `{"id":"evt_1"}`, map[string]string{
		"Stripe-Signature": "t=1614265330,v1=347e9afe3d74ec4c5cbefd270edc9246513ae3da7b375223e302560fbd4146eb,v0=6ffbb59b2300aae63f272406069a9788598b792a944a07aba816edb039989a39",
	}, "evt_1"},
}

func (p signedRequest) hook(t *testing.T, secrets string) *Webhook {
	t.Helper()
	h := &Webhook{Name: "h", Scheme: p.scheme, SecretFile: "secret"}
	if err := h.LoadSecrets([]byte(secrets)); err != nil {
		t.Fatal(err)
	}
	return h
}

func headerOf(header map[string]string) func(string) string {
	h := http.Header{}
	for name, value := range header {
		h.Set(name, value)
	}
	return h.Get
}

func TestValidSignatures(t *testing.T) {
	for _, p := range signedRequests {
		t.Run(string(p.scheme), func(t *testing.T) {
			for _, secrets := range []string{p.secret, p.secret + "\r\n", "\nb2xk\n" + p.secret + "\n"} {
				id, err := p.hook(t, secrets).Verify(headerOf(p.header), []byte(p.body), signedAt.Add(Tolerance))
				if err != nil || id != p.id {
					t.Errorf("with %q: %q, %v; want %q", secrets, id, err, p.id)
				}
			}
		})
	}
}

func TestInvalidSignatures(t *testing.T) {
	for _, p := range signedRequests {
		denied := func(what string, h *Webhook, header map[string]string, body string, now time.Time) {
			t.Helper()
			id, err := h.Verify(headerOf(header), []byte(body), now)
			if !errors.Is(err, ErrDenied) {
				t.Errorf("%s, %s: %q, %v", p.scheme, what, id, err)
				return
			}
			for _, leak := range []string{p.secret, p.body, "347e9afe", "757107ea", "g0hM9SsE"} {
				if strings.Contains(err.Error(), leak) {
					t.Errorf("%s, %s: %v contains %q", p.scheme, what, err, leak)
				}
			}
		}
		h := p.hook(t, p.secret)
		denied("another body", h, p.header, p.body+" ", signedAt)
		denied("another secret", p.hook(t, "b3RoZXI="), p.header, p.body, signedAt)
		denied("no header", h, nil, p.body, signedAt)
		for name, value := range p.header {
			changed := map[string]string{}
			for k, v := range p.header {
				changed[k] = v
			}
			for _, other := range []string{"", "x", value[:len(value)-1], strings.ReplaceAll(value, "4", "5"), strings.Repeat(value+",", 20), strings.Repeat(value+" ", 20)} {
				if other == value || p.scheme == Stripe && strings.Contains(other, "v1=347e9afe3d74ec4c5cbefd270edc9246513ae3da7b375223e302560fbd4146eb") && !strings.Contains(other, ",t=") {
					continue // the cut part is a signature of another version, which is ignored
				}
				changed[name] = other
				denied(name+": "+other, h, changed, p.body, signedAt)
			}
		}
		if p.scheme == GitHub {
			continue // its requests have no time
		}
		denied("too old", h, p.header, p.body, signedAt.Add(Tolerance+time.Second))
		denied("too new", h, p.header, p.body, signedAt.Add(-Tolerance-time.Second))
	}
}

// A correctly signed time or body is still validated.
func TestSignedButInvalid(t *testing.T) {
	sign := func(secret, text string) []byte {
		mac := hmac.New(sha256.New, []byte(secret))
		mac.Write([]byte(text))
		return mac.Sum(nil)
	}
	h := signedRequest{scheme: Stripe}.hook(t, "s")
	for _, at := range []string{"", "soon", "1e9", "9223372036854775808", "-9223372036854775808"} {
		header := map[string]string{"Stripe-Signature": "t=" + at + ",v1=" + hex.EncodeToString(sign("s", at+".{}"))}
		if _, err := h.Verify(headerOf(header), []byte("{}"), signedAt); !errors.Is(err, ErrDenied) {
			t.Errorf("signed at %q: %v", at, err)
		}
	}
	// An event without an id is identified by its body.
	for _, body := range []string{`{}`, `not JSON`, `{"id":7}`} {
		header := map[string]string{"Stripe-Signature": "t=1614265330,v1=" + hex.EncodeToString(sign("s", "1614265330."+body))}
		if id, err := h.Verify(headerOf(header), []byte(body), signedAt); err != nil || id != digest([]byte(body)) {
			t.Errorf("%s: %q, %v", body, id, err)
		}
	}
	h = signedRequest{scheme: Standard}.hook(t, base64.StdEncoding.EncodeToString([]byte("s")))
	header := map[string]string{
		"webhook-id": "", "webhook-timestamp": "1614265330",
		"webhook-signature": "v1," + base64.StdEncoding.EncodeToString(sign("s", ".1614265330.{}")),
	}
	if _, err := h.Verify(headerOf(header), []byte("{}"), signedAt); !errors.Is(err, ErrDenied) {
		t.Errorf("without an id: %v", err)
	}
}

func TestSchemeNoneAcceptsEverything(t *testing.T) {
	h := &Webhook{Name: "h", Scheme: None}
	if id, err := h.Verify(headerOf(nil), []byte("x"), signedAt); id != "" || err != nil {
		t.Errorf("%q, %v", id, err)
	}
}

func TestSecretFiles(t *testing.T) {
	for _, c := range []struct {
		scheme      Scheme
		file, wrong string
	}{
		{Stripe, "", "has no secret"},
		{GitHub, "\n \n", "has no secret"},
		{Standard, "whsec_", "is not base64"},
		{Standard, "whsec_%%%", "is not base64"},
		{Stripe, strings.Repeat("s\n", 9), "has 9 secrets, and the limit is 8"},
	} {
		h := &Webhook{Name: "shop", Scheme: c.scheme, SecretFile: "secret.txt"}
		if err := h.LoadSecrets([]byte(c.file)); err == nil || !strings.Contains(err.Error(), c.wrong) || !strings.Contains(err.Error(), "hook shop") ||
			!strings.Contains(err.Error(), "secret.txt") || strings.Contains(err.Error(), "%%%") {
			t.Errorf("%s %q: %v, want %q", c.scheme, c.file, err, c.wrong)
		}
	}
}

// The example is from Slack's documentation (https://docs.slack.dev/authentication/verifying-requests-from-slack).
func TestSlackSignatures(t *testing.T) {
	const (
		secret    = "8f742231b10e8888abcd99yyyzzz85a5"
		at        = "1531420618"
		signature = "v0=a2114d57b48eac39b9ad189dd8316235a7b4a8d21a10bd27519666489c69b503"
		body      = "token=xyzz0WbapA4vBCDEFasx0q6G&team_id=T1DC2JH3J&team_domain=testteamnow&channel_id=G8PSS9T3V&channel_name=foobar&user_id=U2CERLKJA&user_name=roadrunner&command=%2Fwebhook-collect&text=&response_url=https%3A%2F%2Fhooks.slack.com%2Fcommands%2FT1DC2JH3J%2F397700885554%2F96rGlfmibIGlgcZRskXaIFfN&trigger_id=398738663015.47445629121.803a0bc887a14d10d2c447fce8b6703c"
	)
	signed := time.Unix(1531420618, 0)
	h := signedRequest{scheme: Slack}.hook(t, "old\n"+secret)
	verify := func(h *Webhook, at, signature, body string, now time.Time) error {
		_, err := h.Verify(headerOf(map[string]string{"X-Slack-Request-Timestamp": at, "X-Slack-Signature": signature}), []byte(body), now)
		return err
	}
	if err := verify(h, at, signature, body, signed.Add(Tolerance)); err != nil {
		t.Error(err)
	}
	other := signedRequest{scheme: Slack}.hook(t, "other")
	for name, err := range map[string]error{
		"too old":           verify(h, at, signature, body, signed.Add(Tolerance+time.Second)),
		"too new":           verify(h, at, signature, body, signed.Add(-Tolerance-time.Second)),
		"another time":      verify(h, "1531420619", signature, body, signed),
		"another body":      verify(h, at, signature, body+"&x=1", signed),
		"another secret":    verify(other, at, signature, body, signed),
		"no signature":      verify(h, at, "", body, signed),
		"another version":   verify(h, at, "v1"+signature[2:], body, signed),
		"no time":           verify(h, "", signature, body, signed),
		"another signature": verify(h, at, signature[:len(signature)-1]+"4", body, signed),
	} {
		if !errors.Is(err, ErrDenied) {
			t.Errorf("%s: %v", name, err)
		}
	}
}
