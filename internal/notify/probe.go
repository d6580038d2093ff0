package notify

import (
	"cmp"
	"context"
	"crypto/tls"
	"crypto/x509"
	"errors"
	"net"
	"net/http"
	"net/smtp"
	"net/url"
	"time"

	"deadman/internal/addresses"
)

// ErrNoProbe means that a channel's service can only be reached with a message.
var ErrNoProbe = errors.New("its service can only be reached with a message")

// hosts are the services of kinds whose URLs have no host.
var hosts = map[Kind]string{Slack: "https://hooks.slack.com/", PagerDuty: "https://events.pagerduty.com/"}

// smtpsPort is the port of mail servers that begin with TLS.
const smtpsPort = "465"

// Probe connects to the receivers of a channel and sends no message. It returns the first certificate that ends; nil: no
// receiver has one. The error has no secrets; ErrNoProbe if the kind of channel has no receiver that is known.
func Probe(ctx context.Context, s Spec) (*x509.Certificate, error) {
	ctx, cancel := context.WithTimeout(ctx, sendTime)
	defer cancel()
	var first *x509.Certificate
	for _, address := range s.addresses() {
		found, err := s.probe(ctx, address)
		if err != nil {
			return nil, err
		}
		if found != nil && (first == nil || found.NotAfter.Before(first.NotAfter)) {
			first = found
		}
	}
	return first, nil
}

func (s Spec) probe(ctx context.Context, address string) (*x509.Certificate, error) {
	u, err := url.Parse(address)
	if err != nil {
		return nil, errors.New("its URL is invalid")
	}
	var state *tls.ConnectionState
	switch {
	case u.Scheme == "https" || u.Scheme == "http":
		state, err = probeHTTP(ctx, address)
	case u.Scheme == string(Mattermost):
		state, err = probeHTTP(ctx, "https://"+u.Host)
	case hosts[s.Kind] != "":
		state, err = probeHTTP(ctx, hosts[s.Kind])
	case u.Scheme == schemes[Email]:
		state, err = probeMail(ctx, u)
	default:
		return nil, ErrNoProbe
	}
	if err != nil {
		return nil, errors.New(s.reason(err))
	}
	if state == nil || len(state.PeerCertificates) == 0 {
		return nil, nil
	}
	return state.PeerCertificates[0], nil
}

// probeHTTP requests the head of an address, as each answer shows that the service is there.
func probeHTTP(ctx context.Context, address string) (*tls.ConnectionState, error) {
	request, err := http.NewRequestWithContext(ctx, http.MethodHead, address, http.NoBody)
	if err != nil {
		return nil, err
	}
	client := NewClient()
	defer client.CloseIdleConnections()
	response, err := client.Do(request)
	if err != nil {
		return nil, err
	}
	return response.TLS, response.Body.Close()
}

// probeMail greets a mail server, with TLS if the server offers it.
func probeMail(ctx context.Context, u *url.URL) (*tls.ConnectionState, error) {
	port := cmp.Or(u.Port(), "25")
	secure := &tls.Config{ServerName: u.Hostname(), MinVersion: tls.VersionTLS12}
	conn, err := addresses.Dialer(sendTime).DialContext(ctx, "tcp", net.JoinHostPort(u.Hostname(), port))
	if err != nil {
		return nil, err
	}
	defer conn.Close()
	if err := conn.SetDeadline(time.Now().Add(sendTime)); err != nil {
		return nil, err
	}
	if port == smtpsPort {
		conn = tls.Client(conn, secure)
	}
	client, err := smtp.NewClient(conn, u.Hostname())
	if err != nil {
		return nil, err
	}
	if offers, _ := client.Extension("STARTTLS"); offers && port != smtpsPort {
		if err := client.StartTLS(secure); err != nil {
			return nil, err
		}
	}
	if state, is := client.TLSConnectionState(); is {
		return &state, client.Quit()
	}
	return nil, client.Quit()
}
