package doctor

import (
	"context"
	"crypto/tls"
	"crypto/x509"
	"errors"
	"fmt"
	"net"
	"net/url"

	"deadman/internal/addresses"
)

// publicURL checks the address of the pages, and the certificate of the server that answers there.
func publicURL(ctx context.Context, i *inspection) {
	const check = "public URL"
	if i.PublicURL == "" {
		i.problem(check, Warning, "it is not set: alerts have no links to the pages", "set DEADMAN_PUBLIC_URL")
		return
	}
	switch u, err := url.Parse(i.PublicURL); {
	case err != nil || u.Host == "":
		i.problem(check, Failed, fmt.Sprintf("%q is not a web address", i.PublicURL), "write https://deadman.example.org")
	case u.Scheme != "https":
		i.problem(check, Warning, "links and sessions go over "+u.Scheme+" without encryption", "serve the pages over HTTPS, and write https:// into DEADMAN_PUBLIC_URL")
	default:
		i.ok(check, "%s", i.PublicURL)
		publicCertificate(ctx, i, u)
	}
}

// publicCertificate checks the certificate of an https URL. It sends no request: the nodes need not run.
func publicCertificate(ctx context.Context, i *inspection, u *url.URL) {
	const check = "public URL certificate"
	ctx, cancel := context.WithTimeout(ctx, checkTimeout)
	defer cancel()
	port := u.Port()
	if port == "" {
		port = u.Scheme // also valid as the name of a port
	}
	conn, err := addresses.Dialer(checkTimeout).DialContext(ctx, "tcp", net.JoinHostPort(u.Hostname(), port))
	if err != nil {
		i.problem(check, Unknown, "it cannot be reached from this machine: "+err.Error(), "correct DEADMAN_PUBLIC_URL or the proxy, or run deadman doctor where users are")
		return
	}
	defer conn.Close()
	secured := tls.Client(conn, &tls.Config{ServerName: u.Hostname(), MinVersion: tls.VersionTLS12})
	if err := secured.HandshakeContext(ctx); err != nil {
		refusedCertificate(i, check, u.Hostname(), err)
		return
	}
	i.tlsOf(check, "the certificate of "+u.Host, secured)
}

// refusedCertificate reports a certificate that this machine does not accept.
func refusedCertificate(i *inspection, check, host string, err error) {
	var refused *tls.CertificateVerificationError
	var name x509.HostnameError
	var authority x509.UnknownAuthorityError
	var invalid x509.CertificateInvalidError
	switch {
	case !errors.As(err, &refused) || len(refused.UnverifiedCertificates) == 0:
		i.problem(check, Failed, "no TLS connection: "+err.Error(), "serve HTTPS at DEADMAN_PUBLIC_URL, or correct it")
	case errors.As(err, &name):
		i.problem(check, Failed, err.Error(), "renew the certificate with the name "+host+", or correct DEADMAN_PUBLIC_URL")
	case errors.As(err, &invalid) && invalid.Reason == x509.Expired:
		i.validity(check, "the certificate of "+host, refused.UnverifiedCertificates[0].NotAfter)
	case errors.As(err, &authority):
		i.problem(check, Warning, "this machine does not trust it: "+err.Error(), "send the intermediate certificates, too; if the authority is your own, set SSL_CERT_FILE to its certificate for deadman doctor")
		i.validity(check, "the certificate of "+host, refused.UnverifiedCertificates[0].NotAfter)
	default:
		i.problem(check, Failed, err.Error(), "replace the certificate")
	}
}
