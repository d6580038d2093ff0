package bus_test

import (
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/pem"
	"errors"
	"log/slog"
	"math/big"
	"net"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	natsserver "github.com/nats-io/nats-server/v2/server"
	"github.com/nats-io/nkeys"

	"deadman/internal/bus"
	"deadman/internal/bus/bustest"
	"deadman/internal/testwait"
)

// authority issues certificates.
type authority struct {
	*testing.T
	dir  string
	cert *x509.Certificate
	key  *ecdsa.PrivateKey
}

// newAuthority creates an authority and writes its certificate to a file in dir.
func newAuthority(t *testing.T, dir, name string) *authority {
	t.Helper()
	a := &authority{T: t, dir: dir}
	a.cert, a.key = a.issueFile(name, name, time.Hour)
	return a
}

// issue writes a certificate with a validity, and its key, to files and returns their paths.
func (a *authority) issue(name string, holds time.Duration) (cert, key string) {
	a.Helper()
	a.issueFile(name, name, holds)
	return filepath.Join(a.dir, name+".crt"), filepath.Join(a.dir, name+".key")
}

func (a *authority) issueFile(file, name string, holds time.Duration) (*x509.Certificate, *ecdsa.PrivateKey) {
	a.Helper()
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		a.Fatal(err)
	}
	plan := &x509.Certificate{
		SerialNumber: big.NewInt(time.Now().UnixNano()), Subject: pkix.Name{CommonName: name},
		NotBefore: time.Now().Add(-24 * time.Hour), NotAfter: time.Now().Add(holds),
		IsCA: a.cert == nil, BasicConstraintsValid: true, KeyUsage: x509.KeyUsageDigitalSignature | x509.KeyUsageCertSign,
		ExtKeyUsage: []x509.ExtKeyUsage{x509.ExtKeyUsageServerAuth, x509.ExtKeyUsageClientAuth},
		IPAddresses: []net.IP{net.IPv4(127, 0, 0, 1)},
	}
	parent, by := a.cert, a.key
	if parent == nil {
		parent, by = plan, key
	}
	der, err := x509.CreateCertificate(rand.Reader, plan, parent, &key.PublicKey, by)
	if err != nil {
		a.Fatal(err)
	}
	secret, err := x509.MarshalPKCS8PrivateKey(key)
	if err != nil {
		a.Fatal(err)
	}
	write(a.T, a.dir, file+".crt", string(pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: der})))
	write(a.T, a.dir, file+".key", string(pem.EncodeToMemory(&pem.Block{Type: "PRIVATE KEY", Bytes: secret})))
	made, err := x509.ParseCertificate(der)
	if err != nil {
		a.Fatal(err)
	}
	return made, key
}

// write writes a file in a folder and returns its path.
func write(t *testing.T, dir, name, text string) string {
	t.Helper()
	path := filepath.Join(dir, name)
	if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	return path
}

// startServer starts a server with its operator's options on a fixed port; 0 picks one.
func startServer(t *testing.T, port int, change func(*natsserver.Options)) (s *natsserver.Server, at int) {
	t.Helper()
	o := bustest.Options(t)
	if port != 0 {
		o.Port = port
	}
	change(o)
	s = bustest.Serve(t, o)
	return s, s.Addr().(*net.TCPAddr).Port
}

// withTLS makes a server present a certificate and require one of its clients.
func withTLS(t *testing.T, cert, key, clients string) func(*natsserver.Options) {
	t.Helper()
	return func(o *natsserver.Options) {
		config, err := natsserver.GenTLSConfig(&natsserver.TLSConfigOpts{CertFile: cert, KeyFile: key, CaFile: clients, Verify: clients != "", Timeout: 5})
		if err != nil {
			t.Fatal(err)
		}
		o.TLS, o.TLSConfig, o.TLSTimeout = true, config, 5
	}
}

func user(t *testing.T) (seed, public string) {
	t.Helper()
	key, err := nkeys.CreateUser()
	if err != nil {
		t.Fatal(err)
	}
	text, err := key.Seed()
	if err != nil {
		t.Fatal(err)
	}
	if public, err = key.PublicKey(); err != nil {
		t.Fatal(err)
	}
	return string(text), public
}

