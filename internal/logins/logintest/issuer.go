package logintest

import (
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/sha256"
	"encoding/base64"
	"encoding/json"
	"maps"
	"net/http"
	"net/http/httptest"
	"net/url"
	"sync"
	"testing"
	"time"

	"github.com/go-jose/go-jose/v4"
)

// Issuer is a provider whose responses are set by tests. It enforces PKCE and accepts each code once.
type Issuer struct {
	*httptest.Server
	tb  testing.TB
	Key *ecdsa.PrivateKey // its public key is published

	mu       sync.Mutex
	begun    map[string]url.Values // by code: the query that the browser was sent with
	claims   map[string]any        // replace those of an honest ID token; nil: the claim is left out
	sign     func(claims []byte) string
	info     map[string]any // user info
	document map[string]any // replaces fields of the discovery document
	requests map[string]int // by path
	broken   http.HandlerFunc
}

// NewIssuer starts an honest issuer.
func NewIssuer(tb testing.TB) *Issuer {
	tb.Helper()
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		tb.Fatal(err)
	}
	i := &Issuer{tb: tb, Key: key, begun: make(map[string]url.Values), requests: make(map[string]int)}
	i.sign = func(claims []byte) string { return Sign(tb, key, claims) }
	i.Server = httptest.NewServer(http.HandlerFunc(i.serve))
	tb.Cleanup(i.Close)
	return i
}

// Claims sets claims that replace those of honest ID tokens.
func (i *Issuer) Claims(claims map[string]any) { i.change(func() { i.claims = claims }) }

// Signs sets the function that signs ID tokens.
func (i *Issuer) Signs(sign func(claims []byte) string) { i.change(func() { i.sign = sign }) }

// Info sets the response of the user info endpoint.
func (i *Issuer) Info(info map[string]any) { i.change(func() { i.info = info }) }

// Document sets fields that replace those of the discovery document.
func (i *Issuer) Document(of map[string]any) { i.change(func() { i.document = of }) }

// Break makes a handler answer every request; nil restores the normal responses.
func (i *Issuer) Break(by http.HandlerFunc) { i.change(func() { i.broken = by }) }

func (i *Issuer) change(do func()) {
	i.mu.Lock()
	defer i.mu.Unlock()
	do()
}

// Requests returns the number of requests to a path.
func (i *Issuer) Requests(path string) int {
	i.mu.Lock()
	defer i.mu.Unlock()
	return i.requests[path]
}

// Authorize opens the URL of a login as a browser does and returns the redirect target.
func (i *Issuer) Authorize(at string) string {
	i.tb.Helper()
	u, err := url.Parse(at)
	if err != nil {
		i.tb.Fatal(err)
	}
	q, code := u.Query(), rand.Text()
	if q.Get("response_type") != "code" || q.Get("code_challenge_method") != "S256" || len(q.Get("state")) < 20 || len(q.Get("nonce")) < 20 || len(q.Get("code_challenge")) != 43 {
		i.tb.Errorf("the browser is sent with %v", q)
	}
	i.change(func() { i.begun[code] = q })
	back, err := url.Parse(q.Get("redirect_uri"))
	if err != nil {
		i.tb.Fatal(err)
	}
	back.RawQuery = url.Values{"code": {code}, "state": {q.Get("state")}}.Encode()
	return back.String()
}

func (i *Issuer) serve(w http.ResponseWriter, r *http.Request) {
	i.mu.Lock()
	defer i.mu.Unlock()
	i.requests[r.URL.Path]++
	if i.broken != nil {
		i.broken(w, r)
		return
	}
	switch r.URL.Path {
	case "/.well-known/openid-configuration":
		document := map[string]any{
			"issuer": i.URL, "authorization_endpoint": i.URL + "/auth", "token_endpoint": i.URL + "/token", "jwks_uri": i.URL + "/keys", "userinfo_endpoint": i.URL + "/info",
			"id_token_signing_alg_values_supported": []string{"ES256", "HS256", "none"},
		}
		maps.Copy(document, i.document)
		answer(w, http.StatusOK, document)
	case "/keys":
		answer(w, http.StatusOK, jose.JSONWebKeySet{Keys: []jose.JSONWebKey{{Key: &i.Key.PublicKey, KeyID: "k", Algorithm: "ES256", Use: "sig"}}})
	case "/token":
		i.exchange(w, r)
	case "/info":
		answer(w, http.StatusOK, i.info)
	default:
		http.NotFound(w, r)
	}
}

// exchange returns an ID token for a code. The caller holds i.mu.
func (i *Issuer) exchange(w http.ResponseWriter, r *http.Request) {
	begun, known := i.begun[r.PostFormValue("code")]
	delete(i.begun, r.PostFormValue("code"))
	challenge := sha256.Sum256([]byte(r.PostFormValue("code_verifier")))
	client, secret, basic := r.BasicAuth()
	switch {
	case !basic || client != Client || secret != url.QueryEscape(Secret):
		answer(w, http.StatusUnauthorized, map[string]any{"error": "invalid_client"})
		return
	case !known, base64.RawURLEncoding.EncodeToString(challenge[:]) != begun.Get("code_challenge"), r.PostFormValue("redirect_uri") != begun.Get("redirect_uri"):
		answer(w, http.StatusBadRequest, map[string]any{"error": "invalid_grant"})
		return
	}
	now := time.Now()
	claims := map[string]any{
		"iss": i.URL, "sub": "1", "aud": Client, "nonce": begun.Get("nonce"), "iat": now.Unix(), "exp": now.Add(time.Hour).Unix(),
		"email": "ann@example.org", "email_verified": true, "groups": []string{"sre"},
	}
	for name, value := range i.claims {
		if claims[name] = value; value == nil {
			delete(claims, name)
		}
	}
	text, err := json.Marshal(claims)
	if err != nil {
		i.tb.Error(err)
	}
	answer(w, http.StatusOK, map[string]any{"access_token": "access-token-of-the-issuer", "token_type": "Bearer", "id_token": i.sign(text)})
}

func answer(w http.ResponseWriter, status int, v any) {
	w.Header().Set("Content-Type", "application/json")
	w.WriteHeader(status)
	_ = json.NewEncoder(w).Encode(v) // the client may be gone
}

// Sign signs claims with a key of the curve P-256.
func Sign(tb testing.TB, key *ecdsa.PrivateKey, claims []byte) string {
	return signed(tb, jose.SigningKey{Algorithm: jose.ES256, Key: key}, claims)
}

// SignShared signs claims with a secret that the client knows.
func SignShared(tb testing.TB, secret, claims []byte) string {
	return signed(tb, jose.SigningKey{Algorithm: jose.HS256, Key: secret}, claims)
}

// Unsigned returns claims with the algorithm none.
func Unsigned(claims []byte) string {
	return base64.RawURLEncoding.EncodeToString([]byte(`{"alg":"none"}`)) + "." + base64.RawURLEncoding.EncodeToString(claims) + "."
}

func signed(tb testing.TB, with jose.SigningKey, claims []byte) (text string) {
	signer, err := jose.NewSigner(with, (&jose.SignerOptions{}).WithHeader("kid", "k"))
	if err == nil {
		var whole *jose.JSONWebSignature
		if whole, err = signer.Sign(claims); err == nil {
			text, err = whole.CompactSerialize()
		}
	}
	if err != nil {
		tb.Error(err)
	}
	return text
}
