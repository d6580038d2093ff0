package server_test

import (
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"deadman/internal/store/storetest"
	"deadman/server"
)

// sourceFile writes a sources file.
func sourceFile(t *testing.T, text string) string {
	t.Helper()
	path := filepath.Join(t.TempDir(), "sources.yaml")
	if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	return path
}

func TestInvalidSourceFileStopsStart(t *testing.T) {
	t.Parallel()
	for text, wantText := range map[string]string{
		"sauces: {}\n":                 `sources.yaml:1:1: sauces: unknown field "sauces"; did you mean "sources"?`,
		"sources: {shop: {rate: 5}}\n": `sources.yaml:1:11: sources.shop: the kind of the source is missing`,
	} {
		err := server.Run(t.Context(), server.Config{
			DataDir: t.TempDir(), HTTPAddr: "127.0.0.1:0", NATSAddr: "127.0.0.1:0", Sources: sourceFile(t, text),
		})
		if err == nil || !strings.Contains(err.Error(), wantText) {
			t.Errorf("%v, want %q", err, wantText)
		}
	}
}

// A rule with an unknown source is rejected by name, even without a sources file.
func TestRuleNamesMissingSource(t *testing.T) {
	t.Parallel()
	n := startReadyNode(t, server.Config{Sources: sourceFile(t, "sources: {}\n")})
	const rule = `{"name": "a", "entity": "order", "trigger": {"event": "orders.created", "key": "event.id"},
		"lookup": {"sql": {"source": "shop", "query": "select 1"}}, "escalate": [{"after": "3h"}]}`
	got := n.callRaw(http.MethodPut, "/api/v1/rules/a", rule)
	if got.status != http.StatusUnprocessableEntity || !strings.Contains(string(got.body), "is not defined on this node") {
		t.Errorf("%d %s", got.status, got.body)
	}
}

// A source with a user that can do more than read causes a warning at the start, even before a rule uses it.
func TestSourceOfSuperuserIsWarnedOf(t *testing.T) {
	t.Parallel()
	env := map[string]string{"SHOP_URL": storetest.EmptyPostgres(t)}
	n := startReadyNode(t, server.Config{
		Sources: sourceFile(t, "sources: {shop: {postgres: {url_env: SHOP_URL}}}\n"), Env: func(name string) string { return env[name] },
	})
	n.eventually("the source is warned of", func() bool {
		return strings.Contains(string(n.callRaw(http.MethodGet, "/api/v1/sources", "").body), "is a superuser")
	})
}
