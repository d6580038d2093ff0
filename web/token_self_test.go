package web_test

import (
	"encoding/json"
	"testing"

	"github.com/google/go-cmp/cmp"

	"deadman/internal/access"
	"deadman/web"
)

// TestOwnToken checks that a caller gets its permissions, with those that its scopes imply.
func TestOwnToken(t *testing.T) {
	s := newFixture(t, closedNode)
	for _, c := range []struct {
		name, prefix string
		scope        access.Scope
		want         []string
		bounds       web.Bounds
	}{
		{"reader", "", access.Read, []string{"read"}, web.Bounds{}},
		{"answers", "acme-", access.OnCall, []string{"read", "oncall"}, web.Bounds{
			Subjects: []string{"orders.>"}, Publish: []string{}, Sources: []string{}, Handlers: []string{},
		}},
		{"all", "", access.Admin, []string{"read", "events", "oncall", "rules", "admin"}, web.Bounds{}},
	} {
		a := requestPath(t, s.Server, "GET", "/api/v1/tokens/self", "", s.newToken(c.name, c.prefix, c.scope)...)
		var got web.TokenSelf
		failOn(t, json.Unmarshal([]byte(a.body), &got))
		if diff := cmp.Diff(web.TokenSelf{Name: c.name, Scopes: c.want, Prefix: c.prefix, Bounds: c.bounds}, got); diff != "" {
			t.Errorf("(-want +got):\n%s", diff)
		}
	}
	if got := get[web.TokenSelf](t, newFixture(t).Server, "/api/v1/tokens/self"); !got.Open || got.Name != access.Loopback || len(got.Scopes) != len(access.Scopes) {
		t.Errorf("an open node answers %+v", got)
	}
}