// TestUnusableFiles checks that an unusable file is named in the error, with the remedy, before anything is
// sent.
func TestUnusableFiles(t *testing.T) {
	t.Parallel()
	dir := bustest.Dir(t)
	ca := newAuthority(t, dir, "ca")
	cert, key := ca.issue("client", time.Hour)
	old, oldKey := ca.issue("old", -time.Hour)
	junk, empty := write(t, dir, "junk", "no such thing\n"), write(t, dir, "empty", "\n")
	locked := write(t, dir, "locked.key", "-----BEGIN ENCRYPTED PRIVATE KEY-----\nAA==\n-----END ENCRYPTED PRIVATE KEY-----\n")
	account, err := nkeys.CreateAccount()
	if err != nil {
		t.Fatal(err)
	}
	seed, err := account.Seed()
	if err != nil {
		t.Fatal(err)
	}
	missing := filepath.Join(dir, "missing")
	for name, c := range map[string]struct {
		who       bus.Identity
		wantTexts []string
	}{
		"no credentials file":    {bus.Identity{Creds: missing}, []string{"DEADMAN_NATS_CREDS", missing}},
		"credentials of nothing": {bus.Identity{Creds: junk}, []string{"DEADMAN_NATS_CREDS", junk, "nsc"}},
		"no seed file":           {bus.Identity{NKey: missing}, []string{"DEADMAN_NATS_NKEY", missing}},
		"no seed":                {bus.Identity{NKey: junk}, []string{"DEADMAN_NATS_NKEY", junk, "SU"}},
		"seed of an account":     {bus.Identity{NKey: write(t, dir, "account", string(seed))}, []string{"DEADMAN_NATS_NKEY", "SU"}},
		"no token":               {bus.Identity{Token: empty}, []string{"DEADMAN_NATS_TOKEN_FILE", empty, "openssl"}},
		"token of two words":     {bus.Identity{Token: junk}, []string{"DEADMAN_NATS_TOKEN_FILE", junk}},
		"no authority":           {bus.Identity{CA: junk}, []string{"DEADMAN_NATS_CA", junk, "PEM"}},
		"key without":            {bus.Identity{Key: key}, []string{"DEADMAN_NATS_CERT", "both"}},
		"certificate without":    {bus.Identity{Cert: cert}, []string{"DEADMAN_NATS_KEY", "both"}},
		"no certificate":         {bus.Identity{Cert: junk, Key: key}, []string{"DEADMAN_NATS_CERT", junk}},
		"no key":                 {bus.Identity{Cert: cert, Key: cert}, []string{"DEADMAN_NATS_KEY", cert}},
		"key with a passphrase":  {bus.Identity{Cert: cert, Key: locked}, []string{"DEADMAN_NATS_KEY", locked, "passphrase"}},
		"key of another":         {bus.Identity{Cert: cert, Key: oldKey}, []string{cert, oldKey, "do not fit"}},
		"expired":                {bus.Identity{Cert: old, Key: oldKey}, []string{old, "renew"}},
		"a folder":               {bus.Identity{CA: dir}, []string{"DEADMAN_NATS_CA", dir}},
		"two proofs":             {bus.Identity{Token: write(t, dir, "t", "token"), NKey: junk}, []string{"DEADMAN_NATS_NKEY and DEADMAN_NATS_TOKEN_FILE", "keep one"}},
	} {
		_, err := bus.Connect(t.Context(), bus.Options{URL: "nats://127.0.0.1:1", Identity: c.who, Log: discardLog()})
		if !errors.Is(err, bus.ErrIdentity) || errors.Is(err, bus.ErrUnreachable) {
			t.Errorf("%s: %v", name, err)
			continue
		}
		for _, part := range c.wantTexts {
			if !strings.Contains(err.Error(), part) {
				t.Errorf("%s: %v does not contain %q", name, err, part)
			}
		}
	}
	_, err = bus.Connect(t.Context(), bus.Options{URL: "nats://me:hush@127.0.0.1:1", Identity: bus.Identity{Token: write(t, dir, "t", "token")}, Log: discardLog()})
	if !errors.Is(err, bus.ErrIdentity) || strings.Contains(err.Error(), "hush") {
		t.Errorf("a user in the URL beside a token: %v", err)
	}
}

