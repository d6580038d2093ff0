package bus

import (
	"cmp"
	"context"
	"crypto/x509"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net"
	"net/url"
	"slices"
	"strings"
	"time"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"

	"deadman/internal/subjects"
)

// Settings of the connection, and defaults of the options.
const (
	dialTimeout     = 2 * time.Second
	reconnectWait   = 500 * time.Millisecond
	answerTimeout   = 5 * time.Second  // timeout of a request without a deadline
	pendingMost     = 16_000           // unanswered messages; a denied one counts for answerTimeout
	pingEvery       = 10 * time.Second // three missed pings end the connection
	defaultAlertCap = 1 << 30
	defaultEventCap = 4 << 30
	defaultWindow   = 2 * time.Minute
)

// Options configure the connection to the broker.
type Options struct {
	URL       string // comma-separated addresses; unused with InProcess
	Identity  Identity
	Name      string // connection name for the broker's operator
	Log       *slog.Logger
	InProcess *Server // embedded server; it replaces URL and Identity

	// Namespace separates deployments on one account. It begins the subjects and streams of deadman.
	Namespace subjects.Namespace
	// Claim returns the id of the database. A database without one gets the mark of the stream of alerts, unless that is
	// empty. If nil, the stream is not marked.
	Claim func(ctx context.Context, mark string) (id string, err error)

	PublicURL   string        // prefix of links in alerts, and their CloudEvents source
	AlertsBytes int64         // limit of DEADMAN_ALERTS at its creation; 0: 1 GiB. Less if the broker lacks storage
	EventsBytes int64         // limit of DEADMAN_EVENTS at its creation; 0: 4 GiB. Less if the broker lacks storage
	Window      time.Duration // duplicate window of new streams; 0: 2 minutes
}

// withDefaults replaces zero values.
func (o Options) withDefaults() Options {
	if o.Log == nil {
		o.Log = slog.Default()
	}
	o.AlertsBytes = cmp.Or(o.AlertsBytes, defaultAlertCap)
	o.EventsBytes = cmp.Or(o.EventsBytes, defaultEventCap)
	o.Window = cmp.Or(o.Window, defaultWindow)
	return o
}

// check rejects an address or an identity that can't be used.
func (o Options) check() error {
	if o.InProcess != nil {
		return nil
	}
	if err := o.explain(); err != nil {
		return err
	}
	return o.Identity.check(strings.Contains(o.URL, "@"))
}

// CheckURL rejects addresses that Connect would never use, without a connection. The error is ErrURL.
func CheckURL(addresses string) error { return Options{URL: addresses}.explain() }

// explain rejects an address that can't be parsed, or with an unsupported scheme. It quotes only the scheme, because
// the rest and the parse error may contain a password.
func (o Options) explain() error {
	for i, one := range strings.Split(o.URL, ",") {
		one = strings.TrimSpace(one)
		scheme, _, has := strings.Cut(one, "://")
		if has && !slices.Contains([]string{"nats", "tls", "ws", "wss"}, strings.ToLower(scheme)) && !strings.ContainsAny(scheme, ":@") {
			return fmt.Errorf("%w: DEADMAN_NATS_URL begins with %q; write nats://host:4222, or tls://, ws:// or wss://", ErrURL, scheme+"://")
		}
		if !has {
			one = "nats://" + one
		}
		if _, err := url.Parse(one); err != nil {
			return fmt.Errorf("%w: address %d of DEADMAN_NATS_URL cannot be read; write nats://user:password@host:4222, with whatever is no letter or digit in the user or the password as %%XX",
				ErrURL, i+1)
		}
	}
	return nil
}

