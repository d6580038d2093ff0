package logins_test

import (
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"errors"
	"net/http"
	"net/http/cookiejar"
	"net/url"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"deadman/internal/access"
	"deadman/internal/logins"
	"deadman/internal/logins/logintest"
)

const redirect = "http://127.0.0.1:8080/login/oidc/callback"

// clock is a clock moved by tests.
type clock struct{ passed atomic.Int64 }

func (c *clock) now() time.Time          { return time.Now().Add(time.Duration(c.passed.Load())) }
func (c *clock) advance(d time.Duration) { c.passed.Add(int64(d)) }

// provider returns the provider of a login file with additional fields.
func provider(t *testing.T, c *clock, issuer, client, more string) *logins.Provider {
	t.Helper()
	folder := t.TempDir()
	text := "oidc: {issuer: '" + issuer + "', client_id: " + client + ", client_secret_file: secret" + more + "}\ngroups: [{group: a, scopes: [read]}]\n"
	for name, text := range map[string]string{"secret": logintest.Secret, "login.yaml": text} {
		if err := os.WriteFile(filepath.Join(folder, name), []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	config, err := logins.Load(filepath.Join(folder, "login.yaml"), logins.Options{Now: c.now})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(config.OIDC.Close)
	return config.OIDC
}

var authRequest = regexp.MustCompile(`name="id" value="([^"]+)"`)

// logIn logs in at the real provider as a browser does: it opens the login page, sends the name and the password, and
// returns the query of the redirect.
func logIn(t *testing.T, at, name string) url.Values {
	t.Helper()
	jar, err := cookiejar.New(nil)
	if err != nil {
		t.Fatal(err)
	}
	var back *url.URL
	browser := &http.Client{Jar: jar, CheckRedirect: func(r *http.Request, _ []*http.Request) error {
		if r.URL.Path == "/login/oidc/callback" {
			back = r.URL
			return http.ErrUseLastResponse
		}
		return nil
	}}
	t.Cleanup(browser.CloseIdleConnections)
	page := visit(t, browser, http.MethodGet, at, nil)
	id := authRequest.FindStringSubmatch(page)
	if id == nil {
		t.Fatalf("the provider shows no form: %s", page)
	}
	u, err := url.Parse(at)
	if err != nil {
		t.Fatal(err)
	}
	visit(t, browser, http.MethodPost, u.Scheme+"://"+u.Host+"/login/username", url.Values{"id": {id[1]}, "username": {name}, "password": {name}})
	if back == nil {
		t.Fatal("the provider does not lead back")
	}
	return back.Query()
}

// A real provider identifies people: with all claims in the ID token, and with some of them in the user info.
func TestLoginWithRealProvider(t *testing.T) {
	issuer := logintest.Provider(t, redirect)
	for _, client := range []string{logintest.Client, logintest.Thin} {
		p := provider(t, &clock{}, issuer, client, ", scopes: [email, profile, groups]")
		attempt, at, err := p.Begin(t.Context(), redirect)
		if err != nil {
			t.Fatal(err)
		}
		back := logIn(t, at, "ann")
		if !attempt.Is(back.Get("state")) {
			t.Errorf("the state %q comes back", back.Get("state"))
		}
		got, err := p.Finish(t.Context(), attempt, redirect, back.Get("code"))
		want := access.Person{By: access.ByOIDC, Name: "ann@example.org", Issuer: issuer, Subject: "id-of-ann", Groups: []string{"staff", "sre"}}
		if diff := cmp.Diff(want, got); diff != "" || err != nil {
			t.Errorf("%s: %v (-want +got):\n%s", client, err, diff)
		}
		if _, err := p.Finish(t.Context(), attempt, redirect, back.Get("code")); !errors.Is(err, logins.ErrPerson) {
			t.Errorf("%s: the code opens twice: %v", client, err)
		}
		attempt, at, err = p.Begin(t.Context(), redirect)
		if err != nil {
			t.Fatal(err)
		}
		other, _, err := p.Begin(t.Context(), redirect)
		if err != nil {
			t.Fatal(err)
		}
		other.Nonce = attempt.Nonce
		if got, err := p.Finish(t.Context(), other, redirect, logIn(t, at, "bob").Get("code")); err == nil {
			t.Errorf("%s: a code without the verifier of its login opens: %+v", client, got)
		}
	}
	p := provider(t, &clock{}, issuer, logintest.Client, ", name: preferred_username, groups: groups")
	attempt, at, err := p.Begin(t.Context(), redirect)
	if err != nil {
		t.Fatal(err)
	}
	if got, err := p.Finish(t.Context(), attempt, redirect, logIn(t, at, "ned").Get("code")); err != nil || got.Name != "ned" || got.Subject != "id-of-ned" {
		t.Errorf("%+v, %v", got, err)
	}
	p = provider(t, &clock{}, issuer, logintest.Client, "")
	if attempt, at, err = p.Begin(t.Context(), redirect); err != nil {
		t.Fatal(err)
	}
	if got, err := p.Finish(t.Context(), attempt, redirect, logIn(t, at, "ned").Get("code")); !errors.Is(err, logins.ErrPerson) || !strings.Contains(err.Error(), "did not verify the address") {
		t.Errorf("an address that was not verified is a name: %+v, %v", got, err)
	}
}

// finish logs in at an issuer that is configured to send wrong data.
func finish(t *testing.T, i *logintest.Issuer, p *logins.Provider) (access.Person, error) {
	t.Helper()
	attempt, at, err := p.Begin(t.Context(), redirect)
	if err != nil {
		return access.Person{}, err
	}
	back, err := url.Parse(i.Authorize(at))
	if err != nil {
		t.Fatal(err)
	}
	return p.Finish(t.Context(), attempt, redirect, back.Query().Get("code"))
}

// An ID token for another login, client or time, or from another provider, is refused.
func TestInvalidTokensAreRefused(t *testing.T) {
	i := logintest.NewIssuer(t)
	p := provider(t, &clock{}, i.URL, logintest.Client, "")
	want := access.Person{By: access.ByOIDC, Name: "ann@example.org", Issuer: i.URL, Subject: "1", Groups: []string{"sre"}}
	if got, err := finish(t, i, p); err != nil || cmp.Diff(want, got) != "" {
		t.Fatalf("an honest one: %+v, %v", got, err)
	}
	past := time.Now().Add(-time.Hour).Unix()
	for name, claims := range map[string]map[string]any{
		"another nonce":                    {"nonce": "x"},
		"no nonce":                         {"nonce": nil},
		"another issuer":                   {"iss": "https://evil.example"},
		"another audience":                 {"aud": "another"},
		"no audience":                      {"aud": nil},
		"made for another client":          {"aud": []string{logintest.Client, "another"}, "azp": "another"},
		"several clients and for which":    {"aud": []string{logintest.Client, "another"}},
		"made for another client alone":    {"azp": "another"},
		"expired":                          {"exp": past},
		"no end":                           {"exp": nil},
		"no subject":                       {"sub": ""},
		"a subject that cannot be printed": {"sub": "1\u202e"},
		"a subject that is too long":       {"sub": strings.Repeat("1", 256)},
		"no name":                          {"email": ""},
		"a name that is no text":           {"email": []string{"ann"}},
		"a name that cannot be printed":    {"email": "ann\nroot"},
		"an address that is not verified":  {"email_verified": false},
		"an address without a word on it":  {"email_verified": nil},
		"an address that is not, as text":  {"email_verified": "false"},
		"groups that are no texts":         {"groups": []any{map[string]any{"a": 1}}},
		"groups that are a mapping":        {"groups": map[string]any{"sre": true}},
		"another access token":             {"at_hash": "AAAAAAAAAAAAAAAAAAAAAA"},
	} {
		i.Claims(claims)
		if got, err := finish(t, i, p); !errors.Is(err, logins.ErrProvider) && !errors.Is(err, logins.ErrPerson) || got.Name != "" {
			t.Errorf("%s: %+v, %v", name, got, err)
		} else if strings.Contains(err.Error(), "access-token-of") || strings.Contains(err.Error(), "eyJ") || strings.Contains(err.Error(), logintest.Secret) {
			t.Errorf("%s: the error shows a secret: %v", name, err)
		}
	}
	i.Claims(nil)
	other, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	for name, sign := range map[string]func([]byte) string{
		"unsigned":                 logintest.Unsigned,
		"signed by another key":    func(c []byte) string { return logintest.Sign(t, other, c) },
		"signed with the secret":   func(c []byte) string { return logintest.SignShared(t, []byte(logintest.Secret+"............"), c) },
		"signed with the own key":  func(c []byte) string { return logintest.SignShared(t, i.Key.X.Bytes(), c) },
		"no ID token":              func([]byte) string { return "" },
		"no JSON":                  func([]byte) string { return "a.b.c" },
		"without its signature":    func(c []byte) string { s := logintest.Sign(t, i.Key, c); return s[:strings.LastIndex(s, ".")+1] },
		"claims that were changed": func(c []byte) string { return changeSignature(logintest.Sign(t, i.Key, c)) },
	} {
		i.Signs(sign)
		if got, err := finish(t, i, p); !errors.Is(err, logins.ErrProvider) || got.Name != "" {
			t.Errorf("%s: %+v, %v", name, got, err)
		}
	}
}

// changeSignature returns a signed text with one letter of its claims changed.
func changeSignature(signed string) string {
	parts := strings.Split(signed, ".")
	middle := []byte(parts[1])
	middle[len(middle)/2] ^= 1
	return parts[0] + "." + string(middle) + "." + parts[2]
}

// The user info adds claims that are missing in the ID token, for the same person, and replaces none.
func TestUserInfoIsOfSamePerson(t *testing.T) {
	i := logintest.NewIssuer(t)
	p := provider(t, &clock{}, i.URL, logintest.Client, ", groups: realm.roles")
	i.Info(map[string]any{"sub": "2", "realm": map[string]any{"roles": []string{"admins"}}})
	if got, err := finish(t, i, p); !errors.Is(err, logins.ErrProvider) || !strings.Contains(err.Error(), "another person") {
		t.Errorf("%+v, %v", got, err)
	}
	i.Info(map[string]any{"sub": "1", "email": "root@example.org", "realm": map[string]any{"roles": []string{"sre", "sre"}}})
	if got, err := finish(t, i, p); err != nil || got.Name != "ann@example.org" || cmp.Diff([]string{"sre"}, got.Groups) != "" {
		t.Errorf("%+v, %v", got, err)
	}
	i.Claims(map[string]any{"realm": map[string]any{"name": "acme"}, "groups": nil}) // the object without the roles
	if got, err := finish(t, i, p); err != nil || cmp.Diff([]string{"sre"}, got.Groups) != "" {
		t.Errorf("an object in both: %+v, %v", got, err)
	}
	i.Claims(map[string]any{"realm": map[string]any{"roles": nil}})
	if got, err := finish(t, i, p); err != nil || cmp.Diff([]string{"sre"}, got.Groups) != "" {
		t.Errorf("null in the ID token: %+v, %v", got, err)
	}
	named := provider(t, &clock{}, i.URL, logintest.Client, ", groups: realm.roles, name: of.name")
	i.Claims(map[string]any{"of": map[string]any{"id": 1}, "realm": map[string]any{"roles": "one"}})
	i.Info(map[string]any{"sub": "1", "of": map[string]any{"name": "Ann"}, "realm": map[string]any{"roles": []string{"sre"}}})
	if got, err := finish(t, i, named); err != nil || got.Name != "Ann" || cmp.Diff([]string{"one"}, got.Groups) != "" {
		t.Errorf("the name of the info, the groups of the ID token: %+v, %v", got, err)
	}
	i.Claims(map[string]any{"realm": map[string]any{"roles": "one"}})
	before := i.Requests("/info")
	if got, err := finish(t, i, p); err != nil || cmp.Diff([]string{"one"}, got.Groups) != "" || i.Requests("/info") != before {
		t.Errorf("%+v, %v, queried %d", got, err, i.Requests("/info")-before)
	}
}

// An address that is a list or an object is refused, also if the ID token and the user info have the same one.
func TestAddressThatIsNoText(t *testing.T) {
	for name, address := range map[string]any{"list": []string{"ann@example.org"}, "object": map[string]any{"work": "ann@example.org"}} {
		i := logintest.NewIssuer(t)
		p := provider(t, &clock{}, i.URL, logintest.Client, ", groups: realm.roles")
		i.Claims(map[string]any{"email": address})
		for where, c := range map[string]struct {
			info map[string]any
			is   error
			part string
		}{
			"the ID token": {map[string]any{"sub": "1", "email": "ann@example.org", "email_verified": true}, logins.ErrPerson, "email of the provider is missing or no text"},
			"both":         {map[string]any{"sub": "1", "email": address, "email_verified": true}, logins.ErrProvider, "userInfoRaw.email of type string"},
		} {
			i.Info(c.info)
			if got, err := finish(t, i, p); !errors.Is(err, c.is) || !strings.Contains(err.Error(), c.part) {
				t.Errorf("%s in %s: %+v, %v", name, where, got, err)
			}
		}
	}
}

// The verification of an address counts only for the address in the same document: the ID token or the user info.
func TestVerificationBelongsToItsAddress(t *testing.T) {
	const ann, boss = "ann@example.org", "boss@example.org"
	for name, c := range map[string]struct {
		token, info map[string]any
		want        string // the name of the person; empty: the login is refused
	}{
		"both of the token":               {map[string]any{"email": ann, "email_verified": true}, map[string]any{"email": boss}, ann},
		"both of the info":                {map[string]any{"email": nil, "email_verified": nil}, map[string]any{"email": ann, "email_verified": true}, ann},
		"the same address in both":        {map[string]any{"email": ann, "email_verified": nil}, map[string]any{"email": ann, "email_verified": true}, ann},
		"another address in the info":     {map[string]any{"email": boss, "email_verified": nil}, map[string]any{"email": ann, "email_verified": true}, ""},
		"verified by the token alone":     {map[string]any{"email": nil, "email_verified": true}, map[string]any{"email": boss}, ""},
		"the info says that it is not so": {map[string]any{"email": nil, "email_verified": true}, map[string]any{"email": boss, "email_verified": false}, ""},
	} {
		i := logintest.NewIssuer(t)
		p := provider(t, &clock{}, i.URL, logintest.Client, ", groups: realm.roles")
		i.Claims(c.token)
		c.info["sub"], c.info["realm"] = "1", map[string]any{"roles": []string{"sre"}}
		i.Info(c.info)
		got, err := finish(t, i, p)
		if got.Name != c.want || (err != nil) != (c.want == "") || err != nil && !errors.Is(err, logins.ErrPerson) {
			t.Errorf("%s: %q, %v", name, got.Name, err)
		}
	}
}

// A provider with an invalid discovery document is not used.
func TestInvalidDiscoveryDocuments(t *testing.T) {
	for name, document := range map[string]map[string]any{
		"another issuer":       {"issuer": "https://evil.example"},
		"no token endpoint":    {"token_endpoint": ""},
		"an endpoint in clear": {"token_endpoint": "http://id.example.org/token"},
		"keys in clear":        {"jwks_uri": "http://id.example.org/keys"},
		"a script":             {"authorization_endpoint": "javascript:alert(1)"},
	} {
		i := logintest.NewIssuer(t)
		i.Document(document)
		if got, err := finish(t, i, provider(t, &clock{}, i.URL, logintest.Client, "")); !errors.Is(err, logins.ErrProvider) {
			t.Errorf("%s: %+v, %v", name, got, err)
		}
	}
}

// A provider that failed is requested again after a few seconds; an earlier document remains valid meanwhile.
func TestUnavailableProvider(t *testing.T) {
	const discovery = "/.well-known/openid-configuration"
	i, c := logintest.NewIssuer(t), &clock{}
	p := provider(t, c, i.URL, logintest.Client, "")
	if i.Requests(discovery) != 0 {
		t.Error("the provider is queried before anyone logs in")
	}
	i.Break(func(w http.ResponseWriter, _ *http.Request) { w.WriteHeader(http.StatusBadGateway) })
	for range 3 {
		if _, err := finish(t, i, p); !errors.Is(err, logins.ErrProvider) {
			t.Errorf("%v", err)
		}
	}
	if n := i.Requests(discovery); n != 1 {
		t.Errorf("queried %d times in a moment", n)
	}
	i.Break(nil)
	c.advance(6 * time.Second)
	if _, err := finish(t, i, p); err != nil {
		t.Errorf("it is back: %v", err)
	}
	c.advance(30 * time.Minute)
	if _, err := finish(t, i, p); err != nil || i.Requests(discovery) != 2 {
		t.Errorf("%v, queried %d times", err, i.Requests(discovery))
	}
	i.Break(func(w http.ResponseWriter, _ *http.Request) {
		http.Error(w, strings.Repeat("long ", 10_000), http.StatusBadGateway)
	})
	if _, err := finish(t, i, provider(t, c, i.URL, logintest.Client, "")); !errors.Is(err, logins.ErrProvider) || len(err.Error()) > 1000 {
		t.Errorf("a long answer: %.2000v", err)
	}
	// A response that is too large or redirects is refused.
	for name, by := range map[string]http.HandlerFunc{
		"endless": func(w http.ResponseWriter, _ *http.Request) {
			for range 40 {
				_, _ = w.Write(make([]byte, 64<<10))
			}
		},
		"redirected": func(w http.ResponseWriter, r *http.Request) {
			http.Redirect(w, r, "https://evil.example"+r.URL.Path, http.StatusFound)
		},
	} {
		i.Break(by)
		if _, err := finish(t, i, provider(t, c, i.URL, logintest.Client, "")); !errors.Is(err, logins.ErrProvider) {
			t.Errorf("%s: %v", name, err)
		} else if name == "endless" && !strings.Contains(err.Error(), "more than 1048576 bytes") || name == "redirected" && !strings.Contains(err.Error(), "redirects") {
			t.Errorf("%s: %v", name, err)
		}
	}
}

// The number of waiting logins is limited, and a login ends with its browser.
func TestLoginsAreBounded(t *testing.T) {
	i := logintest.NewIssuer(t)
	p := provider(t, &clock{}, i.URL, logintest.Client, "")
	release := make(chan struct{})
	i.Break(func(http.ResponseWriter, *http.Request) { <-release })
	ended := make(chan error, 17)
	for range 17 {
		go func() {
			_, _, err := p.Begin(t.Context(), redirect)
			ended <- err
		}()
	}
	if err := <-ended; !errors.Is(err, logins.ErrBusy) {
		t.Errorf("the 17th: %v", err)
	}
	close(release)
	for range 16 {
		if err := <-ended; !errors.Is(err, logins.ErrProvider) {
			t.Errorf("%v", err)
		}
	}
}
