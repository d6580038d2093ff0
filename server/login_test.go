package server_test

import (
	"net/http"
	"net/netip"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"deadman/internal/bus/bustest"
	"deadman/server"
)

// loopbackNets is the proxy of these tests.
var loopbackNets = []netip.Prefix{netip.MustParsePrefix("127.0.0.0/8")}

const headerLogin = "header: {name: X-User, groups: X-Groups}\ngroups: [{group: sre, scopes: [admin]}, {group: staff, scopes: [read]}]\n"

func loginFile(t *testing.T, text string) string {
	t.Helper()
	path := filepath.Join(t.TempDir(), "login.yaml")
	if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	return path
}

// An invalid login file prevents the start, with the position and a remedy.
func TestInvalidLoginFileStopsStart(t *testing.T) {
	t.Parallel()
	const oidc = "oidc: {issuer: https://id.example.org, client_id: x}\ngroups: [{group: sre, scopes: [admin]}]\n"
	for name, c := range map[string]struct {
		config server.Config
		text   string
		want   string
	}{
		"no file":         {server.Config{}, "", "--login names a file"},
		"a mistake":       {server.Config{TrustedProxies: loopbackNets}, strings.Replace(headerLogin, "admin", "amdin", 1), `login.yaml:2:32: groups[0].scopes[0]: "amdin" is not one of`},
		"no proxy":        {server.Config{}, headerLogin, "name the proxy with --trusted-proxies"},
		"insecure":        {server.Config{Insecure: true, TrustedProxies: loopbackNets}, headerLogin, "DEADMAN_INSECURE"},
		"no public URL":   {server.Config{HTTPAddr: "0.0.0.0:0"}, oidc, "set --public-url"},
		"a secret inline": {server.Config{}, strings.Replace(oidc, "client_id: x", "client_id: x, client_secret: y", 1), `unknown field "client_secret"`},
	} {
		c.config.DataDir, c.config.NATSAddr, c.config.Login = bustest.Dir(t), "127.0.0.1:0", filepath.Join(t.TempDir(), "none.yaml")
		if c.config.HTTPAddr == "" {
			c.config.HTTPAddr = "127.0.0.1:0"
		}
		if c.text != "" {
			c.config.Login = loginFile(t, c.text)
		}
		if err := server.Run(t.Context(), c.config); err == nil || !strings.Contains(err.Error(), c.want) {
			t.Errorf("%s: %v, want %s", name, err, c.want)
		}
	}
}

// A node with a login file requires login from the start, accepts users named by the proxy, and reloads the file.
func TestNodeWithLoginFile(t *testing.T) {
	t.Parallel()
	again, file := make(chan struct{}), loginFile(t, headerLogin)
	first := make(chan string, 1)
	n := startReadyNode(t, server.Config{
		Login: file, TrustedProxies: loopbackNets, Reload: again, FirstToken: func(secret, _ string) { first <- secret },
		Rules: ruleFolder(t, map[string]string{"payment.yaml": paymentRule}),
	})
	token := "Bearer "
	select { // it is handed out before the node serves
	case secret := <-first:
		token += secret
	default:
		t.Fatal("the node is open, or makes no first token")
	}
	jobs := func(header ...string) int { return n.callRaw(http.MethodGet, "/api/v1/tokens", "", header...).status }
	for _, c := range []struct {
		header []string
		want   int
	}{
		{nil, http.StatusUnauthorized},
		{[]string{"X-User", "ann", "X-Groups", "sre"}, http.StatusOK},
		{[]string{"X-User", "ann", "X-Groups", "staff"}, http.StatusForbidden},
		{[]string{"X-User", "ann"}, http.StatusForbidden},
		{[]string{"Authorization", token}, http.StatusOK},
		{[]string{"X-User", "ann", "X-Groups", "sre", "Authorization", "Bearer x"}, http.StatusUnauthorized},
	} {
		if got := jobs(c.header...); got != c.want {
			t.Errorf("%v: %d, want %d", c.header, got, c.want)
		}
	}
	reload := func(text, logged string) {
		t.Helper()
		if err := os.WriteFile(file, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
		had := strings.Count(n.log.String(), logged)
		again <- struct{}{}
		n.eventually("the file is read again", func() bool { return strings.Count(n.log.String(), logged) > had })
	}
	reload("header: {}\n", "what was read before stays in force")
	if got := jobs("X-User", "ann", "X-Groups", "sre"); got != http.StatusOK {
		t.Errorf("after a bad file: %d", got)
	}
	reload(strings.Replace(headerLogin, "sre", "other", 1), "a file was read again")
	if got := jobs("X-User", "ann", "X-Groups", "sre"); got != http.StatusForbidden {
		t.Errorf("after the group left the file: %d", got)
	}
}

// Users with a prefix are tenants without tokens: the default quotas of the prefix apply to them, even after a set
// quota was deleted.
func TestUsersWithPrefixHaveQuotas(t *testing.T) {
	t.Parallel()
	n := startReadyNode(t, server.Config{
		Login: loginFile(t, strings.Replace(headerLogin, "groups: [{", "groups: [{group: acme, scopes: [rules], prefix: acme-*, subjects: [acme.>]}, {", 1)), TrustedProxies: loopbackNets, FirstToken: func(string, string) {},
	})
	admin, acme := []string{"X-User", "ann", "X-Groups", "sre"}, []string{"X-User", "bob", "X-Groups", "acme"}
	prefixes := func() (all []string) {
		var list struct{ Items []struct{ Prefix string } }
		n.callExpecting(http.StatusOK, http.MethodGet, "/api/v1/quotas", "", admin...).decode(t, &list)
		for _, q := range list.Items {
			all = append(all, q.Prefix)
		}
		return all
	}
	has := func() bool { return slices.Equal(prefixes(), []string{"acme-"}) }
	n.eventually("the prefix has a quota", has)
	n.callExpecting(http.StatusOK, http.MethodPut, "/api/v1/quotas/acme-", `{"rules": 1}`, admin...)
	save := func(status int, name string) {
		t.Helper()
		rule := "name: " + name + "\nentity: order\ntrigger: {event: acme.created, key: event.id}\nescalate: [{after: 1h}]\n"
		n.callExpecting(status, http.MethodPut, "/api/v1/rules/"+name, rule, append(acme, "Content-Type", "application/yaml")...)
	}
	save(http.StatusCreated, "acme-a")
	save(http.StatusUnprocessableEntity, "acme-b")
	n.eventually("the captured subject of users is counted", func() bool {
		return strings.Contains(string(n.callExpecting(http.StatusOK, http.MethodGet, "/api/v1/quotas", "", acme...).body), `{"name":"subjects","limit":1000,"default":true,"used":1,`)
	})
	n.callExpecting(http.StatusNoContent, http.MethodDelete, "/api/v1/quotas/acme-", "", admin...)
	n.eventually("the defaults hold again", has)
	save(http.StatusCreated, "acme-b")
}
