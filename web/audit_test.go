package web_test

import (
	"encoding/json"
	"testing"

	"github.com/google/go-cmp/cmp"

	"deadman/internal/access"
	"deadman/web"
)

// auditOf returns the audit entries of an action, newest first, without ids and times.
func auditOf(t *testing.T, s *fixture, action string, header []string) []web.AuditEntry {
	t.Helper()
	var page web.Page[web.AuditEntry]
	if a := requestPath(t, s.Server, "GET", "/api/v1/audit?action="+action, "", header...); a.StatusCode != 200 {
		t.Fatalf("%d %s", a.StatusCode, a.body)
	} else if err := json.Unmarshal([]byte(a.body), &page); err != nil {
		t.Fatal(err)
	}
	entries := page.Items
	for i, e := range entries {
		if e.At.IsZero() || e.TokenID == "" {
			t.Errorf("%+v", e)
		}
		entries[i] = web.AuditEntry{Actor: e.Actor, Addr: e.Addr, Action: e.Action, Object: e.Object, Detail: e.Detail}
	}
	return entries
}

func TestChannelTestsAreAudited(t *testing.T) {
	for status, detail := range map[int]string{200: "taken", 500: "it answers 500 Internal Server Error"} {
		s := withChannel(t, status, closedNode)
		ops := s.newToken("ops", "", access.Admin)
		if a := requestPath(t, s.Server, "POST", "/api/v1/channels/hook/test", "", ops...); a.StatusCode != 200 {
			t.Fatalf("%d %s", a.StatusCode, a.body)
		}
		checkProblem(t, requestPath(t, s.Server, "POST", "/api/v1/channels/absent/test", "", ops...), 404, web.NotFound, "channel list")
		want := []web.AuditEntry{{Actor: "ops", Addr: "127.0.0.1", Action: "channel.test", Object: "channel/hook", Detail: detail}}
		if diff := cmp.Diff(want, auditOf(t, s, "channel.test", ops)); diff != "" {
			t.Errorf("audited (-want +got):\n%s", diff)
		}
	}
}

func TestSourceTestsAreAudited(t *testing.T) {
	s, _, client := withSources(t, closedNode)
	ops := s.newToken("ops", "", access.Admin)
	for _, shut := range []bool{false, true} {
		client.closed.Store(shut)
		if a := requestPath(t, s.Server, "POST", "/api/v1/sources/shop/test", "", ops...); a.StatusCode != 200 {
			t.Fatalf("%d %s", a.StatusCode, a.body)
		}
	}
	got := auditOf(t, s, "source.test", ops)
	if len(got) != 2 || got[1] != (web.AuditEntry{Actor: "ops", Addr: "127.0.0.1", Action: "source.test", Object: "source/shop", Detail: "reached"}) ||
		got[0].Detail == "reached" || got[0].Object != "source/shop" {
		t.Errorf("%+v", got)
	}
}
