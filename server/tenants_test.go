package server_test

import (
	"context"
	"encoding/json"
	"net/http"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/nats-io/nats.go"

	"deadman/checks"
	"deadman/internal/bus"
	"deadman/internal/bus/bustest"
	"deadman/server"
)

// tenants is a node with two tenants, acme and zenith, each with its own subjects, sources and handlers.
type tenants struct {
	*node
	config   server.Config
	called   *atomic.Int64 // calls of zenith's handler
	requests *atomic.Int64 // requests to zenith's service

	admin, acme, zenith, sender []string // headers
}

func newTenants(t *testing.T, c server.Config) *tenants {
	t.Helper()
	w := &tenants{called: new(atomic.Int64), requests: new(atomic.Int64)}
	secrets := make(chan string, 1)
	c.DataDir, c.HTTPAddr = bustest.Dir(t), "0.0.0.0:0"
	c.FirstToken = func(secret, _ string) { secrets <- secret }
	c.Sources = sourceFile(t, "sources: {acme-bus: {nats: {}}, zenith-bus: {nats: {}}}\n")
	w.config = c
	w.start(t)
	w.admin = authHeader(<-secrets)
	w.acme, w.zenith = w.newTenantToken("acme"), w.newTenantToken("zenith")
	w.sender = w.newToken(`{"name": "sender", "scopes": ["events"]}`)
	w.saveRule(http.StatusCreated, "", zenithRule, w.zenith...)
	w.saveRule(http.StatusCreated, "", strings.ReplaceAll(zenithRule, "zenith", "acme"), w.acme...)
	w.publish(http.StatusAccepted, "zenith.created", `{"id": "z1"}`, w.zenith...)
	w.publish(http.StatusAccepted, "acme.created", `{"id": "a1"}`, w.acme...)
	w.countRequests("zenith.lookup.*", w.requests)
	return w
}

// start restarts the node on the same database. Each start has new handlers.
func (w *tenants) start(t *testing.T) {
	t.Helper()
	w.config.Handlers = &checks.Handlers{}
	for _, name := range []string{"acme-checks", "zenith-checks"} {
		if err := w.config.Handlers.Register(name, checks.HandlerFunc(func(context.Context, checks.Check) (checks.Answer, error) {
			w.called.Add(1)
			return checks.Answer{Outcome: checks.Cleared}, nil
		})); err != nil {
			t.Fatal(err)
		}
	}
	w.node = startReadyNode(t, w.config)
}

func authHeader(secret string) []string { return []string{"Authorization", "Bearer " + secret} }

func (w *tenants) newToken(request string) []string {
	w.Helper()
	var made struct{ Secret string }
	w.callExpecting(http.StatusCreated, http.MethodPost, "/api/v1/tokens", request, w.admin...).decode(w.T, &made)
	return authHeader(made.Secret)
}

func (w *tenants) newTenantToken(name string) []string {
	w.Helper()
	return w.newToken(strings.ReplaceAll(`{"name": "NAME", "scopes": ["rules", "events"], "prefix": "NAME-*",
		"subjects": ["NAME.>"], "publish": ["NAME.>"], "sources": ["NAME-*"], "handlers": ["NAME-*"]}`, "NAME", name))
}

// publish publishes an event over the API and returns its sequence, which tenants do not see.
func (w *tenants) publish(status int, subject, body string, headers ...string) (seq uint64, answer reply) {
	w.Helper()
	var taken struct{ Seq uint64 }
	answer = w.callExpecting(status, http.MethodPost, "/api/v1/events/"+subject, body, append(headers, "Content-Type", "application/json")...)
	answer.decode(w.T, &taken)
	return taken.Seq, answer
}

// countRequests replies to requests on a subject and counts them.
func (w *tenants) countRequests(subject string, requests *atomic.Int64) {
	w.Helper()
	conn := w.natsConn(bus.UserAdmin)
	if _, err := conn.Subscribe(subject, func(m *nats.Msg) {
		requests.Add(1)
		_ = m.Respond([]byte(`{"secret": "of zenith"}`))
	}); err != nil {
		w.Fatal(err)
	}
	if err := conn.Flush(); err != nil {
		w.Fatal(err)
	}
}

