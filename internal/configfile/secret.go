package configfile

import (
	"crypto/x509"
	"path/filepath"
	"strings"
)

// maxSecret is the most bytes of a secret.
const maxSecret = 8 << 10

// Path is the path of the file that v names, which begins at the folder of the file that says
// so.
func (v Value) Path() string {
	path := v.Text()
	if path == "" || filepath.IsAbs(path) {
		return path
	}
	return filepath.Join(filepath.Dir(v.paper.file), path)
}

// Secret is what the file holds that v names, without the white space around it: secrets are
// never in a file that others are described in. read is os.ReadFile or the like.
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
		v.Problem("%s does not hold one line of up to %d bytes; write the secret into it, and nothing else", path, maxSecret)
		return ""
	}
	return secret
}

// Variable is what the variable of the environment holds that v names, without the white space around it. env is os.Getenv
// or the like.
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
		v.Problem("%s does not hold one line of up to %d bytes; set it to the secret, and nothing else", name, maxSecret)
		return ""
	}
	return value
}

// Certificates is what the file holds that v names: certificates of who vouches for a service, in PEM. read is os.ReadFile or
// the like.
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
		v.Problem("%s holds no certificate; write those of who vouches for the service into it, as PEM", path)
	}
	return data
}
