package doctor_test

import (
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/tls"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/pem"
	"fmt"
	"math/big"
	"net"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/nats-io/nats.go/jetstream"

	"deadman/internal/bus/bustest"
	"deadman/internal/doctor"
	"deadman/internal/store"
	"deadman/internal/store/storetest"
	deadman "deadman/server"
)

// authority signs certificates of servers on 127.0.0.1.
type authority struct {
	certificate *x509.Certificate
	key         *ecdsa.PrivateKey
}

func newAuthority(t *testing.T) authority {
	t.Helper()
	a := authority{key: newKey(t)}
	a.certificate = &x509.Certificate{
		SerialNumber: big.NewInt(1), Subject: pkix.Name{CommonName: "authority"}, NotBefore: time.Now().Add(-time.Hour), NotAfter: time.Now().AddDate(1, 0, 0),
		IsCA: true, BasicConstraintsValid: true, KeyUsage: x509.KeyUsageCertSign,
	}
	der, err := x509.CreateCertificate(rand.Reader, a.certificate, a.certificate, &a.key.PublicKey, a.key)
	if err != nil {
		t.Fatal(err)
	}
	if a.certificate, err = x509.ParseCertificate(der); err != nil {
		t.Fatal(err)
	}
	return a
}

func newKey(t *testing.T) *ecdsa.PrivateKey {
	t.Helper()
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	return key
}

// issue returns a certificate that ends after the given time.
func (a authority) issue(t *testing.T, left time.Duration) tls.Certificate {
	t.Helper()
	key := newKey(t)
	der, err := x509.CreateCertificate(rand.Reader, &x509.Certificate{
		SerialNumber: big.NewInt(time.Now().UnixNano()), Subject: pkix.Name{CommonName: "server"}, NotBefore: time.Now().Add(-48 * time.Hour),
		NotAfter: time.Now().Add(left), IPAddresses: []net.IP{net.IPv4(127, 0, 0, 1)},
		ExtKeyUsage: []x509.ExtKeyUsage{x509.ExtKeyUsageServerAuth, x509.ExtKeyUsageClientAuth},
	}, a.certificate, &key.PublicKey, a.key)
	if err != nil {
		t.Fatal(err)
	}
	return tls.Certificate{Certificate: [][]byte{der}, PrivateKey: key}
}

// pemFile writes certificates into a file.
func pemFile(t *testing.T, certificates ...[]byte) string {
	t.Helper()
	var text []byte
	for _, der := range certificates {
		text = append(text, pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: der})...)
	}
	path := filepath.Join(t.TempDir(), "cert.pem")
	if err := os.WriteFile(path, text, 0o600); err != nil {
		t.Fatal(err)
	}
	return path
}

const day = 24 * time.Hour

// TestCertificatesOfBroker checks the certificate of a NATS server with TLS, and those in files.
func TestCertificatesOfBroker(t *testing.T) {
	t.Parallel()
	ca := newAuthority(t)
	for left, want := range map[time.Duration]doctor.State{5 * day: doctor.Warning, 90 * day: doctor.OK} {
		o := bustest.Options(t)
		o.TLS, o.TLSConfig = true, &tls.Config{Certificates: []tls.Certificate{ca.issue(t, left)}, MinVersion: tls.VersionTLS12}
		s := bustest.Serve(t, o)
		text := "is valid until"
		if want == doctor.Warning {
			text = "expires in 4 days"
		}
		c := deadman.Config{NATSURL: s.ClientURL(), NATSCA: pemFile(t, ca.certificate.Raw), DataDir: t.TempDir()}
		all := doctor.Inspect(t.Context(), c)
		expect(t, all, "broker certificate", want, text)
		expect(t, all, "broker CA certificates", doctor.OK, "authority")
	}
	expired := ca.issue(t, -time.Hour)
	c := deadman.Config{NATSURL: "nats://127.0.0.1:1", NATSCA: pemFile(t), NATSCert: pemFile(t, expired.Certificate[0], ca.certificate.Raw), NATSKey: "key.pem", DataDir: t.TempDir()}
	all := doctor.Inspect(t.Context(), c)
	expect(t, all, "broker client certificate", doctor.Failed, "(server)")
	expect(t, all, "broker CA certificates", doctor.Failed, "has no certificate")
}

