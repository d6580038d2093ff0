package configfile

import (
	"crypto/x509"
	"path/filepath"
	"strings"
)

// maxSecret is the maximum size of a secret in bytes.
const maxSecret = 8 << 10

// Path returns v as a path, relative to the folder of the file.
func (v Value) Path() string {
	path := v.Text()
	if path == "" || filepath.IsAbs(path) {
		return path
	}
	return filepath.Join(filepath.Dir(v.paper.file), path)
}

// Secret returns the contents of the file named by v, without surrounding white space: a secret is never part of the
// file itself. read is os.ReadFile or similar.
func (v Value) Secret(read func(path string) ([]byte, error)) string {
	path := v.Path()
	if path == "" {
		return ""
	}
	data, err := read(path)
	secret := strings.TrimSpace(string(data))
	switch {
	case err != nil:
		v.Problem("%v; name a file that the node can read", err)
		return ""
	case secret == "" || len(secret) > maxSecret || strings.ContainsAny(secret, "\n\x00"):
		v.Problem("%s is not a single line of up to %d bytes; write only the secret into it", path, maxSecret)
		return ""
	}
	return secret
}

// Variable returns the environment variable named by v, without surrounding white space. env is os.Getenv or similar.
func (v Value) Variable(env func(name string) string) string {
	name := v.Text()
	if name == "" {
		return ""
	}
	value := strings.TrimSpace(env(name))
	switch {
	case value == "":
		v.Problem("%s is not set in the environment of the node; set it before the node starts", name)
		return ""
	case len(value) > maxSecret || strings.ContainsAny(value, "\n\x00"):
		v.Problem("%s is not a single line of up to %d bytes; set it to only the secret", name, maxSecret)
		return ""
	}
	return value
}

// Certificates returns the contents of the file named by v: CA certificates in PEM. read is os.ReadFile or similar.
func (v Value) Certificates(read func(path string) ([]byte, error)) []byte {
	path := v.Path()
	if path == "" {
		return nil
	}
	data, err := read(path)
	switch {
	case err != nil:
		v.Problem("%v; name a file that the node can read", err)
	case !x509.NewCertPool().AppendCertsFromPEM(data):
		v.Problem("%s has no certificate; write the CA certificates of the service into it, as PEM", path)
	}
	return data
}
