package web_test

import (
	"context"
	"crypto/sha256"
	"encoding/base64"
	"fmt"
	"regexp"
	"strings"
	"testing"
	"time"

	"deadman/web"
)

var style = regexp.MustCompile(`(?s)<style>(.*?)</style>`)

// hashOf is how a policy names the style of a page.
func hashOf(page string) string {
	hash := sha256.Sum256([]byte(style.FindStringSubmatch(page)[1]))
	return "'sha256-" + base64.StdEncoding.EncodeToString(hash[:]) + "'"
}

func TestPage(t *testing.T) {
	s := newStand(t)
	if a := do(t, s.Server, "GET", "/", ""); a.StatusCode != 200 || !strings.Contains(a.body, "deadman is fine, and waits for nothing") {
		t.Errorf("%d %s", a.StatusCode, a.body)
	}
	evil := `<script>alert("x")</script>`
	s.place(evil+"/&", time.Hour, `{}`)
	s.alert(evil+"/&", evil+" is late", 90*time.Minute)

	a := do(t, s.Server, "GET", "/", "")
	if strings.Contains(a.body, "<script") {
		t.Error("a key is not escaped")
	}
	for _, part := range []string{
		"deadman is fine. 1 alert is open; the next look is in 89 m.", "&lt;script&gt;alert(&#34;x&#34;)&lt;/script&gt; is late", "order-unshipped", "primary",
	} {
		if !strings.Contains(a.body, part) {
			t.Errorf("there is no %s", part)
		}
	}
	if got := get[web.Job](t, s.Server, regexp.MustCompile(`/api/v1/jobs/order-unshipped\?key=[^"]*`).FindString(a.body)); got.Key != evil+"/&" {
		t.Errorf("the link leads to %q", got.Key)
	}

	policy := a.Header.Get("Content-Security-Policy")
	if !strings.Contains(policy, "default-src 'none'") || !strings.Contains(policy, hashOf(a.body)) {
		t.Errorf("the policy does not fit the page's style: %s", policy)
	}
	if regexp.MustCompile(`(?i)\sstyle=|\son[a-z]+=|<script|javascript:`).MatchString(a.body) {
		t.Error("the page has what its policy forbids")
	}
}

func TestPageCountsOpenAlerts(t *testing.T) {
	s := newStand(t)
	says := func(want string) {
		t.Helper()
		if a := do(t, s.Server, "GET", "/", ""); !strings.Contains(a.body, want) {
			t.Errorf("it does not say %q: %s", want, a.body)
		}
	}
	for i := range 3 {
		s.place(fmt.Sprint("waiting ", i), 2*time.Hour, `{}`)
	}
	says("deadman is fine. The next look is in ")
	for i := range 2 {
		s.alert(fmt.Sprint("waiting ", i), "late", 90*time.Minute)
	}
	says("deadman is fine. 2 alerts are open; the next look is in ")
	for i := range 10 {
		s.place(fmt.Sprint("later ", i), 3*time.Hour, `{}`)
	}
	says("deadman is fine. At least 2 alerts are open; the next look is in ")
}

// People look at the page when something is wrong; it has to be there then.
func TestPageOfABrokenNode(t *testing.T) {
	s := newStand(t)
	broken := bare(t, web.Options{Lists: s.store, Health: func(context.Context) []web.Condition {
		return []web.Condition{{Name: "nats", Detail: "not <connected>"}, {Name: "database", OK: true}}
	}})
	if a := do(t, broken, "GET", "/", ""); a.StatusCode != 200 || !strings.Contains(a.body, "deadman is not fine: nats.") || !strings.Contains(a.body, "not &lt;connected&gt;") {
		t.Errorf("%d %s", a.StatusCode, a.body)
	}
	fatal(t, s.store.Close())
	if a := do(t, s.Server, "GET", "/", ""); !strings.Contains(a.body, "deadman is not fine: lists.") {
		t.Error(a.body)
	}
	a := do(t, broken, "GET", "/", "")
	if a.StatusCode != 200 || !strings.Contains(a.body, "deadman is not fine: nats, lists.") || strings.Contains(a.body, "No job is waiting") {
		t.Errorf("%d %s", a.StatusCode, a.body)
	}
}