// refused adds the remedy to a failed connection attempt.
func (o Options) refused(err error) error {
	var dial *net.OpError
	var name *net.DNSError
	switch remedy := o.tlsError(err); {
	case remedy != "":
		return fmt.Errorf("%w: %w; %s", ErrUntrusted, err, remedy)
	case errors.Is(err, nats.ErrAuthorization), errors.Is(err, nats.ErrAuthExpired), errors.Is(err, nats.ErrAuthRevoked), errors.Is(err, nats.ErrAccountAuthExpired):
		return fmt.Errorf("connect to NATS: %w; %s", err, o.Identity.remedy())
	case errors.Is(err, nats.ErrNoServers), errors.Is(err, nats.ErrTimeout), errors.Is(err, nats.ErrConnectionClosed),
		errors.Is(err, io.EOF), errors.Is(err, io.ErrUnexpectedEOF), errors.As(err, &dial), errors.As(err, &name):
		return fmt.Errorf("%w: %w", ErrUnreachable, err)
	}
	return fmt.Errorf("connect to NATS: %w", err)
}

// tlsError returns the remedy for a TLS error, or an empty string for other errors.
func (o Options) tlsError(err error) string {
	var authority x509.UnknownAuthorityError
	var host x509.HostnameError
	var invalid x509.CertificateInvalidError
	var wire *net.OpError
	refused := errors.As(err, &wire) && wire.Op == "remote error" // a TLS alert, untyped in crypto/tls
	switch {
	case errors.Is(err, nats.ErrSecureConnWanted):
		return "the broker has no TLS, and nothing is sent to it as plain text: turn TLS on there, or write nats:// and leave out DEADMAN_NATS_CA and DEADMAN_NATS_CERT"
	case errors.As(err, &authority) && o.Identity.CA == "":
		return "name the file of who vouches for the broker's certificate with DEADMAN_NATS_CA"
	case errors.As(err, &authority):
		return "no authority in " + o.Identity.CA + " (DEADMAN_NATS_CA) signed the broker's certificate; add the certificate of its authority there"
	case errors.As(err, &host):
		return "write a name into DEADMAN_NATS_URL that the broker's certificate has"
	case errors.As(err, &invalid):
		return "renew the broker's certificate, or that of its authority"
	case (refused || errors.Is(err, nats.ErrTLS)) && o.Identity.Cert == "":
		return "if the broker wants a certificate of its clients, name one with DEADMAN_NATS_CERT and DEADMAN_NATS_KEY; else check the TLS settings of the broker"
	case refused, errors.Is(err, nats.ErrTLS):
		return "if the broker rejects " + o.Identity.Cert + " (DEADMAN_NATS_CERT), add its authority to the broker's ca_file; else check the TLS settings of the broker"
	}
	return ""
}

const (
	keepAlerts = 30 * 24 * time.Hour
	keepEvents = 7 * 24 * time.Hour
)

// alertsConfig returns the configuration of the stream of alerts. A full stream refuses new alerts. They then wait in
// the database instead of replacing unread ones.
func (o Options) alertsConfig(limit int64) jetstream.StreamConfig {
	return jetstream.StreamConfig{
		Name: o.alertsStream(), Description: "Alerts raised by deadman",
		Subjects: []string{o.Namespace.Subject(alertSubjects)}, Retention: jetstream.LimitsPolicy,
		Discard: jetstream.DiscardNew, MaxAge: keepAlerts, MaxBytes: limit,
		Storage: jetstream.FileStorage, Duplicates: o.Window,
		AllowDirect: true, AllowAtomicPublish: true,
	}
}

// eventsConfig returns the configuration of the stream of events that no other stream takes in. A full stream deletes
// its oldest events, which usually were read long ago. Refusing new events would let one publisher silence all
// others, and publishers over NATS that wait for no answer would not notice.
func (o Options) eventsConfig(subjects []string, limit int64) jetstream.StreamConfig {
	return jetstream.StreamConfig{
		Name: o.eventsStream(), Description: "Events that deadman's rules listen to",
		Subjects: subjects, Retention: jetstream.LimitsPolicy,
		Discard: jetstream.DiscardOld, MaxAge: keepEvents, MaxBytes: limit,
		Storage: jetstream.FileStorage, Duplicates: o.Window, AllowDirect: true, AllowAtomicPublish: true,
	}
}

// source returns the CloudEvents source of the node.
func (o Options) source() string { return cmp.Or(o.PublicURL, o.Namespace.Root()) }

func (o Options) alertsStream() string { return o.Namespace.Stream(AlertsStream) }
func (o Options) eventsStream() string { return o.Namespace.Stream(EventsStream) }
