package logins

import (
	"context"
	"crypto/rand"
	"crypto/subtle"
	"errors"
	"fmt"
	"net/http"
	"net/url"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/coreos/go-oidc/v3/oidc"
	"golang.org/x/oauth2"

	"deadman/internal/access"
)

const (
	// providerTimeout limits all requests of a login to the provider.
	providerTimeout = 10 * time.Second
	// discoveryAge is the time that a provider's endpoints are cached.
	discoveryAge = time.Hour
	// discoveryRetry is the minimum time between discovery requests to a provider that failed.
	discoveryRetry = 5 * time.Second
	// maxLogins is the maximum number of concurrent logins.
	maxLogins = 16
	// emailClaim is the default claim of the name.
	emailClaim    = "email"
	verifiedClaim = "email_verified"
)

var (
	// ErrProvider means that the provider is unreachable or sent an invalid response.
	ErrProvider = errors.New("the login provider is unreachable or sent an invalid response")
	// ErrBusy means that maxLogins logins are in progress.
	ErrBusy = errors.New("too many logins are in progress; try again in a moment")
)

// signatures are the allowed algorithms of an ID token. None uses a secret shared with the client.
var signatures = []string{
	oidc.RS256, oidc.RS384, oidc.RS512, oidc.ES256, oidc.ES384, oidc.ES512, oidc.PS256, oidc.PS384, oidc.PS512, oidc.EdDSA,
}

// Provider is an OpenID provider. The first request is sent with the first login. It is safe for concurrent use.
type Provider struct {
	issuer       string
	title        string
	clientID     string
	clientSecret string // empty: none
	scopes       []string
	nameClaim    string
	groupsClaim  string
	client       *http.Client
	now          func() time.Time
	logins       chan struct{} // has an element for each login in progress

	mu       sync.Mutex
	known    *discovered
	failed   error
	failedAt time.Time
}

// discovered is the discovery document of a provider.
type discovered struct {
	provider *oidc.Provider
	endpoint oauth2.Endpoint
	at       time.Time
}

// Attempt is a login begun by a browser. It is known to that browser only.
type Attempt struct {
	State    string `json:"state"`
	Nonce    string `json:"nonce"`
	Verifier string `json:"verifier"`
}

// Is compares a state with the attempt's, in constant time for each length.
func (a Attempt) Is(state string) bool {
	return a.State != "" && subtle.ConstantTimeCompare([]byte(a.State), []byte(state)) == 1
}

// Title returns the displayed name of the provider.
func (p *Provider) Title() string { return p.title }

// Issuer returns the provider's URL.
func (p *Provider) Issuer() string { return p.issuer }

// Begin begins a login and returns the provider's URL to send the browser to. The error is ErrProvider or ErrBusy.
func (p *Provider) Begin(ctx context.Context, redirect string) (a Attempt, at string, err error) {
	ctx, leave, err := p.enter(ctx)
	if err != nil {
		return Attempt{}, "", err
	}
	defer leave()
	d, err := p.discover(ctx)
	if err != nil {
		return Attempt{}, "", err
	}
	a = Attempt{State: rand.Text(), Nonce: rand.Text(), Verifier: oauth2.GenerateVerifier()}
	return a, p.config(d, redirect).AuthCodeURL(a.State, oidc.Nonce(a.Nonce), oauth2.S256ChallengeOption(a.Verifier)), nil
}

// Finish exchanges the code of a browser that returned, and returns the person. The provider's tokens are not kept. The
// error is ErrProvider, ErrBusy or ErrPerson.
func (p *Provider) Finish(ctx context.Context, a Attempt, redirect, code string) (access.Person, error) {
	ctx, leave, err := p.enter(ctx)
	if err != nil {
		return access.Person{}, err
	}
	defer leave()
	d, err := p.discover(ctx)
	if err != nil {
		return access.Person{}, err
	}
	tokens, err := p.config(d, redirect).Exchange(ctx, code, oauth2.VerifierOption(a.Verifier))
	if err != nil {
		return access.Person{}, exchangeError(err)
	}
	idToken, err := p.verify(ctx, d, a, tokens)
	if err != nil {
		return access.Person{}, err
	}
	idClaims := make(claims)
	if err := idToken.Claims(&idClaims); err != nil {
		return access.Person{}, fmt.Errorf("%w: claims of the ID token: %w", ErrProvider, err)
	}
	if err := p.complete(ctx, d, idToken.Subject, tokens, idClaims); err != nil {
		return access.Person{}, err
	}
	return p.person(idClaims, idToken.Subject)
}

