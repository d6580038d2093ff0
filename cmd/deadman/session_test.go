package main

import (
	"net/http"
	"net/url"
	"strings"
	"testing"

	"deadman/web"
)

// logIn logs a browser in to a node, and returns its cookie.
func (n *inProcessNode) logIn(secret string) *http.Cookie {
	n.t.Helper()
	client := &http.Client{CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse }}
	answer, err := client.PostForm(n.at.HTTP+"/login", url.Values{"token": {secret}})
	if err != nil {
		n.t.Fatal(err)
	}
	defer answer.Body.Close()
	if answer.StatusCode != http.StatusSeeOther || len(answer.Cookies()) != 1 {
		n.t.Fatalf("the login comes to %d, %v", answer.StatusCode, answer.Header)
	}
	return answer.Cookies()[0]
}

// TestSessionVerbs checks that sessions are listed and ended from the command line.
func TestSessionVerbs(t *testing.T) {
	t.Parallel()
	n := newClosedNode(t)
	n.expect(0, []string{"session", "list"}, "no sessions")
	made := readJSON[web.NewToken](n, "token", "create", "ann", "--scope", "read")
	n.logIn(made.Secret)
	n.logIn(made.Secret)
	n.expect(0, []string{"session", "list"}, "ann", "in 11 h", "127.0.0.1", "Go-http-client")
	sessions := readJSON[web.Page[web.Session]](n, "session", "list").Items
	if len(sessions) != 2 || sessions[0].Token != "ann" || sessions[0].Current {
		t.Fatalf("%+v", sessions)
	}
	ann := &inProcessNode{t: t, env: append(n.env[:1:1], "DEADMAN_TOKEN="+made.Secret)}
	ann.expect(0, []string{"session", "revoke", sessions[0].ID}, "revoked: session "+sessions[0].ID)
	n.expect(1, []string{"session", "revoke", sessions[0].ID}, "session not found", "deadman session list")
	n.expect(0, []string{"session", "revoke", sessions[1].ID, "-o", "json"}, `"outcome": "revoked"`)
	n.expect(0, []string{"session", "list"}, "no sessions")
	n.expect(0, []string{"token", "audit", "--action", "session.*"}, "session.create", "session.revoke", "session/"+sessions[0].ID)
	n.expect(2, []string{"session", "revoke"}, "ID")
	if strings.Contains(n.run("", "session", "list").out, "ds_") {
		t.Error("a secret is listed")
	}
}
