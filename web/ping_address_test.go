package web_test

import (
	"fmt"
	"net/http"
	"strings"
	"testing"

	"deadman/internal/access"
	"deadman/web"
)

func TestPingAddresses(t *testing.T) {
	p := newPingFixture(t, func(o *web.Options, _ *fixture) { o.PublicURL = "https://deadman.example.org/" })
	const path, given = "/api/v1/rules/backup/pings", "5bf66975-d4c7-4bf5-bcc8-b8d8a82ea278"
	for _, c := range []struct {
		method, path, body string
		status             int
		wantText           string
	}{
		{"POST", path, `{"key": "a", "id": "` + strings.ToUpper(given) + `"}`, 201, `"url":"https://deadman.example.org/ping/` + given + `"`},
		{"POST", path, `{"key": "a", "id": "` + given + `"}`, 200, given},
		{"POST", path, `{"key": "a"}`, 200, given},
		{"POST", path, `{"key": "b", "id": "` + given + `"}`, 409, "belongs to another key"},
		{"POST", path, `{"key": "a", "id": "6bf66975-d4c7-4bf5-bcc8-b8d8a82ea278"}`, 409, "rotate"},
		{"POST", path, `{"key": "a", "id": "6bf66975-d4c7-4bf5-bcc8-b8d8a82ea278", "rotate": true}`, 201, "6bf66975"},
		{"POST", path, `{"key": "c", "id": "fqOOd6-F4MMNuCEnzTU01w"}`, 422, "is not a UUID"},
		{"POST", path, `{"id": "fqOOd6-F4MMNuCEnzTU01w"}`, 201, "/ping/fqOOd6-F4MMNuCEnzTU01w"},
		{"GET", path + "?limit=1", "", 200, `"next":""`},
		{"GET", path, "", 200, `"key":"a"`},
		{"DELETE", path + "?key=a", "", 204, ""},
		{"DELETE", path + "?key=a", "", 404, "not found"},
		{"DELETE", path, "", 204, ""},
		{"GET", path, "", 200, `"items":[]`},
		{"GET", "/api/v1/rules/order-unshipped/pings", "", 409, "no heartbeat"},
		{"GET", "/api/v1/rules/absent/pings", "", 404, "not found"},
		{"GET", path + "/log?cursor=x", "", 400, "cursor"},
	} {
		a := requestPath(t, p.Server, c.method, c.path, c.body)
		if a.StatusCode != c.status || (c.wantText != `"next":""` && !strings.Contains(a.body, c.wantText)) {
			t.Errorf("%s %s %s: %d %s", c.method, c.path, c.body, a.StatusCode, a.body)
		}
	}
}

// TestTenantCannotUsePingKeysOfOthers checks that a ping key of a rule that a token may not change is refused like a
// taken one: it would make that rule's pings ambiguous.
func TestTenantCannotUsePingKeysOfOthers(t *testing.T) {
	p := newPingFixture(t, closedNode)
	acme := strings.Replace(backupRule, "name: backup", "name: acme-beat", 1)
	p.saveRule(acme)
	ours, all := p.newToken("acme", "acme-*", access.Rules), p.newToken("all", "", access.Admin)
	const key = `{"id": "fqOOd6-F4MMNuCEnzTU01w"}`
	decodeChange(t, requestPath(t, p.Server, "POST", "/api/v1/rules/backup/pings", key, all...), 201)
	for _, body := range []string{key, strings.Replace(key, "}", `, "rotate": true}`, 1)} {
		checkProblem(t, requestPath(t, p.Server, "POST", "/api/v1/rules/acme-beat/pings", body, ours...), 409, web.Conflict, "the ID belongs to another key")
	}
	decodeChange(t, requestPath(t, p.Server, "POST", "/api/v1/rules/acme-beat/pings", key, all...), 201) // a token that may change both
}

// TestPingPages checks that lists of addresses and of the log are paginated.
func TestPingPages(t *testing.T) {
	p := newPingFixture(t)
	own := map[string]string{}
	for _, key := range []string{"", "a", "b"} {
		own[key] = p.createAddress(key)
	}
	var keys, texts []string
	for next := ""; ; {
		page := get[web.Page[web.PingAddress]](t, p.Server, "/api/v1/rules/backup/pings?limit=1&cursor="+next)
		for _, a := range page.Items {
			keys = append(keys, "<"+a.Key+">")
		}
		if next = page.Next; next == "" {
			break
		}
	}
	for i, action := range []string{"/start", "", "/log"} {
		if a := requestPath(t, p.Server, "POST", own["a"]+action, fmt.Sprint(i)); a.StatusCode != http.StatusOK {
			t.Fatal(a.body)
		}
	}
	p.writer.Write(t.Context())
	for next := ""; ; {
		page := get[web.Page[web.PingEntry]](t, p.Server, "/api/v1/rules/backup/pings/log?limit=2&cursor="+next)
		for _, e := range page.Items {
			texts = append(texts, e.Kind+e.Body)
		}
		if next = page.Next; next == "" {
			break
		}
	}
	if fmt.Sprint(keys, texts) != "[<> <a> <b>] [log2 success1 start0]" {
		t.Errorf("%v %v", keys, texts)
	}
}