const zenithRule = `
name: zenith-late
entity: order
trigger: {event: zenith.created, key: event.id}
resolve: {event: zenith.shipped, key: event.id}
escalate: [{after: 1s, step: primary, text: "zenith {{event.id}}"}, {after: 100h, step: later}]
slot: 1s
`

const steps = "escalate: [{after: 1s, step: primary, text: \"{{event}}\"}]\nslot: 1s\n"

// attacks are rules of acme that would reach zenith, with the position of the error.
var attacks = map[string]string{
	"trigger: {schedule: \"@every 1s\", emit: {subject: zenith.shipped, data: {id: z1}}}\n":                                                              "/trigger/emit/subject",
	"trigger: {schedule: \"@stored\", emit: {webhook: billing}}\n":                                                                                       "/trigger/emit/webhook",
	"trigger: {schedule: \"@stored\", emit: {subject: zenith.shipped, data: {id: z1}}}\n":                                                                "/trigger/emit/subject",
	"trigger: {event: \"zenith.>\", key: \"'x'\"}\n" + steps:                                                                                             "/trigger/event",
	"trigger: {event: \"*.created\", key: event.id}\n" + steps:                                                                                           "/trigger/event",
	"trigger: {event: \"*.>\", key: \"'x'\"}\n" + steps:                                                                                                  "/trigger/event",
	"trigger: {heartbeat: {event: zenith.created, key: event.id, every: 1h}}\n":                                                                          "/trigger/heartbeat/event",
	"trigger: {event: acme.a, key: event.id}\nresolve: {event: zenith.shipped, key: event.id}\n" + steps:                                                 "/resolve",
	"trigger: {event: acme.a, key: event.id}\nupdate: {event: zenith.created, key: event.id}\n" + steps:                                                  "/update",
	"trigger: {event: acme.a, key: event.id}\npause: [{event: zenith.created, key: event.id}, {event: acme.b, key: event.id, if: event.held}]\n" + steps: "/pause",
	"trigger: {event: acme.a, key: event.id}\nhandler: zenith-checks\n":                                                                                  "/handler",
	"trigger: {event: acme.a, key: event.id}\nlookup: {nats: {source: acme-bus, subject: \"zenith.{{key}}\"}}\n" + steps:                                 "/lookup/nats/subject",
	"trigger: {event: acme.a, key: event.id}\nlookup: {nats: {source: acme-bus, subject: \"{{event.t}}.shipped\"}}\n" + steps:                            "/lookup/nats/subject",
	"trigger: {event: acme.a, key: event.id}\nlookup: {nats: {source: zenith-bus, subject: \"acme.{{key}}\"}}\n" + steps:                                 "/lookup/nats/source",
	"trigger: {event: acme.a, key: event.id}\nlookup: {kv: {source: zenith-bus, bucket: b}}\n" + steps:                                                   "/lookup/kv/source",
	"trigger: {event: acme.a, key: event.id}\nlookup: {sql: {source: nowhere, query: select 1}}\n" + steps:                                               "/lookup/sql/source",
}

// Two tenants share a node: neither reads, writes, emits, looks up, learns or ends anything of the other.
func TestTenants(t *testing.T) {
	t.Parallel()
	onBothDatabases(t, func(t *testing.T, c server.Config) {
		w := newTenants(t, c)
		w.eventually("both tenants have an alert", func() bool {
			var raised list
			w.callExpecting(http.StatusOK, http.MethodGet, "/api/v1/alerts", "", w.admin...).decode(t, &raised)
			return len(raised.Items) == 2
		})
		for _, attack := range []struct {
			name string
			play func(*tenants, *testing.T)
		}{
			{"rules out of bounds are not saved, linted or previewed", (*tenants).rulesAreRefused},
			{"events are published within bounds alone", (*tenants).eventsAreRefused},
			{"lookups publish nothing", (*tenants).lookupsPublishNothing},
			{"a preview queries what the token may query", (*tenants).previewsQueryNothing},
			{"replays play what the token may read", (*tenants).replaysAreHidden},
			{"what is the other's is not seen", (*tenants).foreignDataIsHidden},
			{"what is the other's is as if it were not there", (*tenants).errorsRevealNothing},
			{"schedules are those of the tenant", (*tenants).schedulesAreHidden},
			{"whose rule it is, is whose bounds it has", (*tenants).rulesMoveBetweenTenants},
			{"the bounds of a rule outlive its token", (*tenants).boundsAreKept},
		} {
			t.Run(attack.name, func(t *testing.T) {
				again := *w
				node := *w.node
				node.T, again.node = t, &node
				attack.play(&again, t)
				w.node.Endpoints, w.node.stop, w.node.ended = again.Endpoints, again.stop, again.ended
			})
		}
		if n := w.called.Load(); n != 0 {
			t.Errorf("zenith's handler was called %d times", n)
		}
	})
}