// TestNoTrust checks that nothing is sent if one side does not trust the other, and that the error is not
// ErrUnreachable.
func TestNoTrust(t *testing.T) {
	t.Parallel()
	dir := bustest.Dir(t)
	ours, others := newAuthority(t, dir, "ours"), newAuthority(t, dir, "others")
	cert, key := ours.issue("server", time.Hour)
	expired, expiredKey := ours.issue("expired", -time.Minute)
	client, clientKey := ours.issue("client", time.Hour)
	stranger, strangerKey := others.issue("stranger", time.Hour)
	ca, wrong := filepath.Join(dir, "ours.crt"), filepath.Join(dir, "others.crt")
	for name, c := range map[string]struct {
		serve    func(*natsserver.Options)
		scheme   string
		who      bus.Identity
		wantText string // empty: it connects
	}{
		"all is well":             {withTLS(t, cert, key, ca), "tls", bus.Identity{CA: ca, Cert: client, Key: clientKey}, ""},
		"TLS without the scheme":  {withTLS(t, cert, key, ""), "nats", bus.Identity{CA: ca}, ""},
		"another authority":       {withTLS(t, cert, key, ""), "tls", bus.Identity{CA: wrong}, wrong},
		"no authority":            {withTLS(t, cert, key, ""), "tls", bus.Identity{}, "DEADMAN_NATS_CA"},
		"the server's expired":    {withTLS(t, expired, expiredKey, ""), "tls", bus.Identity{CA: ca}, "renew the broker's"},
		"the server has none":     {func(*natsserver.Options) {}, "tls", bus.Identity{}, "plain text"},
		"the server has none, CA": {func(*natsserver.Options) {}, "nats", bus.Identity{CA: ca}, "plain text"},
		"no client certificate":   {withTLS(t, cert, key, ca), "tls", bus.Identity{CA: ca}, "DEADMAN_NATS_CERT and DEADMAN_NATS_KEY"},
		"a stranger":              {withTLS(t, cert, key, ca), "tls", bus.Identity{CA: ca, Cert: stranger, Key: strangerKey}, stranger},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			s, _ := startServer(t, 0, c.serve)
			b, err := bus.Connect(t.Context(), bus.Options{URL: c.scheme + "://" + s.Addr().String(), Identity: c.who, Log: discardLog()})
			if c.wantText == "" {
				if err != nil {
					t.Fatal(err)
				}
				b.Close()
				return
			}
			if !errors.Is(err, bus.ErrUntrusted) || errors.Is(err, bus.ErrUnreachable) || !strings.Contains(err.Error(), c.wantText) {
				t.Errorf("%v", err)
			}
		})
	}
}

// TestRotatedFilesApplyWithoutRestart checks that rotated files take effect at the next connection, and that a
// half-done rotation breaks nothing.
func TestRotatedFilesApplyWithoutRestart(t *testing.T) {
	t.Parallel()
	dir := bustest.Dir(t)
	first, second := newAuthority(t, dir, "first"), newAuthority(t, dir, "second")
	serving := func(a *authority) func(*natsserver.Options) {
		cert, key := a.issue("server of "+a.cert.Subject.CommonName, time.Hour)
		return withTLS(t, cert, key, filepath.Join(dir, a.cert.Subject.CommonName+".crt"))
	}
	show := func(from *authority) {
		from.issue("client", time.Hour)
		text, err := os.ReadFile(filepath.Join(dir, from.cert.Subject.CommonName+".crt"))
		if err != nil {
			t.Fatal(err)
		}
		write(t, dir, "trust.crt", string(text))
	}
	seed, public := user(t)
	newSeed, newPublic := user(t)
	show(first)
	for name, c := range map[string]struct {
		who           bus.Identity
		before, after func(*natsserver.Options)
		rotate        func()
		wantText      string // during the rotation
	}{
		"token": {
			bus.Identity{Token: write(t, dir, "token", "one")},
			func(o *natsserver.Options) { o.Authorization = "one" }, func(o *natsserver.Options) { o.Authorization = "two" },
			func() { write(t, dir, "token", "two\n") }, "Authorization Violation",
		},
		"nkey": {
			bus.Identity{NKey: write(t, dir, "seed", seed)},
			func(o *natsserver.Options) { o.Nkeys = []*natsserver.NkeyUser{{Nkey: public}} },
			func(o *natsserver.Options) { o.Nkeys = []*natsserver.NkeyUser{{Nkey: newPublic}} },
			func() { write(t, dir, "seed", newSeed) }, "Authorization Violation",
		},
		"certificates": {
			bus.Identity{CA: filepath.Join(dir, "trust.crt"), Cert: filepath.Join(dir, "client.crt"), Key: filepath.Join(dir, "client.key")},
			serving(first), serving(second),
			func() { show(second) }, "",
		},
	} {
		t.Run(name, func(t *testing.T) {
			s, port := startServer(t, 0, c.before)
			log := &bustest.Log{}
			b, err := bus.Connect(t.Context(), bus.Options{URL: "nats://" + s.Addr().String(), Identity: c.who, Log: slog.New(slog.NewTextHandler(log, nil))})
			if err != nil {
				t.Fatal(err)
			}
			defer b.Close()
			stop(s)
			startServer(t, port, c.after)
			if c.wantText != "" {
				testwait.Until(t, "the log has the reason of the refusal", func() bool { return strings.Contains(strings.ToLower(log.String()), strings.ToLower(c.wantText)) })
			}
			c.rotate()
			testwait.Until(t, "the connection is back", b.Conn.Connected)
		})
	}
}
