package web_test

import (
	"cmp"
	"context"
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"deadman/alerts"
	"deadman/checks"
	"deadman/checks/lookup"
	"deadman/internal/access"
	"deadman/internal/notify"
	"deadman/rules"
	"deadman/web"
)

// unshippedOrders is the client of a source that finds every order unshipped, and counts its batches and verified queries.
type unshippedOrders struct{ requests, verified atomic.Int64 }

func (o *unshippedOrders) Reach(context.Context) error { return nil }
func (o *unshippedOrders) Close()                      {}

func (o *unshippedOrders) Query(_ context.Context, _ lookup.Question, queries []lookup.KeyQuery) ([]checks.Finding, error) {
	o.requests.Add(1)
	found := make([]checks.Finding, len(queries))
	for i := range found {
		found[i].Value = json.RawMessage(`{"status":"UNSHIPPED"}`)
	}
	return found, nil
}

func (o *unshippedOrders) Verify(context.Context, lookup.Question, int) ([]lookup.Column, error) {
	o.verified.Add(1)
	return nil, nil
}

// sourceSet is the sources that rules may use.
type sourceSet struct{ *lookup.Set }

func (k sourceSet) Source(name string) (rules.Source, bool) {
	source, ok := k.Get(name)
	return source, ok
}

// lookupRule is a rule with two checks.
const lookupRule = `{"name": "shop-order", "entity": "order", "trigger": {"event": "orders.created", "key": "event.id"},
	"lookup": {"sql": {"source": "shop", "query": "select status from orders where id = $1"}}, "while": "state != nil and state.status == \"UNSHIPPED\"",
	"escalate": [{"after": "3h"}, {"after": "8h"}], "hold": "0"}`

// newShopFixture makes a fixture with rules that may query the source shop.
func newShopFixture(t *testing.T) (*fixture, *unshippedOrders) {
	client := &unshippedOrders{}
	return newFixture(t, closedNode, func(_ *web.Options, s *fixture) {
		s.rules.Sources = sourceSet{lookup.NewSet(lookup.NewSource(lookup.Options{
			Name: "shop", Kind: "postgres", Client: client, Now: time.Now, Observer: emptyMetrics(), Log: discardLog,
		}))}
	}), client
}

// TestLintOfLookup checks that a lint has a source verify a query only for tokens that may write rules.
func TestLintOfLookup(t *testing.T) {
	s, client := newShopFixture(t)
	for i, c := range []struct {
		scope  access.Scope
		prefix string
		want   int64
	}{{access.Read, "", 0}, {access.OnCall, "", 0}, {access.Read, "shop*", 0}, {access.Rules, "", 1}, {access.Rules, "shop*", 1}, {access.Admin, "", 1}} {
		before := client.verified.Load()
		request := access.TokenRequest{Name: fmt.Sprintf("t%d", i), Prefix: c.prefix, Scopes: []access.Scope{c.scope}}
		if c.prefix != "" {
			request.Bounds = access.Bounds{Subjects: []string{"orders.>"}, Sources: []string{"shop"}}
		}
		_, secret, err := s.keeper.Create(t.Context(), request)
		failOn(t, err)
		header := []string{"Authorization", "Bearer " + secret, "Content-Type", "application/json"}
		if a := requestPath(t, s.Server, "POST", "/api/v1/rules/lint", lookupRule, header...); a.StatusCode != 200 || !strings.Contains(a.body, `"valid":true`) {
			t.Errorf("%s: %d %s", c.scope, a.StatusCode, a.body)
		}
		if verified := client.verified.Load() - before; verified != c.want {
			t.Errorf("%s: the source verifies %d queries, want %d", c.scope, verified, c.want)
		}
	}
	if client.requests.Load() != 0 {
		t.Errorf("the source is queried %d times", client.requests.Load())
	}
}