// heads is a receiver of HTTP that notes the methods of requests.
type heads struct {
	mu      sync.Mutex
	methods []string
}

func (h *heads) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.methods = append(h.methods, r.Method)
	w.WriteHeader(http.StatusMethodNotAllowed)
}

// TestChannels checks that the receivers of channels are reached without a message, that their certificates are checked, and
// that a channel that cannot be checked is unknown. It sets the root certificates of the process.
func TestChannels(t *testing.T) { //nolint:paralleltest // it sets an environment variable
	ca, receiver := newAuthority(t), new(heads)
	t.Setenv("SSL_CERT_FILE", pemFile(t, ca.certificate.Raw))
	serve := func(left time.Duration) string {
		s := httptest.NewUnstartedServer(receiver)
		s.TLS = &tls.Config{Certificates: []tls.Certificate{ca.issue(t, left)}, MinVersion: tls.VersionTLS12}
		s.StartTLS()
		t.Cleanup(s.Close)
		return s.URL
	}
	certificatesOfServices(t, serve)
	plain := httptest.NewServer(receiver)
	t.Cleanup(plain.Close)
	mail, err := net.Listen("tcp", "127.0.0.1:0") // accepts connections, and is no mail server
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = mail.Close() })
	go func() {
		for conn, err := mail.Accept(); err == nil; conn, err = mail.Accept() {
			fmt.Fprint(conn, "554 closed\r\n")
			_ = conn.Close()
		}
	}()
	dir := t.TempDir()
	secret := func(name, url string) string {
		if err := os.WriteFile(filepath.Join(dir, name), []byte(url), 0o600); err != nil {
			t.Fatal(err)
		}
		return name
	}
	file := filepath.Join(dir, "notify.yaml")
	channels := `channels:
  plain: {kind: webhook, url: ` + plain.URL + `/hook}
  fresh: {kind: alertmanager, url: ` + serve(90*day) + `}
  ending: {kind: webhook, url: ` + serve(5*day) + `/hook}
  over: {kind: webhook, url: ` + serve(-time.Hour) + `/hook}
  gone: {kind: webhook, url_file: ` + secret("gone", "http://127.0.0.1:1/secret-path") + `}
  mail: {kind: email, url_file: ` + secret("mail", "smtp://user:secret-path@"+mail.Addr().String()+"/?from=a@example.org&to=b@example.org") + `}
  other: {kind: shoutrrr, url_file: ` + secret("other", "discord://secret-path@1234") + `}
routes:
  - {to: [plain]}
`
	if err := os.WriteFile(file, []byte(channels), 0o600); err != nil {
		t.Fatal(err)
	}
	all := doctor.Inspect(t.Context(), deadman.Config{DataDir: filepath.Join(dir, "data"), Notify: file})
	expect(t, all, "channel plain", doctor.OK, "webhook, reached")
	expect(t, all, "channel fresh", doctor.OK, "alertmanager, reached")
	expect(t, all, "channel fresh", doctor.OK, "is valid until")
	expect(t, all, "channel ending", doctor.Warning, "expires in 4 days")
	expect(t, all, "channel over", doctor.Failed, "expired")
	expect(t, all, "channel gone", doctor.Failed, "refused")
	expect(t, all, "channel mail", doctor.Failed, "554")
	expect(t, all, "channel other", doctor.Unknown, "only be reached with a message")
	if text := fmt.Sprint(all); strings.Contains(text, "secret-path") {
		t.Errorf("a finding has a secret: %s", text)
	}
	receiver.mu.Lock()
	defer receiver.mu.Unlock()
	if methods := strings.Join(receiver.methods, " "); methods != "HEAD HEAD HEAD" {
		t.Errorf("the receivers got %s", methods)
	}
}