// enter acquires a login slot and returns a context with the login's timeout.
func (p *Provider) enter(ctx context.Context) (bounded context.Context, leave func(), err error) {
	select {
	case p.logins <- struct{}{}:
	default:
		return nil, nil, ErrBusy
	}
	ctx, cancel := context.WithTimeout(oidc.ClientContext(ctx, p.client), providerTimeout)
	return ctx, func() {
		cancel()
		<-p.logins
	}, nil
}

// config returns the client configuration with a redirect URI.
func (p *Provider) config(d *discovered, redirect string) *oauth2.Config {
	return &oauth2.Config{ClientID: p.clientID, ClientSecret: p.clientSecret, Endpoint: d.endpoint, RedirectURL: redirect, Scopes: p.scopes}
}

// exchangeError returns the error of a code that could not be exchanged. Of the provider's response it contains the
// error code only.
func exchangeError(err error) error {
	var refused *oauth2.RetrieveError
	if !errors.As(err, &refused) {
		return fmt.Errorf("%w: exchange the code: %s", ErrProvider, brief(err))
	}
	if refused.ErrorCode == "invalid_grant" {
		return fmt.Errorf("%w: the code has expired or was used before; log in again", ErrPerson)
	}
	return fmt.Errorf("%w: the provider refuses the code with %d %.60q; check client_id, the secret and the redirect URI there", ErrProvider, refused.Response.StatusCode, refused.ErrorCode)
}

// maxError is the maximum number of bytes kept of an error, which may contain a whole response.
const maxError = 600

// brief returns the beginning of an error.
func brief(err error) string {
	text := err.Error()
	if len(text) > maxError {
		text = text[:maxError] + "…"
	}
	return strings.ToValidUTF8(text, "")
}

// verify returns the ID token after verifying issuer, audience, time and nonce.
func (p *Provider) verify(ctx context.Context, d *discovered, a Attempt, tokens *oauth2.Token) (*oidc.IDToken, error) {
	raw, ok := tokens.Extra("id_token").(string)
	if !ok {
		return nil, fmt.Errorf("%w: the response has no ID token", ErrProvider)
	}
	verifier := d.provider.VerifierContext(ctx, &oidc.Config{ClientID: p.clientID, SupportedSigningAlgs: signatures, Now: p.now})
	idToken, err := verifier.Verify(ctx, raw)
	if err != nil {
		return nil, fmt.Errorf("%w: ID token: %s", ErrProvider, brief(err))
	}
	var more struct {
		Party string `json:"azp"`
	}
	if err := idToken.Claims(&more); err != nil {
		return nil, fmt.Errorf("%w: claims of the ID token: %w", ErrProvider, err)
	}
	switch {
	case a.Nonce == "" || subtle.ConstantTimeCompare([]byte(idToken.Nonce), []byte(a.Nonce)) != 1:
		return nil, fmt.Errorf("%w: the ID token belongs to another login (nonce)", ErrProvider)
	case more.Party != "" && more.Party != p.clientID, more.Party == "" && len(idToken.Audience) > 1:
		return nil, fmt.Errorf("%w: the ID token was issued for another client (azp)", ErrProvider)
	}
	if idToken.AccessTokenHash != "" {
		if err := idToken.VerifyAccessToken(tokens.AccessToken); err != nil {
			return nil, fmt.Errorf("%w: the access token does not match the ID token (at_hash): %w", ErrProvider, err)
		}
	}
	return idToken, nil
}

// complete adds the name and the groups from the user info if the ID token lacks them. It replaces no claim of the ID
// token.
func (p *Provider) complete(ctx context.Context, d *discovered, subject string, tokens *oauth2.Token, idClaims claims) error {
	_, named := idClaims.find(p.nameClaim)
	_, grouped := idClaims.find(p.groupsClaim)
	if named && grouped || d.provider.UserInfoEndpoint() == "" {
		return nil
	}
	info, err := d.provider.UserInfo(ctx, oauth2.StaticTokenSource(tokens))
	if err != nil {
		return fmt.Errorf("%w: user info: %s", ErrProvider, brief(err))
	}
	if info.Subject != subject {
		return fmt.Errorf("%w: the user info is of another person", ErrProvider)
	}
	more := make(claims)
	if err := info.Claims(&more); err != nil {
		return fmt.Errorf("%w: claims of the user info: %w", ErrProvider, err)
	}
	// The verification of an address is taken from the same document as the address.
	switch {
	case idClaims[emailClaim] == nil:
		delete(idClaims, verifiedClaim)
	case !idClaims.haveText(emailClaim, more[emailClaim]):
		delete(more, verifiedClaim)
	}
	idClaims.addMissing(more, p.nameClaim, p.groupsClaim, verifiedClaim)
	return nil
}

