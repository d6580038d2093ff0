package web_test

import (
	"net/http"
	"net/url"
	"regexp"
	"strings"
	"testing"

	"deadman/internal/access"
	"deadman/internal/logins/logintest"
)

// TestProviderOutage checks that the login page reports an outage of the provider, and that tokens still log in.
func TestProviderOutage(t *testing.T) {
	i := logintest.NewIssuer(t)
	p := newLoginFixture(t, providerFile(i.URL))
	i.Break(func(w http.ResponseWriter, _ *http.Request) { http.Error(w, "<b>internal</b>", http.StatusBadGateway) })
	b := p.newBrowser()
	if a := b.request("GET", "/login", ""); a.StatusCode != http.StatusOK || i.Requests("/.well-known/openid-configuration") != 0 {
		t.Errorf("the page queries the provider: %d", a.StatusCode)
	}
	for range 30 { // more than the guesses of an address
		a := b.request("POST", "/login/oidc", "next=%2Frules", formOf...)
		if a.StatusCode != http.StatusServiceUnavailable || !strings.Contains(a.body, "login provider is unreachable") || strings.Contains(a.body, "internal") || !strings.Contains(a.body, `value="/rules"`) || len(b.cookies) > 0 {
			t.Fatalf("%d %s", a.StatusCode, a.body)
		}
	}
	if !strings.Contains(p.log.text(), "502 Bad Gateway") {
		t.Errorf("the log: %s", p.log.text())
	}
	token := p.newToken("me", "", access.Read)
	if a := b.request("POST", "/login", url.Values{"token": {strings.TrimPrefix(token[1], "Bearer ")}}.Encode(), formOf...); a.StatusCode != http.StatusSeeOther || !b.isLoggedIn() {
		t.Errorf("a token: %d", a.StatusCode)
	}
	metrics := requestPath(t, p.Server, "GET", "/metrics", "", token...)
	if !strings.Contains(metrics.body, "deadman_login_provider_errors_total 30") {
		t.Errorf("the failures are not counted: %s", regexp.MustCompile(`deadman_login.*`).FindAllString(metrics.body, -1))
	}
	i.Break(nil)
	// Guessed codes are bounded like tokens, and cause no more requests to the provider.
	b = p.newBrowser()
	status := 0
	p.writeLoginFile(t, providerFile(i.URL))
	for range 40 {
		if status = b.request("GET", b.getWithCookie(b.callback(i, "/"), "code", "x"+b.cookies["deadman_login"][:9]), "").StatusCode; status == http.StatusTooManyRequests {
			break
		}
	}
	if requests := i.Requests("/token"); status != http.StatusTooManyRequests || requests > 21 {
		t.Errorf("%d after %d codes", status, requests)
	}
}

// TestLoginsOfAddressAreBounded checks that one address that starts logins all the time neither blocks other logins
// nor fills the log.
func TestLoginsOfAddressAreBounded(t *testing.T) {
	i := logintest.NewIssuer(t)
	p := newLoginFixture(t, providerFile(i.URL))
	b := p.newBrowser()
	back := b.callback(i, "/")
	let := make(chan struct{})
	i.Break(func(w http.ResponseWriter, _ *http.Request) {
		<-let
		http.Error(w, `{"error": "invalid_request"}`, http.StatusBadRequest)
	})
	attack := func() int {
		return requestPath(t, p.Server, "GET", back, "", "Cookie", "deadman_login="+b.cookies["deadman_login"], "X-Forwarded-For", "203.0.113.7").StatusCode
	}
	answers := make(chan int, 32)
	for range cap(answers) {
		go func() { answers <- attack() }()
	}
	for range cap(answers) - 2 {
		if got := <-answers; got != http.StatusTooManyRequests {
			t.Errorf("one too many: %d", got)
		}
	}
	if a := p.newBrowser().request("POST", "/login/oidc", "next=%2F", append(formOf, "X-Forwarded-For", "203.0.113.8")...); a.StatusCode != http.StatusOK {
		t.Errorf("another user: %d %s", a.StatusCode, a.body)
	}
	close(let)
	for range 2 {
		if got := <-answers; got != http.StatusServiceUnavailable {
			t.Errorf("one that was at work: %d", got)
		}
	}
	for range 50 {
		if got := attack(); got != http.StatusServiceUnavailable && got != http.StatusTooManyRequests {
			t.Fatalf("another one: %d", got)
		}
	}
	if n := strings.Count(p.log.text(), "\n"); n > 4 {
		t.Errorf("%d lines of the log:\n%s", n, p.log.text())
	}
}
