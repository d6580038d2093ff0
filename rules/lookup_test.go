package rules_test

import (
	"encoding/json"
	"errors"
	"strings"
	"testing"

	"deadman/checks"
	"deadman/checks/lookup"
	"deadman/rules"
)

const lookupRule = `
name: order-unshipped
entity: order
trigger: {event: orders.created, key: event.id}
lookup: {sql: {source: shop, query: "select status, total, carrier from orders where id = $1"}}
while: %WHILE%
escalate:
  - {after: 3h, step: primary, text: "{{state.status}} by {{state.carrier}} for {{state.id}}"}
  - {after: 8h, step: escalated}
recheck: date(state.eta) + minutes(10)
labels: {status: "{{state.status}}"}
slot: 15m
`

// TestLookupResultsMergeOverState checks the first step of a job of an order, with data that a source found.
func TestLookupResultsMergeOverState(t *testing.T) {
	const event = `{"id": "1042", "status": "NEW", "carrier": "dhl", "total": 12.50, "address": {"city": "Ulm", "floor": 3}}`
	const open = `state.status == "UNSHIPPED"`
	for _, c := range []struct {
		name       string
		while      string
		skipSource bool
		state      string // the state after updates; empty: no updates
		found      string // empty: the entity does not exist
		wantText   string // the text of the alert; empty: the job ends
		carries    string // the state of the alert
		err        string
	}{
		{
			name: "found wins, and what it does not have stays", while: open, found: `{"status": "UNSHIPPED", "address": {"floor": 4}}`,
			wantText: "UNSHIPPED by dhl for 1042",
			carries:  `{"address":{"city":"Ulm","floor":4},"carrier":"dhl","id":"1042","status":"UNSHIPPED","total":12.50}`,
		},
		{name: "null takes away", while: open, found: `{"status": "UNSHIPPED", "carrier": null}`, wantText: "UNSHIPPED by {{state.carrier: missing}} for 1042"},
		{name: "what null takes away is gone", while: `not ("carrier" in state) and "total" in state`, found: `{"carrier": null}`, wantText: "NEW by {{state.carrier: missing}} for 1042"},
		{name: "over updates", while: open, state: `{"id": "7", "status": "PAID"}`, found: `{"status": "UNSHIPPED"}`, wantText: "UNSHIPPED by {{state.carrier: missing}} for 7"},
		{name: "what was there is over", while: open, found: `{"status": "SHIPPED"}`},
		{name: "source not queried", while: `state.status == "NEW"`, skipSource: true, wantText: "NEW by dhl for 1042"},
		{name: "absent", while: "state == nil", wantText: "{{state.status: missing}} by {{state.carrier: missing}} for {{state.id: missing}}", carries: "null"},
		{name: "there after all", while: "state == nil", found: `{"status": "SHIPPED"}`},
		{name: "absent ends", while: "state != nil"},
		{name: "absent or open", while: "state == nil or " + open, wantText: "{{state.status: missing}} by {{state.carrier: missing}} for {{state.id: missing}}"},
		{name: "absent counts as", while: `(state.status ?? "UNSHIPPED") == "UNSHIPPED"`, wantText: "{{state.status: missing}} by {{state.carrier: missing}} for {{state.id: missing}}"},
		{name: "a field of what is absent", while: open, err: "a value is missing or null"},
		{name: "a field of an object of what is absent", while: `state.address.city == "Ulm"`, err: "a value is missing or null"},
		{name: "the event stays as it was", while: `event.status == "NEW" and ` + open, found: `{"status": "UNSHIPPED"}`, wantText: "UNSHIPPED by dhl for 1042"},
		{name: "the wrong type", while: open, found: `{"status": 3}`, err: "a number and text are never equal"},
		{name: "a number where text was counts", while: "state.total > 40", found: `{"total": 41}`, wantText: "NEW by dhl for 1042"},
		{name: "no object", while: open, found: `[{"status": "UNSHIPPED"}]`, err: "the result of the source is not an object"},
		{name: "no JSON", while: open, found: `{"status": `, err: "the result of the source is invalid"},
		{name: "no object, and not read", while: `event.status == "NEW"`, found: `"UNSHIPPED"`, err: "the result of the source is not an object"},
	} {
		t.Run(c.name, func(t *testing.T) {
			text := strings.ReplaceAll(lookupRule, "%WHILE%", "'"+c.while+"'")
			rule := compileRule(t, text).Engine()
			check := checks.Check{Rule: rule.Name, Key: "1042", Since: since, Slot: clockTime(13, 15), Event: json.RawMessage(event)}
			if check.State = check.Event; c.state != "" {
				check.State = json.RawMessage(c.state)
			}
			if check.Queried = !c.skipSource; c.found != "" {
				check.Found = json.RawMessage(c.found)
			}
			answer, err := rule.Handler.Check(t.Context(), check)
			switch {
			case c.err != "":
				if err == nil || !strings.Contains(err.Error(), c.err) {
					t.Fatalf("%+v, %v; want the error %q", answer, err, c.err)
				}
				return
			case err != nil:
				t.Fatal(err)
			case c.wantText == "":
				if answer.Outcome != checks.Cleared {
					t.Fatalf("goes on: %+v", answer)
				}
				return
			}
			if len(answer.Alerts) != 1 || answer.Alerts[0].Text != c.wantText {
				t.Fatalf("alerts %+v, want %q", answer.Alerts, c.wantText)
			}
			status, _, _ := strings.Cut(c.wantText, " by ")
			if got := answer.Alerts[0].Labels["status"]; got != status {
				t.Errorf("the label is %q, want %q", got, status)
			}
			if c.carries != "" && string(answer.State) != c.carries {
				t.Errorf("the alert carries %s, want %s", answer.State, c.carries)
			}
			if c.skipSource && answer.State != nil {
				t.Errorf("the source was not queried, but the alert carries %s", answer.State)
			}
		})
	}
}