// TestPreviewOfLookup checks that a lookup's result is given, or its source is queried once, for tokens that may change
// rules.
func TestPreviewOfLookup(t *testing.T) {
	s, client := newShopFixture(t)
	reader, writer := s.newToken("reader", "", access.Read), s.newToken("writer", "", access.Rules)
	if a := requestPath(t, s.Server, "PUT", "/api/v1/rules/shop-order", lookupRule, append(writer, "Content-Type", "application/json")...); a.StatusCode != 201 {
		t.Fatal(a.body)
	}
	for _, c := range []struct {
		name, found string // found as a field; empty: absent
		as          []string
		outcome     string // of the preview; empty if it is refused
		lookup      string
		requests    int64
	}{
		{"a reader cannot query it", "", reader, "", "only a token that may write rules queries the source", 0},
		{"a reader says what it finds", `, "lookup_result": {"status": "UNSHIPPED"}`, reader, "exhausted", `{"source":"shop","queried":false,"result":{"status":"UNSHIPPED"}}`, 0},
		{"a reader says that the entity does not exist", `, "lookup_result": null`, reader, "cleared", `{"source":"shop","queried":false,"result":null}`, 0},
		{"shipped", `, "lookup_result": {"status": "SHIPPED"}`, writer, "cleared", `{"source":"shop","queried":false,"result":{"status":"SHIPPED"}}`, 0},
		{"it is queried once for all checks", "", writer, "exhausted", `{"source":"shop","queried":true,"result":{"status":"UNSHIPPED"}}`, 1},
		{"no object", `, "lookup_result": [1]`, writer, "", "write an object, or null", 0},
	} {
		for path, rule := range map[string]string{"shop-order/preview": "", "preview": `"rule": ` + lookupRule + ", "} {
			t.Run(c.name+", "+path, func(t *testing.T) {
				before := client.requests.Load()
				a := requestPath(t, s.Server, "POST", "/api/v1/rules/"+path, fmt.Sprintf(`{%s"event": {"data": {"id": "1"}}%s}`, rule, c.found), append(c.as, "Content-Type", "application/json")...)
				if requests := client.requests.Load() - before; requests != c.requests {
					t.Errorf("the source is queried %d times", requests)
				}
				if c.outcome == "" {
					checkProblem(t, a, 422, web.Invalid, c.lookup)
					return
				}
				var p rules.Preview
				failOn(t, json.Unmarshal([]byte(a.body), &p))
				if p.Outcome != c.outcome || !strings.Contains(a.body, `"lookup":`+c.lookup) {
					t.Errorf("%.1000s", a.body)
				}
			})
		}
	}
}

// TestPreviewWithoutEvent checks that a preview without an event works for a schedule, and is refused for a trigger by
// events.
func TestPreviewWithoutEvent(t *testing.T) {
	s := newFixture(t)
	const path = "/api/v1/rules/preview"
	a := requestPath(t, s.Server, "POST", path, `{"rule": "name: import-missing\nentity: import\ntrigger: {schedule: '30 1 * * *'}\nescalate: [{after: 1h, step: late}]"}`)
	var p rules.Preview
	if err := json.Unmarshal([]byte(a.body), &p); a.StatusCode != 200 || err != nil || len(p.Ticks) != 5 || p.Outcome != "exhausted" {
		t.Errorf("of a schedule: %d %s", a.StatusCode, a.body)
	}
	a = requestPath(t, s.Server, "POST", path, `{"rule": "name: x\nentity: order\ntrigger: {event: orders.created, key: event.id}\nescalate: [{after: 1h, step: late}]"}`)
	checkProblem(t, a, 422, web.Invalid, "send the event that triggers a job")
}

// channelRule has two steps of different severities, and a resolve.
const channelRule = `{"name": "shop-paid", "entity": "order", "labels": {"team": "{{event.team}}"}, "trigger": {"event": "orders.paid", "key": "event.id"},
	"resolve": {"event": "orders.shipped", "key": "event.id"}, "escalate": [{"after": "1h", "severity": "info", "step": "note"},
	{"after": "3h", "step": "primary"}, {"after": "8h", "severity": "critical", "step": "lead"}]}`

