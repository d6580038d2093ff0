package server_test

import (
	"crypto/hmac"
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"deadman/server"
)

// write writes a file in a folder and returns its path.
func write(t *testing.T, dir, name, text string) string {
	t.Helper()
	path := filepath.Join(dir, name)
	if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	return path
}

// A webhook works end to end: it is verified, becomes an event, and creates a job.
func TestWebhookCreatesJob(t *testing.T) {
	t.Parallel()
	dir, rules := t.TempDir(), t.TempDir()
	write(t, dir, "github.txt", "old\nnew\n")
	write(t, rules, "rule.yaml", `
name: pull-unreviewed
entity: pull
trigger: {event: code.pulls, key: event.number}
escalate: [{after: 1h, step: primary}]
`)
	n := startReadyNode(t, server.Config{
		Rules: rules,
		Hooks: write(t, dir, "hooks.yaml", "hooks: [{name: code, subject: code.pulls, scheme: github, secret_file: github.txt}]\n"),
	})
	const body = `{"number": 7}`
	mac := hmac.New(sha256.New, []byte("new"))
	fmt.Fprint(mac, body)
	for _, signature := range []string{"sha256=00", "sha256=" + hex.EncodeToString(mac.Sum(nil))} {
		request, err := http.NewRequestWithContext(t.Context(), http.MethodPost, n.HTTP+"/hooks/code", strings.NewReader(body))
		if err != nil {
			t.Fatal(err)
		}
		request.Header.Set("X-Hub-Signature-256", signature)
		answer, err := http.DefaultClient.Do(request)
		if err != nil {
			t.Fatal(err)
		}
		answer.Body.Close()
		if want := map[bool]int{true: 401, false: 202}[signature == "sha256=00"]; answer.StatusCode != want {
			t.Errorf("%s: %d, want %d", signature, answer.StatusCode, want)
		}
	}
	n.eventually("a job waits for it", func() bool { return n.get("/api/v1/jobs/pull-unreviewed/7", nil) == http.StatusOK })
}

// A node does not start with unusable webhooks, and reports all their errors.
func TestUnusableWebhooks(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	empty := write(t, dir, "empty", "\n")
	for text, wantTexts := range map[string][]string{
		"hooks: [{name: a, scheme: paypal}]": {"hooks.yaml:1:", "paypal", "subject is missing"},
		"hooks: [{name: a, subject: s, scheme: stripe, secret_file: none}, {name: b, subject: s, scheme: github, secret_file: empty}]": {
			filepath.Join(dir, "none"), "hook b: " + empty + " has no secret",
		},
	} {
		err := server.Run(t.Context(), server.Config{DataDir: t.TempDir(), Hooks: write(t, dir, "hooks.yaml", text)})
		for _, part := range wantTexts {
			if err == nil || !strings.Contains(err.Error(), part) {
				t.Errorf("%s: %v, want %q", text, err, part)
			}
		}
	}
	if err := server.Run(t.Context(), server.Config{DataDir: t.TempDir(), Hooks: empty + "x"}); err == nil || !strings.Contains(err.Error(), "--hooks") {
		t.Errorf("no file: %v", err)
	}
}
