package bus

import (
	"crypto/tls"
	"encoding/pem"
	"errors"
	"fmt"
	"io"
	"os"
	"runtime"
	"strings"
	"time"
)

// maxFile limits an identity file, in bytes. A bundle of all public authorities takes a quarter of it.
const maxFile = 1 << 20

// readFile reads the file of a setting.
func readFile(setting, path string) (data []byte, err error) {
	f, err := os.Open(path)
	if err != nil {
		return nil, fmt.Errorf("%w: %s: %w; name a file that the node's user may read", ErrIdentity, setting, err)
	}
	defer func() { err = errors.Join(err, f.Close()) }()
	data, err = io.ReadAll(io.LimitReader(f, maxFile+1))
	if err != nil {
		return nil, fmt.Errorf("%w: %s: %w", ErrIdentity, setting, err)
	}
	if len(data) > maxFile {
		return nil, fmt.Errorf("%w: %s: %s is over the limit of %d KiB", ErrIdentity, setting, path, maxFile>>10)
	}
	return data, nil
}

// exposed reports whether all users of the machine may read a file. Containers often mount secrets with this mode, so
// it is logged and not rejected.
func exposed(path string) bool {
	info, err := os.Stat(path)
	return err == nil && runtime.GOOS != "windows" && info.Mode().Perm()&0o004 != 0
}

// pair combines a certificate with its key.
func pair(certFile string, chain []byte, keyFile string, key []byte) (none tls.Certificate, err error) {
	if !hasBlock(chain, "CERTIFICATE") {
		return none, fmt.Errorf("%w: DEADMAN_NATS_CERT: %s holds no certificate in PEM (-----BEGIN CERTIFICATE-----)", ErrIdentity, certFile)
	}
	if hasBlock(key, "ENCRYPTED PRIVATE KEY") {
		return none, fmt.Errorf("%w: DEADMAN_NATS_KEY: the key in %s has a passphrase; take it off (openssl pkey), and let only the node's user read the file", ErrIdentity, keyFile)
	}
	if !hasBlock(key, "PRIVATE KEY") {
		return none, fmt.Errorf("%w: DEADMAN_NATS_KEY: %s holds no private key in PEM (-----BEGIN PRIVATE KEY-----)", ErrIdentity, keyFile)
	}
	cert, err := tls.X509KeyPair(chain, key)
	if err != nil {
		return none, fmt.Errorf("%w: the certificate %s (DEADMAN_NATS_CERT) and the key %s (DEADMAN_NATS_KEY) do not fit: %w", ErrIdentity, certFile, keyFile, err)
	}
	now := time.Now()
	if leaf := cert.Leaf; now.After(leaf.NotAfter) || now.Before(leaf.NotBefore) {
		return none, fmt.Errorf("%w: DEADMAN_NATS_CERT: the certificate in %s holds from %s to %s, and now it is %s; renew it, or check the clock",
			ErrIdentity, certFile, day(leaf.NotBefore), day(leaf.NotAfter), day(now))
	}
	return cert, nil
}

func day(t time.Time) string { return t.UTC().Format(time.RFC3339) }

// hasBlock reports whether a PEM file has a block with a type of this suffix.
func hasBlock(data []byte, kind string) bool {
	for {
		var block *pem.Block
		if block, data = pem.Decode(data); block == nil {
			return false
		}
		if strings.HasSuffix(block.Type, kind) {
			return true
		}
	}
}
