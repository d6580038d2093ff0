package logins_test

import (
	"encoding/pem"
	"errors"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"deadman/internal/logins"
)

// A provider has to prove itself to whom the file trusts.
func TestCertificatesOfProvider(t *testing.T) {
	var requests int
	s := httptest.NewTLSServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) { requests++; w.WriteHeader(http.StatusTeapot) }))
	t.Cleanup(s.Close)
	folder := t.TempDir()
	put := func(name, text string) {
		t.Helper()
		if err := os.WriteFile(filepath.Join(folder, name), []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	put("ca.pem", string(pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: s.Certificate().Raw})))
	begin := func(more string) (int, error) {
		t.Helper()
		put("login.yaml", "oidc: {issuer: '"+s.URL+"', client_id: x"+more+"}\ngroups: [{group: a, scopes: [read]}]\n")
		config, err := logins.Load(filepath.Join(folder, "login.yaml"), logins.Options{Now: time.Now})
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(config.OIDC.Close)
		_, _, err = config.OIDC.Begin(t.Context(), redirect)
		return requests, err
	}
	if requests, err := begin(""); !errors.Is(err, logins.ErrProvider) || requests != 0 || !strings.Contains(err.Error(), "certificate") {
		t.Errorf("without the file: %v, queried %d times", err, requests)
	}
	if requests, err := begin(", ca_file: ca.pem"); !errors.Is(err, logins.ErrProvider) || requests != 1 || !strings.Contains(err.Error(), "teapot") {
		t.Errorf("with it: %v, queried %d times", err, requests)
	}
	put("empty.pem", "nothing\n")
	put("login.yaml", "oidc: {issuer: '"+s.URL+"', client_id: x, ca_file: empty.pem}\ngroups: [{group: a, scopes: [read]}]\n")
	if _, err := logins.Load(filepath.Join(folder, "login.yaml"), logins.Options{Now: time.Now}); err == nil || !strings.Contains(err.Error(), "oidc.ca_file: ") {
		t.Errorf("%v", err)
	}
}
