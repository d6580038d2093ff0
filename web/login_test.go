package web_test

import (
	"net/http"
	"net/url"
	"strings"
	"testing"

	"deadman/access"
)

// A link to a page leads there by way of the login, whoever follows it and however often they
// mistype; nothing leads to another host.
func TestLoginLeadsOn(t *testing.T) {
	s := newStand(t, closed)
	secret := strings.TrimPrefix(s.token("me", "", access.Read)[1], "Bearer ")
	form := []string{"Content-Type", "application/x-www-form-urlencoded", "Sec-Fetch-Site", "same-origin"}
	const asked = "/entities/order?key=a%2Fb+%0A%26next%3D%2F&x=1"
	first := do(t, s.Server, "GET", asked, "", "Accept", "text/html")
	way := first.Header.Get("Location")
	if first.StatusCode != http.StatusSeeOther || !strings.HasPrefix(way, "/login?next=") {
		t.Fatalf("%d to %q", first.StatusCode, way)
	}
	for _, a := range []answer{
		do(t, s.Server, "GET", way, ""),
		do(t, s.Server, "POST", "/login", url.Values{"token": {"dm_x"}, "next": {asked}}.Encode(), form...),
	} {
		if !strings.Contains(a.body, `name="next" value="/entities/order?key=a%2Fb&#43;%0A%26next%3D%2F&amp;x=1"`) {
			t.Errorf("%d, and the form does not carry the page: %s", a.StatusCode, a.body)
		}
	}
	for next, want := range map[string]string{
		asked: asked, "/alerts/x?by=key": "/alerts/x?by=key", "/": "/", "": "/",
		"//evil.example": "/", "///evil.example": "/", `/\evil.example`: "/", `\\evil.example`: "/", "https://evil.example/": "/", "https:/evil.example": "/",
		"evil.example": "/", "javascript:alert(1)": "/", "/\t/evil.example": "/", "/\n/evil.example": "/", " //evil.example": "/", "/ /evil.example": "/",
		"/%2Fevil.example": "/", "/%5Cevil.example/": "/%5Cevil.example/", "/.//evil.example": "/evil.example", "/x/..//evil.example": "/evil.example",
		"/ü": "/", "/%zz": "/", "/login?next=%2Flogin": "/", "/" + strings.Repeat("x", 3<<10): "/",
	} {
		posted := do(t, s.Server, "POST", "/login", url.Values{"token": {secret}, "next": {next}}.Encode(), form...)
		linked := do(t, s.Server, "GET", "/login?"+url.Values{"token": {secret}, "next": {next}}.Encode(), "")
		for _, a := range []answer{posted, linked} {
			if got := a.Header.Get("Location"); a.StatusCode != http.StatusSeeOther || got != want {
				t.Errorf("next %q leads to %q with %d, want %q", next, got, a.StatusCode, want)
			}
		}
	}
	if a := do(t, newStand(t).Server, "GET", way, ""); a.Header.Get("Location") != asked {
		t.Errorf("an open node leads to %q", a.Header.Get("Location"))
	}
}