// certificatesOfServices checks the certificates of the public URL and of an HTTP source. The certificates are for 127.0.0.1.
func certificatesOfServices(t *testing.T, serve func(left time.Duration) string) {
	t.Helper()
	unnamed := strings.Replace(serve(90*day), "127.0.0.1", "localhost", 1)
	strange := httptest.NewTLSServer(new(heads))
	t.Cleanup(strange.Close)
	plain := httptest.NewServer(new(heads))
	t.Cleanup(plain.Close)
	for _, c := range []struct {
		url        string
		state      doctor.State
		text       string
		sourceText string // empty: the source fails
	}{
		{serve(90 * day), doctor.OK, "is valid until", "is valid until"},
		{serve(5 * day), doctor.Warning, "expires in 4 days", "expires in 4 days"},
		{serve(-time.Hour), doctor.Failed, "expired at", ""},
		{unnamed, doctor.Failed, "match localhost", ""},
		{strange.URL, doctor.Warning, "does not trust it", ""},
		{strings.Replace(plain.URL, "http:", "https:", 1), doctor.Failed, "no TLS connection", ""},
		{"https://127.0.0.1:1", doctor.Unknown, "cannot be reached from this machine", ""},
	} {
		dir := t.TempDir()
		file := filepath.Join(dir, "sources.yaml")
		if err := os.WriteFile(file, []byte("sources: {shop: {http: {url: \""+c.url+"\", allow: [127.0.0.1, \"::1\"]}}}\n"), 0o600); err != nil {
			t.Fatal(err)
		}
		all := doctor.Inspect(t.Context(), deadman.Config{DataDir: filepath.Join(dir, "data"), PublicURL: c.url, Sources: file})
		expect(t, all, "public URL certificate", c.state, c.text)
		if c.sourceText != "" {
			expect(t, all, "source shop", c.state, c.sourceText)
			expect(t, all, "source shop", doctor.OK, "reached")
		} else {
			expect(t, all, "source shop", doctor.Failed, "")
		}
	}
}

const waitingRules = `name: return-missing
entity: order
trigger: {event: orders.sent, key: event.id}
resolve: {event: orders.returned, key: event.id}
escalate: [{after: 20d, step: late}]
---
name: quick
entity: order
trigger: {event: orders.sent, key: event.id}
resolve: {event: orders.seen, key: event.id}
escalate: [{after: 2h, step: late}]
`