func (w *tenants) rulesAreRefused(t *testing.T) {
	for text, at := range attacks {
		text = "name: acme-x\nentity: order\n" + text
		type answer struct {
			Valid    bool
			Errors   []struct{ Pointer, Message string }
			Problems []struct{ Pointer, Message string }
		}
		refused := func(what string, status int, got reply) {
			t.Helper()
			var a answer
			got.decode(t, &a)
			problems := append(a.Errors, a.Problems...)
			if got.status != status || a.Valid || len(problems) == 0 {
				t.Errorf("%s: %d %s\n%s", what, got.status, got.body, text)
				return
			}
			if p := problems[0]; !strings.HasPrefix(p.Pointer, at) || !strings.Contains(p.Message, "out of the token's bounds") {
				t.Errorf("%s: %+v, want %s\n%s", what, p, at, text)
			}
			if strings.Contains(string(got.body), "zenith-late") || strings.Contains(string(got.body), "DEADMAN_EVENTS") {
				t.Errorf("%s shows other tenants: %s", what, got.body)
			}
		}
		yaml := append(w.acme, "Content-Type", "application/yaml")
		for _, query := range []string{"", "?since=2026-01-01T00:00:00Z", "?dry_run=true&since=2026-01-01T00:00:00Z", "?apply_to=pending"} {
			refused("PUT"+query, 422, w.callRaw(http.MethodPut, "/api/v1/rules/acme-x"+query, text, yaml...))
		}
		refused("POST", 422, w.callRaw(http.MethodPost, "/api/v1/rules", text, yaml...))
		refused("lint", 200, w.callRaw(http.MethodPost, "/api/v1/rules/lint", text, yaml...))
		preview, err := json.Marshal(map[string]any{"rule": text, "event": map[string]any{"data": map[string]any{"id": "z1", "t": "zenith"}}})
		if err != nil {
			t.Fatal(err)
		}
		replay, err := json.Marshal(map[string]any{"rule": text, "since": time.Now().Add(-time.Hour)})
		if err != nil {
			t.Fatal(err)
		}
		refused("replay", 422, w.callRaw(http.MethodPost, "/api/v1/rules/replays", string(replay), append(w.acme, "Content-Type", "application/json")...))
		refused("preview", 422, w.callRaw(http.MethodPost, "/api/v1/rules/preview", string(preview), append(w.acme, "Content-Type", "application/json")...))
	}
	mistyped := "name: acme-x\nentity: order\ntrigger: {event: acme.a, key: event.id}\nlookup: {kv: {source: acme-nope, bucket: b}}\n" + steps
	if got := w.callRaw(http.MethodPut, "/api/v1/rules/acme-x", mistyped, append(w.acme, "Content-Type", "application/yaml")...); got.status != 422 || strings.Contains(string(got.body), "zenith") {
		t.Errorf("a source that is not there: %d %s", got.status, got.body)
	}
	if got := w.callRaw(http.MethodGet, "/api/v1/rules/acme-x", "", w.admin...); got.status != http.StatusNotFound {
		t.Errorf("a rule was saved: %d %s", got.status, got.body)
	}
	if n := w.requests.Load(); n != 0 {
		t.Errorf("zenith's service was queried %d times", n)
	}
	w.waitForJob("z1")
}

// waitForJob fails the test unless zenith has a job for a key.
func (w *tenants) waitForJob(key string) {
	w.Helper()
	w.callExpecting(http.StatusOK, http.MethodGet, "/api/v1/jobs/zenith-late/"+key, "", w.admin...)
}

