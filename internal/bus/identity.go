package bus

import (
	"crypto/tls"
	"crypto/x509"
	"fmt"
	"strings"

	"github.com/nats-io/nkeys"
)

// Identity is how deadman proves who it is and how it knows the broker. Each field is the path of
// a file, empty where there is none. The files are read again at each connection.
type Identity struct {
	Creds string // credentials: a user's JWT and its nkey seed
	NKey  string // the nkey seed of a user
	Token string // a token
	CA    string // certificates (PEM) of who vouches for the broker; empty: whom the machine trusts
	Cert  string // the client's certificate (PEM), with those in between behind it
	Key   string // the private key (PEM) of the certificate
}

// tls reports whether only an encrypted connection will do.
func (i Identity) tls() bool { return i.CA != "" || i.Cert != "" }

// check returns ErrIdentity for what cannot be used. A URL with a user is a proof of its own.
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

// one refuses two proofs: the broker would look at one of them, and nobody would know at which.
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

// credentialFile is a file that says who somebody is, and the setting that names it.
type credentialFile struct{ setting, path string }

func (i Identity) proofs() []credentialFile {
	return []credentialFile{
		{"DEADMAN_NATS_CREDS", i.Creds},
		{"DEADMAN_NATS_NKEY", i.NKey},
		{"DEADMAN_NATS_TOKEN_FILE", i.Token},
	}
}

// secrets are the files that nobody else should read.
func (i Identity) secrets() []string {
	var paths []string
	for _, p := range append(i.proofs(), credentialFile{path: i.Key}) {
		if p.path != "" {
			paths = append(paths, p.path)
		}
	}
	return paths
}

// credentials are a user's JWT and key.
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

// nkey is a user's key and its public half, by which the broker knows the user.
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

// authorities are the certificates of who may vouch for the broker.
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

// certificate is what the client shows to the broker.
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