// TestHorizons checks that a stream that drops events before the last step of a rule is reported, for rules of the folder and
// of the database, and that the rules of an embedded database are unknown.
func TestHorizons(t *testing.T) {
	t.Parallel()
	s := bustest.Serve(t, bustest.Options(t))
	js := bustest.JetStream(t, s.ClientURL())
	for name, age := range map[string]time.Duration{"ORDERS": 7 * day, "LONG": 30 * day} {
		subject := map[string]string{"ORDERS": "orders.*", "LONG": "long.>"}[name]
		if _, err := js.CreateStream(t.Context(), jetstream.StreamConfig{Name: name, Subjects: []string{subject}, MaxAge: age}); err != nil {
			t.Fatal(err)
		}
	}
	folder := t.TempDir()
	if err := os.WriteFile(filepath.Join(folder, "rules.yaml"), []byte(waitingRules), 0o600); err != nil {
		t.Fatal(err)
	}
	c := deadman.Config{NATSURL: s.ClientURL(), DataDir: t.TempDir(), Rules: folder}
	all := doctor.Inspect(t.Context(), c)
	const found = "it keeps events for 7d, and rules wait longer: return-missing (20d);"
	expect(t, all, "stream ORDERS", doctor.Warning, found)
	expect(t, all, "stream LONG", doctor.OK, "0 messages")

	c.DatabaseURL, c.Rules = storetest.Postgres(t), ""
	all = doctor.Inspect(t.Context(), c)
	expect(t, all, "stream ORDERS", doctor.OK, "0 messages")
	expect(t, all, "rules", doctor.OK, "0 in the database")
	exec(t, c.DatabaseURL, `INSERT INTO rule (id, name, entity) VALUES (1, 'old', 'order')`,
		`INSERT INTO rule_version (rule_id, version, document, reads, bundle, saved_at, saved_by) VALUES
			(1, 1, '{"name": "old", "trigger": {"event": "orders.sent"}, "escalate": [{"after": "2h"}]}', '[]', '', now(), 'x'),
			(1, 2, '{"name": "old", "trigger": {"event": "orders.sent"}, "escalate": [{"after": "10d"}]}', '[]', '', now(), 'x')`)
	all = doctor.Inspect(t.Context(), c)
	expect(t, all, "rules", doctor.OK, "1 in the database")
	expect(t, all, "stream ORDERS", doctor.Warning, "old (10d);")
	exec(t, c.DatabaseURL, `UPDATE rule_version SET document = '{"trigger": 7}'`)
	expect(t, doctor.Inspect(t.Context(), c), "rules", doctor.Unknown, "cannot be read")

	c.DatabaseURL, c.DataDir = "", storetest.DataDir(t)
	expect(t, doctor.Inspect(t.Context(), c), "rules", doctor.Unknown, "in the embedded database were not checked")
	lock, err := store.LockFolder(c.DataDir)
	if err != nil {
		t.Fatal(err)
	}
	expect(t, doctor.Inspect(t.Context(), deadman.Config{DataDir: c.DataDir}), "rules", doctor.Unknown, "in the database of the running node were not checked")
	checkEnd(t, lock.Close())
	c.Rules = t.TempDir()
	if err := os.WriteFile(filepath.Join(c.Rules, "rules.yaml"), []byte("name: x\nescalat: []\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	expect(t, doctor.Inspect(t.Context(), c), "rules", doctor.Failed, "rules.yaml:")

	// A node reads subfolders and JSON, and neither hidden folders nor tests.
	c.Rules, c.DataDir = t.TempDir(), t.TempDir()
	for name, text := range map[string]string{
		"a/b/slow.yml":     strings.Split(waitingRules, "---")[0],
		"a/other.json":     `{"name": "other", "entity": "order", "trigger": {"event": "orders.sent", "key": "event.id"}, "escalate": [{"after": "9d", "step": "late"}]}`,
		".git/x.yaml":      "name: x\n",
		"a/slow.test.yaml": "tests: 7\n",
	} {
		path := filepath.Join(c.Rules, name)
		if err := os.MkdirAll(filepath.Dir(path), 0o700); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	all = doctor.Inspect(t.Context(), c)
	expect(t, all, "rules folder", doctor.OK, "2 files")
	expect(t, all, "stream ORDERS", doctor.Warning, "return-missing (20d), other (9d);")
	if slices.ContainsFunc(all, func(f doctor.Finding) bool { return f.Check == "rules" }) {
		t.Errorf("all files are valid: %+v", all)
	}
}

// TestCertificateOfDatabase checks the certificate of a Postgres with TLS.
func TestCertificateOfDatabase(t *testing.T) {
	t.Parallel()
	cluster, err := storetest.StartCluster(storetest.Settings{})
	if err != nil {
		t.Fatal(err)
	}
	defer func() { checkEnd(t, cluster.Stop()) }()
	ca := newAuthority(t)
	owner, err := os.Stat(cluster.Dir)
	if err != nil {
		t.Fatal(err)
	}
	for left, want := range map[time.Duration]doctor.State{5 * day: doctor.Warning, -time.Hour: doctor.Failed, 90 * day: doctor.OK} {
		issued := ca.issue(t, left)
		key, err := x509.MarshalPKCS8PrivateKey(issued.PrivateKey)
		if err != nil {
			t.Fatal(err)
		}
		for name, block := range map[string]*pem.Block{"server.crt": {Type: "CERTIFICATE", Bytes: issued.Certificate[0]}, "server.key": {Type: "PRIVATE KEY", Bytes: key}} {
			path := filepath.Join(cluster.Dir, name)
			if err := os.WriteFile(path, pem.EncodeToMemory(block), 0o600); err != nil {
				t.Fatal(err)
			}
			if by, is := owner.Sys().(*syscall.Stat_t); is && os.Geteuid() == 0 {
				if err := os.Chown(path, int(by.Uid), int(by.Gid)); err != nil {
					t.Fatal(err)
				}
			}
		}
		exec(t, cluster.DSN, `ALTER SYSTEM SET ssl_cert_file = '`+filepath.Join(cluster.Dir, "server.crt")+`'`,
			`ALTER SYSTEM SET ssl_key_file = '`+filepath.Join(cluster.Dir, "server.key")+`'`, `ALTER SYSTEM SET ssl = on`, `SELECT pg_reload_conf()`)
		secure := fmt.Sprintf("postgres://postgres@127.0.0.1:%d/postgres?sslmode=require", cluster.Port)
		until(t, deadman.Config{DatabaseURL: secure, NATSURL: "nats://127.0.0.1:1"}, "database certificate", want, "the certificate of the database")
	}
}
