package bus

import (
	"crypto/tls"
	"crypto/x509"
	"log/slog"
	"sync/atomic"
	"time"

	"github.com/nats-io/nats.go"
)

// authenticator authenticates the node to the broker and the broker to the node. It reads the files of the identity at
// each connection attempt, because a rotation may have replaced them.
type authenticator struct {
	identity   Identity
	log        *slog.Logger
	reconnects *reconnectLog
}

// options returns the options for authentication and TLS.
func (a *authenticator) options(made *atomic.Pointer[nats.Conn]) (opts []nats.Option) {
	who := a.identity
	for _, path := range who.secrets() {
		if exposed(path) {
			a.log.Warn("every user of this machine can read a secret for NATS; run chmod 600, so that only the node's user can read it", "file", path)
		}
	}
	switch {
	case who.Creds != "":
		opts = append(opts, nats.UserJWT(a.jwt, a.signByCreds))
	case who.NKey != "":
		opts = append(opts, a.byNKey(made)...)
	case who.Token != "":
		opts = append(opts, nats.TokenHandler(func() string { return readOrLog(a, who.token) }))
	}
	if who.tls() {
		opts = append(opts, a.encrypted())
	}
	return opts
}

func (a *authenticator) jwt() (string, error) {
	jwt, _, err := a.identity.credentials()
	return jwt, a.reconnects.logOnce(a.log, err)
}

func (a *authenticator) signByCreds(nonce []byte) ([]byte, error) {
	_, key, err := a.identity.credentials()
	if err != nil {
		return nil, a.reconnects.logOnce(a.log, err)
	}
	return key.Sign(nonce)
}

// byNKey authenticates with the public half of a key. The client keeps the public key, but a rotated key is another
// user, so it is replaced before each reconnect. The client calls renew under the lock that protects the key.
func (a *authenticator) byNKey(made *atomic.Pointer[nats.Conn]) []nats.Option {
	who := a.identity
	public := readOrLog(a, func() (string, error) { p, _, err := who.nkey(); return p, err })
	sign := func(nonce []byte) ([]byte, error) {
		_, key, err := who.nkey()
		if err != nil {
			return nil, a.reconnects.logOnce(a.log, err)
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
func (a *authenticator) encrypted() nats.Option {
	who := a.identity
	var show nats.TLSCertHandler
	var trust nats.RootCAsHandler
	if who.Cert != "" {
		show = func() (tls.Certificate, error) {
			cert, err := who.certificate()
			return cert, a.reconnects.logOnce(a.log, err)
		}
	}
	if who.CA != "" {
		trust = func() (*x509.CertPool, error) {
			pool, err := who.authorities()
			return pool, a.reconnects.logOnce(a.log, err)
		}
	}
	return nats.ClientTLSConfig(show, trust)
}

// readOrLog reads a file again and logs an error. The client only notices that the connection failed, and retries.
func readOrLog[T any](a *authenticator, read func() (T, error)) T {
	v, err := read()
	if err != nil {
		_ = a.reconnects.logOnce(a.log, err)
	}
	return v
}
