package web_test

import (
	"crypto/hmac"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"deadman/internal/access"
	"deadman/internal/webhooks"
	"deadman/web"
)

// withHooks adds webhooks: /hooks/shop with Stripe's signatures, /hooks/code with GitHub's, /hooks/open without any, and
// /hooks/nowhere on a subject without a stream.
func withHooks(o *web.Options, s *fixture) {
	known, err := webhooks.Parse([]byte(`hooks:
  - {name: shop, subject: orders.created, scheme: stripe, secret_file: s}
  - {name: code, subject: orders.created, scheme: github, secret_file: s}
  - {name: open, subject: orders.created, scheme: none}
  - {name: nowhere, subject: unread.subject, scheme: github, secret_file: s}
`), "hooks.yaml")
	failOn(s.t, err)
	for _, h := range known {
		if h.SecretFile != "" {
			failOn(s.t, h.LoadSecrets([]byte("secret")))
		}
	}
	o.Hooks = func(name string) *webhooks.Webhook { return known[name] }
}

func sign(text string) string {
	mac := hmac.New(sha256.New, []byte("secret"))
	mac.Write([]byte(text))
	return hex.EncodeToString(mac.Sum(nil))
}

// stripe returns the headers of a body signed at a time.
func stripe(body string, at time.Time) []string {
	t := fmt.Sprint(at.Unix())
	return []string{"Content-Type", "application/json", "Stripe-Signature", "t=" + t + ",v1=" + sign(t+"."+body)}
}

func github(body string) []string { return []string{"X-Hub-Signature-256", "sha256=" + sign(body)} }

// lastSequence returns the sequence of the last event.
func (s *fixture) lastSequence() uint64 {
	s.t.Helper()
	info, err := s.bus.Streams.Info(s.t.Context(), "DEADMAN_EVENTS")
	failOn(s.t, err)
	return info.LastSeq
}

// TestHooks checks that a webhook needs no token, becomes one event, and is answered after it is durable.
func TestHooks(t *testing.T) {
	s := newFixture(t, closedNode, withHooks)
	body := `{"id":"evt_1","data":{}}`
	take := func(path, body string, header ...string) web.PublishResult {
		t.Helper()
		a := requestPath(t, s.Server, "POST", path, body, header...)
		var taken web.PublishResult
		if err := json.Unmarshal([]byte(a.body), &taken); a.StatusCode != 202 || err != nil {
			t.Fatalf("%s: %d %s", path, a.StatusCode, a.body)
		}
		return taken
	}
	now := time.Now()
	first := take("/hooks/shop", body, stripe(body, now)...)
	if first.Seq != 1 || s.lastSequence() != 1 {
		t.Errorf("%+v, the stream ends at %d", first, s.lastSequence())
	}
	// Sent again, with a new signature and another body with the same id, it is the same event.
	for _, again := range []string{body, `{"id":"evt_1","data":{},"tries":2}`} {
		if got := take("/hooks/shop", again, stripe(again, now.Add(time.Minute))...); got.Seq != 1 {
			t.Errorf("the repeat is %+v", got)
		}
	}
	if a := requestPath(t, s.Server, "POST", "/hooks/shop", body, stripe(body, now)...); a.Header.Get("Idempotent-Replayed") != "true" {
		t.Errorf("the repeat is not remembered, and the stream forgets it in minutes: %v", a.Header)
	}
	take("/hooks/shop", `{"id":"evt_2"}`, stripe(`{"id":"evt_2"}`, now)...)
	take("/hooks/code", body, github(body)...)
	take("/hooks/code", body, append(github(body), "X-GitHub-Delivery", "another")...)
	take("/hooks/open", body)
	take("/hooks/open", body)
	if got := s.lastSequence(); got != 5 {
		t.Errorf("the stream ends at %d, want 5", got)
	}

	reader, err := s.bus.Streams.Read(t.Context(), "DEADMAN_EVENTS", 0, nil)
	failOn(t, err)
	defer reader.Close()
	got, err := reader.Next(t.Context(), 10, 5*time.Second)
	failOn(t, err)
	if e := got[0]; string(e.Data) != body || e.Subject != "orders.created" || e.Header["content-type"][0] != "application/json" || e.ID == "" {
		t.Errorf("what was taken in is %+v", e)
	}
	for name := range got[0].Header {
		if strings.Contains(strings.ToLower(name), "signature") {
			t.Errorf("a header of the request went along: %s", name)
		}
	}
}

func TestHooksRefuse(t *testing.T) {
	s := newFixture(t, closedNode, withHooks)
	body, now := `{"id":"evt_1"}`, time.Now()
	for _, c := range []struct {
		name, method, path, body string
		header                   []string
		status                   int
		wantText                 string
	}{
		{"unknown", "POST", "/hooks/other", body, nil, 404, "--hooks"},
		{"no signature", "POST", "/hooks/shop", body, nil, 401, "Stripe-Signature"},
		{"another body", "POST", "/hooks/shop", body + " ", stripe(body, now), 401, "does not match the body"},
		{"an old one", "POST", "/hooks/shop", body, stripe(body, now.Add(-6*time.Minute)), 401, "more than 5m0s from now"},
		{"another scheme", "POST", "/hooks/code", body, stripe(body, now), 401, "X-Hub-Signature-256"},
		{"a token is no signature", "POST", "/hooks/shop", body, s.newToken("all", "", access.Admin), 401, "Stripe-Signature"},
		{"too large", "POST", "/hooks/open", strings.Repeat(" ", web.MaxEventBytes+1), nil, 413, "262144"},
		{"no stream", "POST", "/hooks/nowhere", body, github(body), 409, "unread.subject"},
		{"GET", "GET", "/hooks/shop", "", nil, 405, "use POST"},
	} {
		a := requestPath(t, s.Server, c.method, c.path, c.body, c.header...)
		if a.StatusCode != c.status || !strings.Contains(a.problem(t).Detail, c.wantText) {
			t.Errorf("%s: %d %s, want %d and %q", c.name, a.StatusCode, a.body, c.status, c.wantText)
		}
	}
	if got := s.lastSequence(); got != 0 {
		t.Errorf("the stream ends at %d: something was taken in", got)
	}
	// A failed webhook may be sent again.
	for range 2 {
		if a := requestPath(t, s.Server, "POST", "/hooks/nowhere", body, github(body)...); a.StatusCode != 409 || !strings.Contains(a.body, "unread.subject") {
			t.Errorf("%d %s", a.StatusCode, a.body)
		}
	}
}

func TestConcurrentWebhooksPublishOnce(t *testing.T) {
	s := newFixture(t, closedNode, withHooks)
	body := `{"id":"evt_1"}`
	header := stripe(body, time.Now())
	var taken atomic.Int32
	var all sync.WaitGroup
	for range 8 {
		all.Go(func() {
			switch a := requestPath(t, s.Server, "POST", "/hooks/shop", body, header...); a.StatusCode {
			case 202:
				taken.Add(1)
			case 409: // another one is being processed
			default:
				t.Errorf("%d %s", a.StatusCode, a.body)
			}
		})
	}
	all.Wait()
	if taken.Load() == 0 || s.lastSequence() != 1 {
		t.Errorf("%d were answered, and the stream ends at %d", taken.Load(), s.lastSequence())
	}
}
