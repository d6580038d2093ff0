// Package logintest provides OpenID providers for tests: a real one in another process, and one that sends wrong data
// on request.
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

// The clients of the real provider. The ID tokens of the second one have only the required claims. The secret of both
// is Secret. The users are ann (groups staff and sre), bob (staff, acme), eve (visitors) and ned (sre; his address is
// not verified). Their passwords are their names.
const (
	Client = "deadman"
	Thin   = "deadman-thin"
	Secret = "the secret of deadman"
)

// Provider runs internal/tools/provider until the test ends and returns its issuer. redirects are the allowed redirect
// URIs.
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
		_ = in.Close() // closing its input ends it
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

// root returns the folder of the module.
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
