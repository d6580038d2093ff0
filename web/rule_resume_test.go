package web_test

import (
	"encoding/json"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"deadman/internal/access"
	"deadman/web"
)

// TestPausedRulesAreResumedTogether checks that one request resumes the paused rules of a prefix, by the reason of the
// pause, that a token with a prefix reaches its own rules only, and that each rule is in the audit log.
func TestPausedRulesAreResumedTogether(t *testing.T) {
	s := newFixture(t, closedNode)
	for _, name := range []string{"acme-1", "acme-2", "acme-3", "acme-4", "zenith-1"} {
		s.saveRule(strings.Replace(unshippedRule, "order-unshipped", name, 1))
	}
	for _, name := range []string{"acme-1", "acme-3"} {
		failOn(t, s.store.Pause(t.Context(), name, true))
	}
	for _, name := range []string{"acme-2", "acme-3", "zenith-1"} {
		failOn(t, s.store.Halt(t.Context(), name, 1, "it costs too much"))
	}
	admin, acme, reader := s.newToken("admin", "", access.Admin), s.newToken("acme", "acme-*", access.Rules), s.newToken("reader", "", access.OnCall)
	for _, c := range []struct {
		name, query string
		as          []string
		status      int
		want        []string
	}{
		{"no selection", "", admin, 400, nil},
		{"two selections", "all=true&prefix=acme-", admin, 400, nil},
		{"no reason", "reason=none", admin, 400, nil},
		{"a token that may not change rules", "all=true", reader, 403, nil},
		{"another tenant", "prefix=zenith-", acme, 200, []string{}},
		{"after the last one", "prefix=acme-&after=acme-3", admin, 200, []string{}},
		{"paused for their cost", "prefix=acme-*&reason=cost", admin, 200, []string{"acme-2", "acme-3"}},
		{"paused by users", "reason=manual", acme, 200, []string{"acme-1"}},
		{"all", "all=true", acme, 200, []string{}},
		{"all of the operator", "all=true", admin, 200, []string{"zenith-1"}},
	} {
		a := requestPath(t, s.Server, "POST", "/api/v1/rules/resume?"+c.query, "", c.as...)
		var done web.Resumed
		failOn(t, json.Unmarshal([]byte(a.body), &done))
		if diff := cmp.Diff(c.want, done.Rules); a.StatusCode != c.status || diff != "" || done.Resumed != len(c.want) {
			t.Errorf("%s: %d %s (-want +got):\n%s", c.name, a.StatusCode, a.body, diff)
		}
	}
	entries, _, err := s.store.Audit(t.Context(), access.AuditFilter{Action: "rule.resume"})
	failOn(t, err)
	got := make(map[string]string)
	for _, e := range entries {
		got[e.Object] = e.Actor.Name
	}
	if diff := cmp.Diff(map[string]string{"rule/acme-1": "acme", "rule/acme-2": "admin", "rule/acme-3": "admin", "rule/zenith-1": "admin"}, got); diff != "" {
		t.Errorf("audit (-want +got):\n%s", diff)
	}
}
