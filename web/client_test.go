package web_test

import (
	"context"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"deadman/internal/access"
	"deadman/internal/longtest"
)

// TestGeneratedClient checks that a client generated from the OpenAPI description in another language compiles strictly,
// and works with a node that requires tokens.
func TestGeneratedClient(t *testing.T) {
	longtest.Only(t, "it needs Node.js and npm")
	for _, program := range []string{"node", "npm"} {
		if _, err := exec.LookPath(program); err != nil {
			t.Fatalf("the generated client needs node 20 or newer and npm, and there is no %s; install them (Debian, Ubuntu: apt-get install nodejs npm)", program)
		}
	}
	s := newFixture(t, closedNode)
	admin := s.newToken("client", "", access.Admin)
	dir := t.TempDir()
	failOn(t, os.CopyFS(dir, os.DirFS("clienttest")))
	failOn(t, os.WriteFile(filepath.Join(dir, "openapi.json"), []byte(requestPath(t, s.Server, "GET", "/openapi.json", "", admin...).body), 0o600))

	run := func(name string, args ...string) string {
		t.Helper()
		ctx, cancel := context.WithTimeout(t.Context(), 5*time.Minute)
		defer cancel()
		command := exec.CommandContext(ctx, name, args...)
		command.Dir = dir
		output, err := command.CombinedOutput()
		if err != nil {
			t.Fatalf("%s %s: %v\n%s", name, strings.Join(args, " "), err, output)
		}
		return string(output)
	}
	run("npm", "ci", "--prefer-offline")
	run("npm", "exec", "--", "openapi-typescript", "openapi.json", "--default-non-nullable=false", "--output", "api.d.ts")
	run("npm", "exec", "--", "tsc")
	if text := run("node", "built/client.js", s.URL, strings.TrimPrefix(admin[1], "Bearer ")); !strings.Contains(text, "the client is done") {
		t.Error(text)
	}
}
