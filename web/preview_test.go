package web_test

import (
	"context"
	"encoding/json"
	"fmt"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"deadman/checks"
	"deadman/checks/lookup"
	"deadman/internal/access"
	"deadman/rules"
	"deadman/web"
)

// orders is the client of a source that finds every order unshipped, and counts its batches and verified queries.
type orders struct{ asked, verified atomic.Int64 }

func (o *orders) Reach(context.Context) error { return nil }
func (o *orders) Close()                      {}

func (o *orders) Query(_ context.Context, _ lookup.Question, queries []lookup.KeyQuery) ([]checks.Finding, error) {
	o.asked.Add(1)
	found := make([]checks.Finding, len(queries))
	for i := range found {
		found[i].Value = json.RawMessage(`{"status":"UNSHIPPED"}`)
	}
	return found, nil
}

func (o *orders) Verify(context.Context, lookup.Question, int) ([]lookup.Column, error) {
	o.verified.Add(1)
	return nil, nil
}

// known is the sources that rules may use.
type known struct{ *lookup.Set }

func (k known) Source(name string) (rules.Source, bool) {
	source, ok := k.Get(name)
	return source, ok
}

// looking is a rule with two checks.
const looking = `{"name": "looking", "entity": "order", "trigger": {"event": "orders.created", "key": "event.id"},
	"lookup": {"sql": {"source": "shop", "query": "select status from orders where id = $1"}}, "while": "state != nil and state.status == \"UNSHIPPED\"",
	"escalate": [{"after": "3h"}, {"after": "8h"}], "hold": "0"}`

// shopped makes a stand with rules that may query the source shop.
func shopped(t *testing.T) (*stand, *orders) {
	client := &orders{}
	return newStand(t, closed, func(_ *web.Options, s *stand) {
		s.rules.Sources = known{lookup.NewSet(lookup.NewSource(lookup.Options{
			Name: "shop", Kind: "postgres", Client: client, Now: time.Now, Observer: web.NewMetrics("v", nil), Log: quiet,
		}))}
	}), client
}

// TestLintOfALookup checks that a lint has a source verify a query only for tokens that may write rules.
func TestLintOfALookup(t *testing.T) {
	s, client := shopped(t)
	for i, c := range []struct {
		scope  access.Scope
		prefix string
		want   int64
	}{{access.Read, "", 0}, {access.OnCall, "", 0}, {access.Read, "look*", 0}, {access.Rules, "", 1}, {access.Rules, "look*", 1}, {access.Admin, "", 1}} {
		before := client.verified.Load()
		wish := access.TokenRequest{Name: fmt.Sprintf("t%d", i), Prefix: c.prefix, Scopes: []access.Scope{c.scope}}
		if c.prefix != "" {
			wish.Bounds = access.Bounds{Subjects: []string{"orders.>"}, Sources: []string{"shop"}}
		}
		_, secret, err := s.keeper.Create(t.Context(), wish)
		fatal(t, err)
		header := []string{"Authorization", "Bearer " + secret, "Content-Type", "application/json"}
		if a := do(t, s.Server, "POST", "/api/v1/rules/lint", looking, header...); a.StatusCode != 200 || !strings.Contains(a.body, `"valid":true`) {
			t.Errorf("%s: %d %s", c.scope, a.StatusCode, a.body)
		}
		if verified := client.verified.Load() - before; verified != c.want {
			t.Errorf("%s: the source verifies %d questions, want %d", c.scope, verified, c.want)
		}
	}
	if client.asked.Load() != 0 {
		t.Errorf("the source is asked %d times", client.asked.Load())
	}
}

// TestPreviewOfALookup checks that a lookup's result is given, or its source is queried once, for tokens that may change
// rules.
func TestPreviewOfALookup(t *testing.T) {
	s, client := shopped(t)
	reader, writer := s.token("reader", "", access.Read), s.token("writer", "", access.Rules)
	if a := do(t, s.Server, "PUT", "/api/v1/rules/looking", looking, append(writer, "Content-Type", "application/json")...); a.StatusCode != 201 {
		t.Fatal(a.body)
	}
	for _, c := range []struct {
		name, found string // found as a field; empty: absent
		as          []string
		outcome     string // of the preview; empty if it is refused
		lookup      string
		asked       int64
	}{
		{"a reader does not have it asked", "", reader, "", "it is asked for those only who may change rules", 0},
		{"a reader says what it finds", `, "lookup_result": {"status": "UNSHIPPED"}`, reader, "exhausted", `{"source":"shop","queried":false,"result":{"status":"UNSHIPPED"}}`, 0},
		{"a reader says that the entity does not exist", `, "lookup_result": null`, reader, "cleared", `{"source":"shop","queried":false,"result":null}`, 0},
		{"shipped", `, "lookup_result": {"status": "SHIPPED"}`, writer, "cleared", `{"source":"shop","queried":false,"result":{"status":"SHIPPED"}}`, 0},
		{"it is asked, once for all looks", "", writer, "exhausted", `{"source":"shop","queried":true,"result":{"status":"UNSHIPPED"}}`, 1},
		{"no object", `, "lookup_result": [1]`, writer, "", "write an object, or null", 0},
	} {
		for path, rule := range map[string]string{"looking/preview": "", "preview": `"rule": ` + looking + ", "} {
			t.Run(c.name+", "+path, func(t *testing.T) {
				before := client.asked.Load()
				a := do(t, s.Server, "POST", "/api/v1/rules/"+path, fmt.Sprintf(`{%s"event": {"data": {"id": "1"}}%s}`, rule, c.found), append(c.as, "Content-Type", "application/json")...)
				if asked := client.asked.Load() - before; asked != c.asked {
					t.Errorf("the source is asked %d times", asked)
				}
				if c.outcome == "" {
					isProblem(t, a, 422, web.Invalid, c.lookup)
					return
				}
				var p rules.Preview
				fatal(t, json.Unmarshal([]byte(a.body), &p))
				if p.Outcome != c.outcome || !strings.Contains(a.body, `"lookup":`+c.lookup) {
					t.Errorf("%.1000s", a.body)
				}
			})
		}
	}
}

// TestPreviewWithoutAnEvent checks that a preview without an event works for a schedule, and is refused for a trigger by
// events.
func TestPreviewWithoutAnEvent(t *testing.T) {
	s := newStand(t)
	const path = "/api/v1/rules/preview"
	a := do(t, s.Server, "POST", path, `{"rule": "name: import-missing\nentity: import\ntrigger: {schedule: '30 1 * * *'}\nescalate: [{after: 1h, step: late}]"}`)
	var p rules.Preview
	if err := json.Unmarshal([]byte(a.body), &p); a.StatusCode != 200 || err != nil || len(p.Ticks) != 5 || p.Outcome != "exhausted" {
		t.Errorf("of a schedule: %d %s", a.StatusCode, a.body)
	}
	a = do(t, s.Server, "POST", path, `{"rule": "name: x\nentity: order\ntrigger: {event: orders.created, key: event.id}\nescalate: [{after: 1h, step: late}]"}`)
	isProblem(t, a, 422, web.Invalid, "send the event that triggers a job")
}
