// Package logintest has OpenID providers for tests: a real one, which is another program, and one that lies.
package logintest

import (
	"bufio"
	"context"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
)

// The client of the real provider, and the one whose ID tokens have no claims but those that they need. Of both the secret is
// Secret. The users are ann (of the groups staff and sre), bob (staff, acme), eve (visitors) and ned (sre; his address is not verified).
// Their passwords are their names.
const (
	Client = "deadman"
	Thin   = "deadman-thin"
	Secret = "the secret of deadman"
)

// Provider runs the provider of internal/tools/provider until the test ends, and returns its issuer. Its clients may be led back to the
// redirect URIs.
func Provider(tb testing.TB, redirects ...string) (issuer string) {
	tb.Helper()
	tool := exec.CommandContext(tb.Context(), filepath.Join(root(tb), "internal", "tools", "tool"), "provider")
	tool.Stderr = os.Stderr
	path, err := tool.Output()
	if err != nil {
		tb.Fatalf("build the provider: %v", err)
	}
	cmd := exec.CommandContext(context.WithoutCancel(tb.Context()), strings.TrimSpace(string(path)), "-redirect", strings.Join(redirects, ",")) //nolint:gosec // it was just built
	cmd.Stderr = os.Stderr
	in, err := cmd.StdinPipe()
	if err != nil {
		tb.Fatal(err)
	}
	out, err := cmd.StdoutPipe()
	if err != nil {
		tb.Fatal(err)
	}
	if err := cmd.Start(); err != nil {
		tb.Fatal(err)
	}
	tb.Cleanup(func() {
		_ = in.Close() // it ends then
		if err := cmd.Wait(); err != nil {
			tb.Errorf("the provider ends with %v", err)
		}
	})
	line, err := bufio.NewReader(out).ReadString('\n')
	if err != nil {
		tb.Fatalf("the provider says no issuer: %v", err)
	}
	return strings.TrimSpace(line)
}

// root is the folder of the module.
func root(tb testing.TB) string {
	tb.Helper()
	at, err := os.Getwd()
	if err != nil {
		tb.Fatal(err)
	}
	for ; at != filepath.Dir(at); at = filepath.Dir(at) {
		if _, err := os.Stat(filepath.Join(at, "internal", "tools", "provider", "go.mod")); err == nil {
			return at
		}
	}
	tb.Fatal("internal/tools/provider is in no folder above")
	return ""
}