// TestPreviewNamesChannels checks that each alert of a preview has the channels of the node's routes, for the rules that
// the visitor may read, and that a resolved alert has those of the alerts before it.
func TestPreviewNamesChannels(t *testing.T) {
	file := filepath.Join(t.TempDir(), "notify.yaml")
	failOn(t, os.WriteFile(file, []byte(`channels: {chat: {kind: webhook, url: "http://127.0.0.1:9/"}, phone: {kind: webhook, url: "http://127.0.0.1:9/"}, mail: {kind: webhook, url: "http://127.0.0.1:9/"}}
routes:
  - {severity: critical, entity: order, labels: {team: "*t"}, to: [phone, chat]}
  - {severity: warning, rule: shop-*, labels: {team: night}, to: chat}
  - {severity: warning, to: mail}
`), 0o600))
	config, err := notify.Load(file)
	failOn(t, err)
	s := newFixture(t, closedNode, func(o *web.Options, s *fixture) {
		o.Channels, err = notify.New(notify.Options{Config: config, Store: s.store, Client: notify.NewClient(), Holds: func() bool { return true }, Now: time.Now, Log: discardLog})
		failOn(t, err)
	})
	all, shop, other := s.newToken("all", "", access.Rules), s.newToken("shop", "shop", access.Read), s.newToken("other", "other", access.Read)
	if a := requestPath(t, s.Server, "PUT", "/api/v1/rules/shop-paid", channelRule, append(all, "Content-Type", "application/json")...); a.StatusCode != 201 {
		t.Fatal(a.body)
	}
	const events = `"event": {"at": "2026-01-31T10:00:00Z", "data": {"id": "42", "team": "night"}}`
	const shipped = `, "later_events": [{"subject": "orders.shipped", "at": "2026-01-31T20:00:00Z", "data": {"id": "42"}}]`
	for _, c := range []struct {
		name, path, body string
		as               []string
		want             string // channels by line
	}{
		{"saved", "shop-paid/preview", events + shipped, all, "starts, note [], primary [chat], lead [phone chat], resolved [chat phone], ends"},
		{"unsaved", "preview", `"rule": ` + channelRule + `, ` + events + shipped, shop, "starts, note [], primary [chat], lead [phone chat], resolved [chat phone], ends"},
		{"by a label", "shop-paid/preview", strings.ReplaceAll(events, `night`, `day`), shop, "starts, note [], primary [mail], lead [], ends"},
		{"resolved before any channel", "shop-paid/preview", events + strings.ReplaceAll(shipped, "T20", "T12"), shop, "starts, note [], resolved [], ends"},
		{"a rule of another prefix", "preview", `"rule": ` + channelRule + `, ` + events + shipped, other, "starts, note, primary, lead, resolved, ends"},
	} {
		t.Run(c.name, func(t *testing.T) {
			a := requestPath(t, s.Server, "POST", "/api/v1/rules/"+c.path, "{"+c.body+"}", append(c.as, "Content-Type", "application/json")...)
			var p rules.Preview
			failOn(t, json.Unmarshal([]byte(a.body), &p))
			if got := channelLines(p); got != c.want {
				t.Errorf("got %s, want %s", got, c.want)
			}
		})
	}
	silent := newFixture(t)
	a := requestPath(t, silent.Server, "POST", "/api/v1/rules/preview", `{"rule": `+channelRule+`, `+events+`}`)
	if a.StatusCode != 200 || !strings.Contains(a.body, `"primary"`) || strings.Contains(a.body, "channels") {
		t.Errorf("a node without channels: %s", a.body)
	}
}

// channelLines returns the lines of a preview by their step or kind, or resolved, with the channels.
func channelLines(p rules.Preview) string {
	var lines []string
	for _, l := range p.Lines {
		line := cmp.Or(l.Step, string(l.Kind))
		if l.Status == alerts.Resolved {
			line = string(l.Status)
		}
		if l.Channels != nil {
			line += fmt.Sprintf(" %v", l.Channels)
		}
		lines = append(lines, line)
	}
	return strings.Join(lines, ", ")
}

// TestPreviewOfChangedText checks that @every in the text of a saved rule counts from the first save, as it does once the text is
// saved.
func TestPreviewOfChangedText(t *testing.T) {
	s := newFixture(t)
	text := "name: import-missing\nentity: import\ntrigger: {schedule: '@every 7h'}\nescalate: [{after: 1h, step: late}]\n"
	ticks := func(q rules.PreviewRequest) string {
		t.Helper()
		q.Events = []rules.PreviewEvent{{At: s.now.Add(100*time.Hour + 17*time.Minute)}}
		p, err := s.rules.Preview(t.Context(), q)
		failOn(t, err)
		if len(p.Ticks) == 0 {
			t.Fatalf("no ticks: %+v", p)
		}
		list, err := json.Marshal(p.Ticks)
		failOn(t, err)
		return string(list)
	}
	unsaved := ticks(rules.PreviewRequest{Text: []byte(text)})
	for _, version := range []string{"", "description: changed\n"} {
		if a := requestPath(t, s.Server, "PUT", "/api/v1/rules/import-missing", text+version); a.StatusCode >= 300 {
			t.Fatalf("%d %s", a.StatusCode, a.body)
		}
	}
	saved := ticks(rules.PreviewRequest{Name: "import-missing"})
	if got := ticks(rules.PreviewRequest{Text: []byte(text)}); got != saved || saved == unsaved {
		t.Errorf("the text of the saved rule: %s, want %s; unsaved: %s", got, saved, unsaved)
	}
	if a := requestPath(t, s.Server, "DELETE", "/api/v1/rules/import-missing", ""); a.StatusCode != 204 {
		t.Fatalf("%d %s", a.StatusCode, a.body)
	}
	if got := ticks(rules.PreviewRequest{Text: []byte(text)}); got != unsaved {
		t.Errorf("the text of a deleted rule: %s, want %s", got, unsaved)
	}
}