func (w *tenants) eventsAreRefused(t *testing.T) {
	if got := w.callRaw(http.MethodPost, "/api/v1/events/zenith.shipped", `{"id": "z1"}`, w.acme...); got.status != http.StatusForbidden || !strings.Contains(string(got.body), "acme.>") {
		t.Errorf("%d %s", got.status, got.body)
	}
	mute := w.newToken(`{"name": "mute", "scopes": ["events"], "prefix": "acme-*"}`)
	for _, subject := range []string{"acme.created", "zenith.shipped"} {
		if got := w.callRaw(http.MethodPost, "/api/v1/events/"+subject, `{"id": "1"}`, mute...); got.status != http.StatusForbidden {
			t.Errorf("without anything to publish on: %d %s", got.status, got.body)
		}
	}
	// The effects of an event are shown only for the rules readable by the token.
	w.saveRule(http.StatusCreated, "", "name: zenith-spy\nentity: order\ntrigger: {event: acme.created, key: event.id}\n"+steps, w.admin...)
	for who, headers := range map[string][]string{"acme": w.acme, "sender": w.sender} {
		for _, body := range []string{`{"id": "a2"}`, `{}`, `[`} {
			got := w.callRaw(http.MethodPost, "/api/v1/events/acme.created", body, append(headers, "Content-Type", "application/octet-stream")...)
			if got.status != http.StatusAccepted || strings.Contains(string(got.body), "zenith") {
				t.Errorf("%s receives %d %s", who, got.status, got.body)
			}
			if named := strings.Contains(string(got.body), "acme-late"); named != (who == "acme") {
				t.Errorf("%s receives %s", who, got.body)
			}
		}
	}
	w.waitForJob("z1")
}

func (w *tenants) lookupsPublishNothing(t *testing.T) {
	before, _ := w.publish(http.StatusAccepted, "acme.created", `{"id": "n1"}`, w.admin...)
	text := "name: acme-lookup\nentity: order\ntrigger: {event: acme.a, key: event.id}\nlookup: {nats: {source: acme-bus, subject: \"acme.{{key}}\"}}\n" + steps
	got := w.callRaw(http.MethodPut, "/api/v1/rules/acme-lookup", text, append(w.acme, "Content-Type", "application/yaml")...)
	if got.status != 422 || !strings.Contains(string(got.body), "stores") {
		t.Errorf("a lookup on the subject of a stream: %d %s", got.status, got.body)
	}
	preview, err := json.Marshal(map[string]any{"rule": text, "event": map[string]any{"data": map[string]any{"id": "shipped"}}})
	if err != nil {
		t.Fatal(err)
	}
	got = w.callRaw(http.MethodPost, "/api/v1/rules/preview", string(preview), append(w.acme, "Content-Type", "application/json")...)
	if got.status != 422 || !strings.Contains(string(got.body), "a stream stores this subject") {
		t.Errorf("a preview of it: %d %s", got.status, got.body)
	}
	if after, _ := w.publish(http.StatusAccepted, "acme.created", `{"id": "n2"}`, w.admin...); after != before+1 {
		t.Errorf("the stream went from %d to %d", before, after)
	}
}

func (w *tenants) previewsQueryNothing(t *testing.T) {
	const text = "name: acme-lent\nentity: order\ntrigger: {event: acme.a, key: event.id}\nlookup: {nats: {source: zenith-bus, subject: \"zenith.lookup.{{key}}\"}}\n" +
		"while: state.secret != nil\nescalate: [{after: 1s, step: primary, text: \"{{state.secret}}\"}]\nslot: 1s\n"
	w.saveRule(http.StatusCreated, "", text, w.admin...)
	body := `{"event": {"data": {"id": "1"}}}`
	got := w.callRaw(http.MethodPost, "/api/v1/rules/acme-lent/preview", body, append(w.acme, "Content-Type", "application/json")...)
	if got.status != 422 || !strings.Contains(string(got.body), "out of the token's bounds") || strings.Contains(strings.ReplaceAll(string(got.body), "of zenith-bus", ""), "of zenith") {
		t.Errorf("acme previews it: %d %s", got.status, got.body)
	}
	if n := w.requests.Load(); n != 0 {
		t.Errorf("zenith's service was queried %d times", n)
	}
	got = w.callRaw(http.MethodPost, "/api/v1/rules/acme-lent/preview", body, append(w.admin, "Content-Type", "application/json")...)
	if got.status != 200 || !strings.Contains(string(got.body), "of zenith") {
		t.Errorf("an admin previews it: %d %s", got.status, got.body)
	}
	w.callExpecting(http.StatusNoContent, http.MethodDelete, "/api/v1/rules/acme-lent", "", w.admin...)
}