// discover returns the discovery document, requested at most once an hour. After a failure it is not requested for a
// few seconds. Concurrent logins share a request.
func (p *Provider) discover(ctx context.Context) (*discovered, error) {
	p.mu.Lock()
	defer p.mu.Unlock()
	now := p.now()
	if p.known != nil && now.Sub(p.known.at) < discoveryAge {
		return p.known, nil
	}
	if p.failed != nil && now.Sub(p.failedAt) < discoveryRetry {
		return p.knownOr(p.failed)
	}
	d, err := p.requestDiscovery(ctx)
	if err != nil {
		p.failed, p.failedAt = fmt.Errorf("%w: %s", ErrProvider, brief(err)), p.now()
		return p.knownOr(p.failed)
	}
	d.at = now
	p.known, p.failed = d, nil
	return d, nil
}

// knownOr returns the cached document, or the error if none is cached.
func (p *Provider) knownOr(err error) (*discovered, error) {
	if p.known != nil {
		return p.known, nil
	}
	return nil, err
}

// requestDiscovery requests the discovery document for all logins: it is independent of the context of a single browser.
func (p *Provider) requestDiscovery(ctx context.Context) (*discovered, error) {
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), providerTimeout)
	defer cancel()
	provider, err := oidc.NewProvider(ctx, p.issuer)
	if err != nil {
		return nil, err
	}
	var document struct {
		Keys    string   `json:"jwks_uri"`
		Methods []string `json:"token_endpoint_auth_methods_supported"`
	}
	if err := provider.Claims(&document); err != nil {
		return nil, err
	}
	d := &discovered{provider: provider, endpoint: provider.Endpoint()}
	for name, at := range map[string]string{
		"authorization_endpoint": d.endpoint.AuthURL, "token_endpoint": d.endpoint.TokenURL, "jwks_uri": document.Keys, "userinfo_endpoint": provider.UserInfoEndpoint(),
	} {
		if at == "" && name == "userinfo_endpoint" {
			continue
		}
		if wrong := p.wrongEndpoint(at); wrong != "" {
			return nil, fmt.Errorf("its %s %.200q %s", name, at, wrong)
		}
	}
	d.endpoint.AuthStyle = oauth2.AuthStyleInHeader // default of OpenID Connect
	if p.clientSecret == "" || len(document.Methods) > 0 && !slices.Contains(document.Methods, "client_secret_basic") {
		d.endpoint.AuthStyle = oauth2.AuthStyleInParams
	}
	return d, nil
}

// wrongEndpoint returns the reason why users and secrets must not be sent to an address; empty: it is valid.
func (p *Provider) wrongEndpoint(address string) string {
	u, err := url.Parse(address)
	switch {
	case err != nil || u.Host == "":
		return "is not a web address"
	case u.Scheme != "https" && (u.Scheme != "http" || strings.HasPrefix(p.issuer, "https:") || !isLoopback(u.Hostname())):
		return "is not https"
	}
	return ""
}

// person returns the person of the claims.
func (p *Provider) person(c claims, subject string) (access.Person, error) {
	value, _ := c.find(p.nameClaim)
	name, ok := value.(string)
	if !ok {
		return access.Person{}, fmt.Errorf("%w: the claim %s of the provider is missing or no text; name another claim with oidc.name, or request a scope that includes it", ErrPerson, p.nameClaim)
	}
	if wrong := wrongText(name, MaxName); wrong != "" {
		return access.Person{}, fmt.Errorf("%w: the claim %s is not a valid name: %s", ErrPerson, p.nameClaim, wrong)
	}
	// Some providers omit the claim if it is false.
	if verified := c[verifiedClaim]; p.nameClaim == emailClaim && verified != true && verified != "true" {
		return access.Person{}, fmt.Errorf("%w: the provider did not verify the address %s (email_verified); verify it there, or name another claim with oidc.name", ErrPerson, name)
	}
	if wrong := wrongText(subject, maxSubject); wrong != "" {
		return access.Person{}, fmt.Errorf("%w: the claim sub is invalid: %s", ErrPerson, wrong)
	}
	value, _ = c.find(p.groupsClaim)
	named, err := texts(value)
	if err != nil {
		return access.Person{}, fmt.Errorf("%w: the claim %s is not a list of groups: %w", ErrPerson, p.groupsClaim, err)
	}
	groups, err := groupsOf(named)
	if err != nil {
		return access.Person{}, err
	}
	return access.Person{By: access.ByOIDC, Name: name, Issuer: p.issuer, Subject: subject, Groups: groups}, nil
}

// Close closes the connections to the provider.
func (p *Provider) Close() { p.client.CloseIdleConnections() }
