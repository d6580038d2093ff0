package web_test

import (
	"net/netip"
	"testing"

	"github.com/google/go-cmp/cmp"

	"deadman/internal/access"
	"deadman/web"
)

// TestAuditHasClientBehindProxy checks that the audit log has the visitor's address for a form, although the page
// calls the API within the process.
func TestAuditHasClientBehindProxy(t *testing.T) {
	for _, c := range []struct {
		trusted []netip.Prefix
		want    string
	}{{nil, "127.0.0.1"}, {[]netip.Prefix{netip.MustParsePrefix("127.0.0.0/8")}, "203.0.113.7"}} {
		s := newFixture(t, closedNode, func(o *web.Options, _ *fixture) { o.TrustedProxies = c.trusted })
		ops := append(s.newToken("ops", "", access.Admin), "X-Forwarded-For", "198.51.100.1, 203.0.113.7")
		if a := requestPath(t, s.Server, "POST", "/api/v1/rules/order-unshipped/pause", "", ops...); a.StatusCode >= 300 {
			t.Fatalf("%d %s", a.StatusCode, a.body)
		}
		form := append([]string{"Content-Type", "application/x-www-form-urlencoded"}, ops...)
		if a := requestPath(t, s.Server, "POST", "/rules/order-unshipped", "do=resume", form...); a.StatusCode >= 400 {
			t.Fatalf("%d %s", a.StatusCode, a.body)
		}
		for _, action := range []string{"rule.pause", "rule.resume"} {
			want := []web.AuditEntry{{Actor: "ops", Addr: c.want, Action: action, Object: "rule/order-unshipped"}}
			if diff := cmp.Diff(want, auditOf(t, s, action, ops)); diff != "" {
				t.Errorf("audited (-want +got):\n%s", diff)
			}
		}
	}
}