func TestRecheckUsesLookupResult(t *testing.T) {
	rule := compileRule(t, strings.ReplaceAll(lookupRule, "%WHILE%", "state != nil")).Engine()
	for found, next := range map[string]checks.Answer{
		`{"eta": "2026-03-01T15:00:00Z"}`: {Next: clockTime(15, 15)},
		`{"eta": "2026-03-01T21:00:00Z"}`: {Next: clockTime(18, 15), Nominal: true}, // it never postpones a step
		`{"eta": null}`:                   {Next: clockTime(18, 15), Nominal: true},
		`{"status": "UNSHIPPED"}`:         {Next: clockTime(15, 45)}, // of the event
	} {
		answer, err := rule.Handler.Check(t.Context(), checks.Check{
			Key: "1042", Since: since, Slot: clockTime(13, 15), Queried: true, Found: json.RawMessage(found),
			State: json.RawMessage(`{"eta": "2026-03-01T15:30:00Z"}`),
		})
		if err != nil || !answer.Next.Equal(next.Next) || answer.Nominal != next.Nominal {
			t.Errorf("%s: next check at %s (nominal %t), %v; want %s", found, answer.Next, answer.Nominal, err, next.Next)
		}
	}
}

// finderOf returns the finder of a rule over a shop.
func finderOf(t *testing.T, s *shop, text string) checks.Finder {
	t.Helper()
	db := openStore(t)
	v := saveRule(t, db, 0, text)
	catalog := rules.NewCatalog(db, db.Shards())
	catalog.Sources = sources{s}
	if err := catalog.Refresh(t.Context()); err != nil {
		t.Fatal(err)
	}
	rule, err := catalog.Rule(t.Context(), v.RuleID, v.Version)
	if err != nil {
		t.Fatal(err)
	}
	return rule.Finder
}

func TestInvalidQueryIsErrorOfItsKey(t *testing.T) {
	s := newOrderShop(t)
	finder := finderOf(t, s, withEdits(
		`lookup: {sql: {source: shop, query: "select status, total > $2 as dear from orders where id = $1", params: [key, event.least]}}`,
	))
	found := func(events ...string) []checks.Finding {
		if !finder.Enter() {
			t.Fatal("the line is full")
		}
		var all []checks.Check
		for _, e := range events {
			all = append(all, checks.Check{Key: e[1:5], Event: json.RawMessage(e[6:])})
		}
		return finder.Find(t.Context(), all)
	}
	got := found(`(1042){"least": 10}`, `(1043){"least": 10}`, `(1042){}`, `(1042){"least": [1]}`, `(1042){"least": 90}`)
	for i, want := range []string{`{"dear":1,"status":"UNSHIPPED"}`, "", "", "", `{"dear":0,"status":"UNSHIPPED"}`} {
		if string(got[i].Value) != want {
			t.Errorf("%d: found %s, want %s", i, got[i].Value, want)
		}
	}
	for i, want := range []string{"", "", "lookup: params[1]: a value is missing", "lookup: params[1]: a list can't be a parameter of a query", ""} {
		if err := got[i].Err; (err == nil) != (want == "") || err != nil && !strings.HasPrefix(err.Error(), want) {
			t.Errorf("%d: %v, want %q", i, err, want)
		}
	}
	if got := found(`(1042){}`); got[0].Err == nil || s.line.Load() != 0 {
		t.Errorf("%v, and %d places in the line are still taken", got[0].Err, s.line.Load())
	}
}

func TestUndefinedSourceIsOutage(t *testing.T) {
	finder := finderOf(t, newOrderShop(t), withEdits(`lookup: {kv: {source: shpo, bucket: orders}}`))
	if !finder.Enter() {
		t.Fatal("the line before nothing is full")
	}
	err := finder.Find(t.Context(), []checks.Check{{Key: "1"}})[0].Err
	var outage *checks.Outage
	if !errors.As(err, &outage) || outage.Source != "shpo" || !errors.Is(err, lookup.ErrUndefined) || !strings.Contains(err.Error(), `did you mean "shop"?`) {
		t.Errorf("%v", err)
	}
	if err := finder.Reach(t.Context()); !errors.Is(err, lookup.ErrUndefined) {
		t.Errorf("it can be reached: %v", err)
	}
}

