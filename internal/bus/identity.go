package bus

import (
	"crypto/tls"
	"crypto/x509"
	"fmt"
	"strings"

	"github.com/nats-io/nkeys"
)

// Identity is the credentials of deadman and the trusted authorities of the broker. Each field is the path of a file,
// or empty. The files are read again at each connection.
type Identity struct {
	Creds string // credentials file: a user's JWT and nkey seed
	NKey  string // nkey seed of a user
	Token string // token
	CA    string // certificates (PEM) of the broker's authorities; empty: those of the system
	Cert  string // client certificate (PEM), followed by intermediate ones
	Key   string // private key (PEM) of the certificate
}

// tls reports whether the connection must be encrypted.
func (i Identity) tls() bool { return i.CA != "" || i.Cert != "" }

// check returns ErrIdentity for unusable files. A user in the URL counts as a credential.
func (i Identity) check(urlHasUser bool) error {
	if err := i.one(urlHasUser); err != nil {
		return err
	}
	if (i.Cert == "") != (i.Key == "") {
		return fmt.Errorf("%w: DEADMAN_NATS_CERT and DEADMAN_NATS_KEY go together; set both, or neither", ErrIdentity)
	}
	for _, read := range []struct {
		path string
		try  func() error
	}{
		{i.Creds, func() error { _, _, err := i.credentials(); return err }},
		{i.NKey, func() error { _, _, err := i.nkey(); return err }},
		{i.Token, func() error { _, err := i.token(); return err }},
		{i.CA, func() error { _, err := i.authorities(); return err }},
		{i.Cert, func() error { _, err := i.certificate(); return err }},
	} {
		if read.path == "" {
			continue
		}
		if err := read.try(); err != nil {
			return err
		}
	}
	return nil
}

// one rejects two credentials, because the broker would check only one of them.
func (i Identity) one(urlHasUser bool) error {
	var set []string
	for _, s := range i.proofs() {
		if s.path != "" {
			set = append(set, s.setting)
		}
	}
	if urlHasUser {
		set = append(set, "a user or token in DEADMAN_NATS_URL")
	}
	if len(set) > 1 {
		return fmt.Errorf("%w: there are %s; keep one of them", ErrIdentity, strings.Join(set, " and "))
	}
	return nil
}

// credentialFile is a file of credentials with the setting that names it.
type credentialFile struct{ setting, path string }

func (i Identity) proofs() []credentialFile {
	return []credentialFile{
		{"DEADMAN_NATS_CREDS", i.Creds},
		{"DEADMAN_NATS_NKEY", i.NKey},
		{"DEADMAN_NATS_TOKEN_FILE", i.Token},
	}
}

// secrets returns the files with secrets.
func (i Identity) secrets() []string {
	var paths []string
	for _, p := range append(i.proofs(), credentialFile{path: i.Key}) {
		if p.path != "" {
			paths = append(paths, p.path)
		}
	}
	return paths
}

// credentials reads a user's JWT and key.
func (i Identity) credentials() (jwt string, key nkeys.KeyPair, err error) {
	data, err := readFile("DEADMAN_NATS_CREDS", i.Creds)
	if err != nil {
		return "", nil, err
	}
	jwt, err = nkeys.ParseDecoratedJWT(data)
	if err == nil && strings.Count(jwt, ".") != 2 {
		err = fmt.Errorf("it holds no JWT")
	}
	if err == nil {
		key, err = nkeys.ParseDecoratedUserNKey(data)
	}
	if err != nil {
		return "", nil, fmt.Errorf("%w: DEADMAN_NATS_CREDS: %s is no credentials file of a user: %w; write one anew with nsc generate creds", ErrIdentity, i.Creds, err)
	}
	return jwt, key, nil
}

// nkey reads a user's key with its public half, the broker's name for the user.
func (i Identity) nkey() (public string, key nkeys.KeyPair, err error) {
	data, err := readFile("DEADMAN_NATS_NKEY", i.NKey)
	if err != nil {
		return "", nil, err
	}
	key, err = nkeys.ParseDecoratedUserNKey(data)
	if err == nil {
		public, err = key.PublicKey()
	}
	if err != nil {
		return "", nil, fmt.Errorf("%w: DEADMAN_NATS_NKEY: %s holds no nkey seed of a user, which begins with SU: %w; make one with nk -gen user", ErrIdentity, i.NKey, err)
	}
	return public, key, nil
}

func (i Identity) token() (string, error) {
	data, err := readFile("DEADMAN_NATS_TOKEN_FILE", i.Token)
	if err != nil {
		return "", err
	}
	token := strings.TrimSpace(string(data))
	if token == "" || strings.ContainsFunc(token, unprintable) {
		return "", fmt.Errorf("%w: DEADMAN_NATS_TOKEN_FILE: %s holds no token; write one on a single line, such as openssl rand -hex 32 makes", ErrIdentity, i.Token)
	}
	return token, nil
}

// authorities reads the certificates of the broker's authorities.
func (i Identity) authorities() (*x509.CertPool, error) {
	data, err := readFile("DEADMAN_NATS_CA", i.CA)
	if err != nil {
		return nil, err
	}
	pool := x509.NewCertPool()
	if !pool.AppendCertsFromPEM(data) {
		return nil, fmt.Errorf("%w: DEADMAN_NATS_CA: %s holds no certificate in PEM (-----BEGIN CERTIFICATE-----)", ErrIdentity, i.CA)
	}
	return pool, nil
}

// certificate reads the client certificate.
func (i Identity) certificate() (tls.Certificate, error) {
	chain, err := readFile("DEADMAN_NATS_CERT", i.Cert)
	if err != nil {
		return tls.Certificate{}, err
	}
	key, err := readFile("DEADMAN_NATS_KEY", i.Key)
	if err != nil {
		return tls.Certificate{}, err
	}
	return pair(i.Cert, chain, i.Key, key)
}

// remedy returns the advice for a failed authentication.
func (i Identity) remedy() string {
	for _, p := range i.proofs() {
		if p.path != "" {
			return "the broker does not know the user of " + p.path + " (" + p.setting + "), or no longer; compare it with the broker's users"
		}
	}
	return "set DEADMAN_NATS_CREDS, DEADMAN_NATS_NKEY or DEADMAN_NATS_TOKEN_FILE, or check the user in DEADMAN_NATS_URL"
}
