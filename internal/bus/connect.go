package bus

import (
	"crypto/tls"
	"crypto/x509"
	"errors"
	"fmt"
	"io"
	"net"
	"net/url"
	"slices"
	"strings"
	"sync/atomic"
	"time"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"
)

// inbox is the prefix of reply subjects. With its own prefix, deadman's user needs no permission to receive replies
// to other clients.
const inbox = "_INBOX.deadman"

func (b *Bus) dial() (err error) {
	opts, made := b.dialing()
	b.nc, err = nats.Connect(b.opts.URL, opts...)
	if err != nil {
		return b.opts.refused(err)
	}
	made.Store(b.nc)
	b.noteConnected()
	b.js, err = jetstream.New(b.nc,
		jetstream.WithPublishAsyncTimeout(answerTimeout),
		jetstream.WithPublishAsyncMaxPending(pendingMost),
		jetstream.WithDefaultTimeout(answerTimeout))
	if err != nil {
		b.nc.Close()
		return fmt.Errorf("connect to NATS: %w", err)
	}
	return nil
}

// dialing returns the options of the connection. The caller stores the connection in made once it is established.
func (b *Bus) dialing() (opts []nats.Option, made *atomic.Pointer[nats.Conn]) {
	o := b.opts
	made = new(atomic.Pointer[nats.Conn])
	opts = []nats.Option{
		nats.Name(o.Name),
		nats.Timeout(dialTimeout),
		nats.CustomInboxPrefix(inbox),
		nats.MaxReconnects(-1),
		nats.IgnoreAuthErrorAbort(), // a rotation of credentials may be half done
		nats.ReconnectWait(reconnectWait),
		nats.PingInterval(pingEvery), // detects half-open connections
		nats.FlusherTimeout(answerTimeout),
		nats.ReconnectBufSize(-1), // no buffering: a message that can't be sent fails at once
		nats.DisconnectErrHandler(func(nc *nats.Conn, err error) {
			b.up.Store(nil)
			if nc.IsClosed() {
				return // closed by this process
			}
			o.Log.Warn("NATS connection lost; reconnecting", "err", err)
		}),
		nats.ReconnectHandler(func(nc *nats.Conn) {
			b.noteConnected()
			b.plight.over()
			o.Log.Info("NATS connection is back", "addr", nc.ConnectedAddr()) // the URL may contain a token as its user
		}),
		nats.ErrorHandler(func(nc *nats.Conn, _ *nats.Subscription, err error) {
			switch {
			case b.denied.record(err, o.Log):
			case nc.IsConnected():
				o.Log.Error("NATS connection", "err", err)
			default:
				_ = b.plight.say(o.Log, err)
			}
		}),
	}
	if o.InProcess != nil {
		return append(opts, nats.InProcessServer(o.InProcess), o.InProcess.self()), made
	}
	return append(opts, b.identify(made)...), made
}

// identify returns the options for authentication and TLS. They read the files at each connection attempt.
func (b *Bus) identify(made *atomic.Pointer[nats.Conn]) (opts []nats.Option) {
	who := b.opts.Identity
	for _, path := range who.secrets() {
		if exposed(path) {
			b.log.Warn("a secret for NATS can be read by everybody on this machine; chmod 600 keeps it to the node's user", "file", path)
		}
	}
	switch {
	case who.Creds != "":
		opts = append(opts, nats.UserJWT(b.jwt, b.signByCreds))
	case who.NKey != "":
		opts = append(opts, b.byNKey(made)...)
	case who.Token != "":
		opts = append(opts, nats.TokenHandler(func() string { return readOrLog(b, who.token) }))
	}
	if who.tls() {
		opts = append(opts, b.encrypted())
	}
	return opts
}

// readOrLog reads a file again and logs an error. The client only notices that the connection failed, and retries.
func readOrLog[T any](b *Bus, read func() (T, error)) T {
	v, err := read()
	if err != nil {
		_ = b.plight.say(b.log, err)
	}
	return v
}

func (b *Bus) jwt() (string, error) {
	jwt, _, err := b.opts.Identity.credentials()
	return jwt, b.plight.say(b.log, err)
}

func (b *Bus) signByCreds(nonce []byte) ([]byte, error) {
	_, key, err := b.opts.Identity.credentials()
	if err != nil {
		return nil, b.plight.say(b.log, err)
	}
	return key.Sign(nonce)
}

// byNKey authenticates with the public half of a key. The client keeps the public key, but a rotated key is another
// user, so it is replaced before each reconnect. The client calls renew under the lock that protects the key.
func (b *Bus) byNKey(made *atomic.Pointer[nats.Conn]) []nats.Option {
	who := b.opts.Identity
	public := readOrLog(b, func() (string, error) { p, _, err := who.nkey(); return p, err })
	sign := func(nonce []byte) ([]byte, error) {
		_, key, err := who.nkey()
		if err != nil {
			return nil, b.plight.say(b.log, err)
		}
		return key.Sign(nonce)
	}
	renew := func([]nats.Server, nats.ServerInfo) (*nats.Server, time.Duration) {
		if public, _, err := who.nkey(); err == nil && made.Load() != nil {
			made.Load().Opts.Nkey = public
		}
		return nil, 0 // the next server of the list, as by default
	}
	return []nats.Option{nats.Nkey(public, sign), nats.ReconnectToServer(renew)}
}

// encrypted enables TLS. The client then refuses a broker without it.
func (b *Bus) encrypted() nats.Option {
	who := b.opts.Identity
	var show nats.TLSCertHandler
	var trust nats.RootCAsHandler
	if who.Cert != "" {
		show = func() (tls.Certificate, error) {
			cert, err := who.certificate()
			return cert, b.plight.say(b.log, err)
		}
	}
	if who.CA != "" {
		trust = func() (*x509.CertPool, error) {
			pool, err := who.authorities()
			return pool, b.plight.say(b.log, err)
		}
	}
	return nats.ClientTLSConfig(show, trust)
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
		return "nobody in " + o.Identity.CA + " (DEADMAN_NATS_CA) vouches for the broker's certificate; add the certificate of its authority there"
	case errors.As(err, &host):
		return "write a name into DEADMAN_NATS_URL that the broker's certificate has"
	case errors.As(err, &invalid):
		return "renew the broker's certificate, or that of its authority"
	case (refused || errors.Is(err, nats.ErrTLS)) && o.Identity.Cert == "":
		return "if the broker wants a certificate of its clients, name one with DEADMAN_NATS_CERT and DEADMAN_NATS_KEY; else look at its TLS settings"
	case refused, errors.Is(err, nats.ErrTLS):
		return "if the broker does not take " + o.Identity.Cert + " (DEADMAN_NATS_CERT), let its authority be in the broker's ca_file; else look at its TLS settings"
	}
	return ""
}

// remedy returns the advice for a failed authentication.
func (i Identity) remedy() string {
	for _, p := range i.proofs() {
		if p.path != "" {
			return "the broker does not know who " + p.path + " (" + p.setting + ") says this is, or no longer; compare it with the broker's users"
		}
	}
	return "set DEADMAN_NATS_CREDS, DEADMAN_NATS_NKEY or DEADMAN_NATS_TOKEN_FILE, or check the user in DEADMAN_NATS_URL"
}
