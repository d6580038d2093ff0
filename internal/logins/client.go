package logins

import (
	"crypto/tls"
	"crypto/x509"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/netip"
	"net/url"
	"slices"
	"strings"
	"time"

	"github.com/coreos/go-oidc/v3/oidc"

	"deadman/internal/addresses"
	"deadman/internal/configfile"
	"deadman/internal/operatorfiles"
)

const (
	connectTimeout = 5 * time.Second
	// maxAnswer is the maximum size of a provider's response, in bytes.
	maxAnswer = 1 << 20
)

// readProvider reads the provider of a login file.
func readProvider(v configfile.Value, o Options) *Provider {
	fields := v.In(providerFields)
	p := &Provider{scopes: []string{oidc.ScopeOpenID}, nameClaim: emailClaim, groupsClaim: "groups", now: o.Now, logins: make(chan struct{}, maxLogins)}
	if fields == nil {
		return p
	}
	p.issuer = readIssuer(fields["issuer"].Require("write the provider's URL as in its discovery document"))
	p.clientID = neededText(fields["client_id"], "write the client id of this node at the provider")
	p.clientSecret = readSecret(fields["client_secret_file"], fields["client_secret_env"], o.Env)
	p.title = host(p.issuer)
	for to, from := range map[*string]configfile.Value{&p.title: fields["title"], &p.nameClaim: fields["name"], &p.groupsClaim: fields["groups"]} {
		if from.Present() {
			*to = from.Text()
			if wrong := wrongText(*to, MaxName); *to != "" && wrong != "" {
				from.Problem("%s", wrong)
			}
		}
	}
	wanted := []string{"email", "profile"}
	if fields["scopes"].Present() {
		wanted = fields["scopes"].Texts()
	}
	for _, scope := range wanted {
		if strings.ContainsFunc(scope, func(c rune) bool { return c <= ' ' || c > '~' || c == '"' || c == '\\' }) {
			fields["scopes"].Problem("%.70q is not a scope; write each as an entry of the list", scope)
		}
		if !slices.Contains(p.scopes, scope) {
			p.scopes = append(p.scopes, scope)
		}
	}
	p.client = newClient(readCA(fields["ca_file"]))
	return p
}

func neededText(v configfile.Value, remedy string) string {
	if v = v.Require(remedy); !v.Present() {
		return ""
	}
	return v.Text()
}

// readIssuer returns the URL of a provider: https, or http on this machine.
func readIssuer(v configfile.Value) string {
	if !v.Present() {
		return ""
	}
	issuer := v.Text()
	u, err := url.Parse(issuer)
	switch {
	case issuer == "":
	case err != nil || u.Host == "" || u.User != nil || u.RawQuery != "" || u.Fragment != "" || u.Scheme != "https" && u.Scheme != "http":
		v.Problem("%.200q is not the URL of a provider; write the full URL, such as https://id.example.org", issuer)
	case u.Scheme == "http" && !isLoopback(u.Hostname()):
		v.Problem("%.200q is not https, so an attacker on the network could log in as any user; write an https URL", issuer)
	}
	return issuer
}

// readSecret returns the secret from a file or an environment variable; without either, the client has no secret.
func readSecret(file, env configfile.Value, of func(string) string) string {
	switch {
	case file.Present() && env.Present():
		env.ProblemAtName("%s is set, too; keep one of the two", file.Name)
	case file.Present():
		return file.Secret(operatorfiles.Read)
	case env.Present():
		return env.Variable(of)
	}
	return ""
}

// readCA returns the CAs of the provider; nil: the system's CAs.
func readCA(v configfile.Value) *x509.CertPool {
	if !v.Present() {
		return nil
	}
	pool := x509.NewCertPool()
	pool.AppendCertsFromPEM(v.Certificates(operatorfiles.Read))
	return pool
}

// newClient returns a client that follows no redirects, uses no proxy, rejects link-local addresses, and limits
// responses.
func newClient(vouching *x509.CertPool) *http.Client {
	return &http.Client{
		Timeout:       providerTimeout,
		CheckRedirect: func(*http.Request, []*http.Request) error { return errRedirect },
		Transport: boundedTransport{&http.Transport{
			DialContext:            addresses.Dialer(connectTimeout).DialContext,
			TLSClientConfig:        &tls.Config{RootCAs: vouching, MinVersion: tls.VersionTLS12},
			TLSHandshakeTimeout:    connectTimeout,
			ResponseHeaderTimeout:  providerTimeout,
			MaxConnsPerHost:        maxLogins,
			IdleConnTimeout:        30 * time.Second,
			MaxResponseHeaderBytes: 64 << 10,
			DisableCompression:     true, // a small compressed body may be huge
			ForceAttemptHTTP2:      true,
		}},
	}
}

var errRedirect = errors.New("the provider redirects; write the issuer as in its discovery document")

// boundedTransport limits the bodies of responses.
type boundedTransport struct{ next http.RoundTripper }

// RoundTrip implements http.RoundTripper.
func (b boundedTransport) RoundTrip(r *http.Request) (*http.Response, error) {
	answer, err := b.next.RoundTrip(r)
	if err == nil {
		answer.Body = &boundedBody{answer.Body, maxAnswer}
	}
	return answer, err
}

// CloseIdleConnections is called by http.Client.
func (b boundedTransport) CloseIdleConnections() {
	if c, ok := b.next.(interface{ CloseIdleConnections() }); ok {
		c.CloseIdleConnections()
	}
}

// boundedBody is a body with an error beyond its limit.
type boundedBody struct {
	io.ReadCloser
	left int64
}

// Read implements io.Reader.
func (b *boundedBody) Read(to []byte) (int, error) {
	if b.left < 0 {
		return 0, fmt.Errorf("the provider's response has more than %d bytes", maxAnswer)
	}
	n, err := b.ReadCloser.Read(to[:min(int64(len(to)), b.left+1)])
	b.left -= int64(n)
	return n, err
}

func host(address string) string {
	u, err := url.Parse(address)
	if err != nil {
		return ""
	}
	return u.Host
}

// isLoopback reports whether a host is this machine.
func isLoopback(name string) bool {
	at, err := netip.ParseAddr(name)
	return name == "localhost" || err == nil && at.IsLoopback()
}
