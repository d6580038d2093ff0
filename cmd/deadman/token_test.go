package main

import (
	"bytes"
	"strings"
	"testing"

	"deadman/server"
	"deadman/web"
)

// newClosedNode returns a node that requires tokens, with its first token.
func newClosedNode(t *testing.T) *inProcessNode {
	t.Helper()
	secrets := make(chan string, 1)
	n := newInProcessNode(t, func(c *server.Config) {
		c.HTTPAddr = "0.0.0.0:0"
		c.FirstToken = func(secret, login string) {
			if !strings.HasSuffix(login, secret) {
				t.Errorf("the address to log in at is %s", login)
			}
			secrets <- secret
		}
	})
	n.env = append(n.env, "DEADMAN_TOKEN="+<-secrets)
	return n
}

// TestTokenVerbs checks that a token is limited to its scopes and prefix, until it is revoked.
func TestTokenVerbs(t *testing.T) {
	t.Parallel()
	n := newClosedNode(t)
	stranger := &inProcessNode{t: t, env: n.env[:1]}
	stranger.expect(1, []string{"rule", "list"}, "Unauthorized", "DEADMAN_TOKEN", "deadman token create")

	made := readJSON[web.NewToken](n, "token", "create", "acme", "--scope", "rules", "--prefix", "acme-*", "--subject", "orders.>", "--source", "acme-*", "--expires", "90d")
	if made.Prefix != "acme-" || made.Secret == "" || made.ExpiresAt.IsZero() {
		t.Errorf("%+v", made.Token)
	}
	acme := &inProcessNode{t: t, env: append(n.env[:1:1], "DEADMAN_TOKEN="+made.Secret)}
	apply := func(by *inProcessNode, rule string) result {
		return by.run(ruleNamed(rule), "rule", "apply", "-f", "-")
	}
	apply(acme, "acme-a").check(t, []string{"apply"}, 0, "created    acme-a")
	apply(acme, "other").check(t, []string{"apply"}, 1, "other", "acme-*")
	apply(n, "other").check(t, []string{"apply"}, 0, "created    other")
	if page := readJSON[web.Page[web.Rule]](acme, "rule", "list"); len(page.Items) != 1 || page.Items[0].SavedBy != "acme" {
		t.Errorf("it sees %+v", page.Items)
	}
	acme.expect(1, []string{"token", "list"}, "Forbidden", "admin")
	acme.expect(0, []string{"token", "self"}, " acme\n", " read, oncall, rules\n", " acme-*\n", "subjects", " orders.>\n", "publish", " none\n", "sources", " acme-*\n")

	shown := n.run("", "token", "create", "ci", "--scope", "events,read")
	shown.check(t, nil, 0, "scopes         read, events", "secret         dm_", "rules          *", "it is not shown again")
	if strings.Contains(shown.err, "is open") {
		t.Errorf("the node is not open: %s", shown.err)
	}
	n.expect(0, []string{"token", "list"}, "acme-*", "subjects orders.>; publish none; sources acme-*; handlers none", "in 89 d", "active", "ci", "first")
	n.expect(1, []string{"token", "create", "ci", "--scope", "read"}, "name is in use")
	n.expect(1, []string{"token", "create", "a b", "--scope", "read"}, "name: ")
	n.expect(2, []string{"token", "create", "x", "--scope", "raed"}, `--scope is "raed"`, "oncall")
	const unsent = "warning: the token may not send events"
	n.expect(0, []string{"token", "create", "mute", "--scope", "events", "--prefix", "acme-*", "--subject", "acme.>"}, unsent, "--publish")
	for _, args := range [][]string{{"loud", "--scope", "events", "--prefix", "acme-*", "--publish", "acme.>"}, {"whole", "--scope", "events"}, {"quiet", "--scope", "read", "--prefix", "acme-*"}} {
		if got := n.run("", append([]string{"token", "create"}, args...)...); got.code != exitOK || strings.Contains(got.err, unsent) {
			t.Errorf("%v: %+v", args, got)
		}
	}
	if help := n.mustRun("token", "create", "--help"); strings.Contains(help, "as --subject") || strings.Count(help, "all, or none with --prefix") != 4 {
		t.Errorf("the bounds have another default than in the help: %s", help)
	}
	n.expect(2, []string{"token", "create", "x"}, "--scope is required", "read, events, oncall, rules, admin")
	n.expect(2, []string{"token", "create", "x", "--scope", "read", "--expires", "90 days"}, "--expires")
	n.expect(2, []string{"token", "create", "x", "--scope", "read", "--expires", "0s"}, "--expires", "positive")

	n.expect(0, []string{"token", "revoke", "acme"}, "revoked: token acme")
	acme.expect(1, []string{"rule", "list"}, "Unauthorized")
	n.expect(0, []string{"token", "revoke", "ci", "-o", "json"}, `"outcome": "revoked"`)
	n.expect(1, []string{"token", "revoke", "acme"}, "not found")

	n.expect(0, []string{"token", "audit", "--action", "rule.*"}, "rule.save", "rule/acme-a", "acme")
	entries := readJSON[web.Page[web.AuditEntry]](n, "token", "audit", "--actor", "acme", "--after", "-1h").Items
	if len(entries) != 1 || entries[0].Object != "rule/acme-a" || entries[0].TokenID != made.ID {
		t.Errorf("%+v", entries)
	}
	n.expect(0, []string{"token", "audit", "--before", "-1h"}, "no entries")
}

// TestTokenOfOpenNode checks that creating a token on an open node explains the consequence.
func TestTokenOfOpenNode(t *testing.T) {
	t.Parallel()
	n := newInProcessNode(t)
	n.expect(0, []string{"token", "list"}, "no tokens; create one")
	n.expect(0, []string{"token", "self"}, "loopback", "open: no token required", "read, events, oncall, rules, admin")
	n.expect(1, []string{"token", "create", "ci", "--scope", "events"}, "first token", "the scope admin and no prefix")
	n.expect(0, []string{"token", "create", "me", "--scope", "admin"}, "From now on the node requires a token", "DEADMAN_TOKEN")
	n.expect(1, []string{"token", "list"}, "DEADMAN_TOKEN")
}

func TestWelcomeText(t *testing.T) {
	var out bytes.Buffer
	p := inProcess(&out, nil)
	printFirstToken(p, "dm_secret", "http://h:8080/login?token=dm_secret")
	printWelcome(p, server.Endpoints{HTTP: "http://h:8080", NATS: "nats://u:p@h:4222"})
	for _, part := range []string{"token  dm_secret\n", "login  http://h:8080/login?token=dm_secret\n", "not shown again", "http://h:8080/docs/api", "nats://u:xxxxx@h:4222"} {
		if !strings.Contains(out.String(), part) {
			t.Errorf("it does not contain %q:\n%s", part, &out)
		}
	}
	if strings.Contains(out.String(), "open") {
		t.Errorf("the node is not open:\n%s", &out)
	}
	out.Reset()
	printWelcome(p, server.Endpoints{HTTP: "http://h", NATS: "nats://h:4222", NATSUsers: "data/nats-users", Open: true})
	if !strings.Contains(out.String(), "nats://h:4222, users in data/nats-users\n") {
		t.Errorf("it does not say how one logs in over NATS:\n%s", &out)
	}
	if !strings.Contains(out.String(), "The HTTP API requires no token: every client that reaches it has full access") {
		t.Errorf("the node is open:\n%s", &out)
	}
}