// TestQueriesHoldTheirValues puts keys with a special meaning for their receivers into each kind of question.
func TestQueriesHoldTheirValues(t *testing.T) {
	http := `{http: {source: shop, path: "/orders/{{key}}/parts/x{{event.n ?? 1}}"}}`
	query := `{http: {source: shop, path: "/orders?id={{key}}&full=true"}}`
	nats := `{nats: {source: shop, subject: "shop.{{key}}.get-{{key}}"}}`
	kv := `{kv: {source: shop, bucket: ORDERS, key: "orders/{{key}}"}}`
	for _, c := range []struct{ lookup, key, want, err string }{
		{lookup: http, key: "1042", want: "/orders/1042/parts/x1"},
		{lookup: http, key: "a/b", want: "/orders/a%2Fb/parts/x1"},
		{lookup: http, key: "../admin", want: "/orders/..%2Fadmin/parts/x1"},
		{lookup: http, key: "a?b#c%2e d", want: "/orders/a%3Fb%23c%252e%20d/parts/x1"},
		{lookup: http, key: "Zürich\n", want: "/orders/Z%C3%BCrich%0A/parts/x1"},
		{lookup: http, key: `a\b`, want: "/orders/a%5Cb/parts/x1"},
		{lookup: http, key: "..", err: "leads elsewhere"},
		{lookup: http, key: ".", err: "leads elsewhere"},
		{lookup: http, key: strings.Repeat("é", 256) + strings.Repeat("%", 3000), err: "the most is 4096"},
		{lookup: query, key: "1042", want: "/orders?id=1042&full=true"},
		{lookup: query, key: "..", want: "/orders?id=..&full=true"},
		{lookup: query, key: "a&b=c#d+e f;g?h", want: "/orders?id=a%26b%3Dc%23d%2Be%20f%3Bg%3Fh&full=true"},
		{lookup: nats, key: "1042", want: "shop.1042.get-1042"},
		{lookup: nats, key: "a.b", err: `can't be part of a subject because of the '.'`},
		{lookup: nats, key: "*", err: `because of the '*'`},
		{lookup: nats, key: "a>", err: `because of the '>'`},
		{lookup: nats, key: "a b", err: `because of the ' '`},
		{lookup: nats, key: "a\x00b", err: `because of the`},
		{lookup: `{nats: {source: shop, subject: "{{key}}.API.INFO"}}`, key: "$JS", err: "belongs to the servers"},
		{lookup: `{nats: {source: shop, subject: "{{key}}.handlers.x"}}`, key: "deadman-a", err: "belongs to the servers"},
		{lookup: kv, key: "1042", want: "orders/1042"},
		{lookup: kv, key: "a.b_c=d-e/f", want: "orders/a.b_c=d-e/f"},
		{lookup: kv, key: "a..b", err: "can't be a key"},
		{lookup: kv, key: "a.", err: "can't be a key"},
		{lookup: kv, key: ">", err: "can't be a key"},
		{lookup: kv, key: "ü", err: "can't be a key"},
		{lookup: "{kv: {source: shop, bucket: ORDERS}}", key: "1042", want: "1042"},
		{lookup: `{kv: {source: shop, bucket: ORDERS, key: "{{event.none}}"}}`, key: "1042", err: "{{event.none}}: a value is missing"},
		{lookup: `{kv: {source: shop, bucket: ORDERS, key: "{{event.empty}}"}}`, key: "1042", err: "{{event.empty}}: the text is empty"},
		{lookup: `{kv: {source: shop, bucket: ORDERS, key: "{{event}}"}}`, key: "1042", err: "{{event}}: an object can't be a parameter of a query"},
	} {
		t.Run(c.key+" "+c.lookup, func(t *testing.T) {
			finder := finderOf(t, newOrderShop(t), withEdits("lookup: "+c.lookup))
			finder.Enter()
			found := finder.Find(t.Context(), []checks.Check{{Key: c.key, Event: json.RawMessage(`{"empty": ""}`)}})[0]
			if c.err != "" {
				if found.Err == nil || !strings.Contains(found.Err.Error(), c.err) {
					t.Errorf("%s, %v; want the error %q", found.Value, found.Err, c.err)
				}
				return
			}
			var raised struct {
				Query string `json:"query"`
			}
			if err := errors.Join(found.Err, json.Unmarshal(found.Value, &raised)); err != nil || raised.Query != c.want {
				t.Errorf("queries %q, %v; want %q", raised.Query, err, c.want)
			}
		})
	}
}
