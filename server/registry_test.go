package server_test

import (
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"strings"
	"testing"
	"time"

	"deadman/internal/bus/bustest"
	"deadman/internal/store/storetest"
	"deadman/server"
)

// reply is a response of a node.
type reply struct {
	status int
	header http.Header
	body   []byte
}

// decode decodes the JSON response.
func (r reply) decode(t *testing.T, out any) {
	t.Helper()
	if err := json.Unmarshal(r.body, out); err != nil {
		t.Fatalf("%d %s: %v", r.status, r.body, err)
	}
}

// callRaw sends a request with headers, given as pairs.
func (n *node) callRaw(method, path, body string, headers ...string) reply {
	n.Helper()
	request, err := http.NewRequestWithContext(n.Context(), method, n.HTTP+path, strings.NewReader(body))
	if err != nil {
		n.Fatal(err)
	}
	for i := 0; i+1 < len(headers); i += 2 {
		if request.Header.Set(headers[i], headers[i+1]); headers[i] == "Host" {
			request.Host = headers[i+1]
		}
	}
	client := http.Client{Transport: &http.Transport{}, Timeout: within, CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse }}
	defer client.CloseIdleConnections()
	answer, err := client.Do(request)
	if err != nil {
		n.Fatal(err)
	}
	defer answer.Body.Close()
	text, err := io.ReadAll(answer.Body)
	if err != nil {
		n.Fatal(err)
	}
	return reply{answer.StatusCode, answer.Header, text}
}

// callExpecting sends a request and checks the status.
func (n *node) callExpecting(status int, method, path, body string, headers ...string) reply {
	n.Helper()
	got := n.callRaw(method, path, body, headers...)
	if got.status != status {
		n.Fatalf("%s %s: %d, want %d: %s", method, path, got.status, status, got.body)
	}
	return got
}

// saveRule saves a rule as YAML.
func (n *node) saveRule(status int, query, text string, headers ...string) reply {
	n.Helper()
	var name string
	if _, err := fmt.Sscanf(strings.TrimSpace(text), "name: %s", &name); err != nil {
		n.Fatal(err)
	}
	return n.callExpecting(status, http.MethodPut, "/api/v1/rules/"+name+query, text, append(headers, "Content-Type", "application/yaml")...)
}

// shutDown stops the node and waits until it has ended.
func (n *node) shutDown() {
	n.Helper()
	n.stop()
	if err := <-n.ended; err != nil {
		n.Fatal(err)
	}
}

// onBothDatabases runs a test with a node on each store, both concurrently.
func onBothDatabases(t *testing.T, test func(t *testing.T, c server.Config)) {
	t.Run("sqlite", func(t *testing.T) {
		t.Parallel()
		test(t, server.Config{})
	})
	t.Run("postgres", func(t *testing.T) {
		t.Parallel()
		test(t, server.Config{DatabaseURL: storetest.Postgres(t), NATSURL: startNATS(t)})
	})
}

const shipmentRule = `
name: shipment-late
entity: shipment
trigger: {event: shipments.sent, key: event.id}
resolve: {event: shipments.arrived, key: event.id}
escalate: [{after: 2h, step: first}, {after: 4h, step: second}]
slot: 1s
`

type jobs struct {
	Items []struct {
		Key         string
		RuleVersion int       `json:"rule_version"`
		NextCheckAt time.Time `json:"next_check_at"`
		Outcome     string
		Status      string
	}
}

func TestRuleLifecycleOverAPI(t *testing.T) {
	t.Parallel()
	onBothDatabases(t, func(t *testing.T, c server.Config) {
		n := startReadyNode(t, c)
		created := n.saveRule(http.StatusCreated, "", shipmentRule)
		if created.header.Get("ETag") != `"1"` {
			t.Errorf("ETag %s", created.header.Get("ETag"))
		}
		n.saveRule(http.StatusOK, "", shipmentRule, "If-Match", `"1"`)
		send := func(subject, id string) {
			n.callExpecting(http.StatusAccepted, http.MethodPost, "/api/v1/events/"+subject, fmt.Sprintf(`{"id":%q}`, id))
		}
		pending := func() (now jobs) {
			n.get("/api/v1/jobs?rule=shipment-late", &now)
			return now
		}
		for i := range 3 {
			send("shipments.sent", fmt.Sprint("s", i))
		}
		n.eventually("three wait", func() bool { return len(pending().Items) == 3 })

		// A new version applies to new jobs, unless requested otherwise.
		faster := strings.Replace(shipmentRule, "after: 2h", "after: 1h", 1)
		n.saveRule(http.StatusPreconditionFailed, "", faster, "If-Match", `"7"`)
		n.saveRule(http.StatusOK, "", faster, "If-Match", `"1"`)
		send("shipments.sent", "s3")
		n.eventually("the fourth waits", func() bool { return len(pending().Items) == 4 })
		versions := map[int]int{}
		for _, j := range pending().Items {
			versions[j.RuleVersion]++
		}
		if versions[1] != 3 || versions[2] != 1 {
			t.Errorf("jobs by version: %v", versions)
		}
		before := pending()
		var moved struct {
			Moved int `json:"moved_jobs"`
		}
		n.saveRule(http.StatusOK, "?apply_to=pending", faster).decode(t, &moved)
		if moved.Moved != 3 {
			t.Errorf("%d moved", moved.Moved)
		}
		for _, j := range pending().Items {
			if j.RuleVersion != 2 || j.NextCheckAt.After(before.Items[0].NextCheckAt.Add(10*time.Second)) {
				t.Errorf("after the move: %+v, before: %+v", j, before.Items[0])
			}
		}

		// A paused rule starts no jobs; resolves still work.
		n.callExpecting(http.StatusOK, http.MethodPost, "/api/v1/rules/shipment-late/pause", "")
		send("shipments.sent", "s4")
		send("shipments.arrived", "s0")
		n.eventually("s0 has arrived", func() bool { return len(pending().Items) == 3 })
		n.saveRule(http.StatusOK, "", strings.Replace(faster, "4h", "5h", 1)) // saving does not undo it
		var rule struct{ Items []map[string]any }
		if n.get("/api/v1/rules?name=shipment-late", &rule); rule.Items[0]["paused_at"] == nil || rule.Items[0]["version"] != 3.0 {
			t.Errorf("rule %v", rule.Items)
		}
		n.callExpecting(http.StatusOK, http.MethodPost, "/api/v1/rules/shipment-late/resume", "")
		send("shipments.sent", "s5")
		n.eventually("s5 waits, and s4 does not", func() bool { return len(pending().Items) == 4 })

		// Manual jobs.
		n.callExpecting(http.StatusCreated, http.MethodPost, "/api/v1/jobs", `{"rule":"shipment-late","key":"by hand/1","event":{"id":"by hand/1"}}`)
		n.callExpecting(http.StatusConflict, http.MethodPost, "/api/v1/jobs", `{"rule":"shipment-late","key":"by hand/1"}`)
		n.callExpecting(http.StatusNotFound, http.MethodPost, "/api/v1/jobs", `{"rule":"nothing","key":"1"}`)
		byHand := "/api/v1/jobs/shipment-late/check?key=" + url.QueryEscape("by hand/1")
		var saw struct{ Ended bool }
		if n.callExpecting(http.StatusOK, http.MethodPost, byHand, "").decode(t, &saw); saw.Ended {
			t.Error("a manual check ended a wait that is not over")
		}
		var snoozed struct {
			NextCheckAt time.Time `json:"next_check_at"`
		}
		n.callExpecting(http.StatusOK, http.MethodPost, "/api/v1/jobs/shipment-late/s5/snooze", `{"for":"10h"}`).decode(t, &snoozed)
		if in := time.Until(snoozed.NextCheckAt); in < 9*time.Hour || in > 11*time.Hour {
			t.Errorf("snoozed until %s", snoozed.NextCheckAt)
		}

		// After deletion, jobs end without alerts, and the history stays.
		n.callExpecting(http.StatusPreconditionFailed, http.MethodDelete, "/api/v1/rules/shipment-late", "", "If-Match", `"1"`)
		n.callExpecting(http.StatusNoContent, http.MethodDelete, "/api/v1/rules/shipment-late", "", "If-Match", `"3"`)
		n.callExpecting(http.StatusNotFound, http.MethodGet, "/api/v1/rules/shipment-late", "")
		n.eventually("its jobs have ended", func() bool { return len(pending().Items) == 0 })
		var ended jobs
		n.get("/api/v1/history?rule=shipment-late", &ended)
		outcomes := map[string]int{}
		for _, e := range ended.Items {
			outcomes[e.Outcome]++
		}
		if outcomes["rule_deleted"] != 5 || outcomes["resolved"] != 1 {
			t.Errorf("history %v", outcomes)
		}
		var raised list
		if n.get("/api/v1/alerts", &raised); len(raised.Items) != 0 {
			t.Errorf("alerts %+v", raised.Items)
		}

		// The audit log.
		var audit struct {
			Items []struct{ Action, Object string }
		}
		n.get("/api/v1/audit?limit=500", &audit)
		did := map[string]int{}
		for _, e := range audit.Items {
			did[e.Action]++
		}
		for action, times := range map[string]int{"rule.save": 3, "rule.pause": 1, "rule.resume": 1, "rule.delete": 1, "job.create": 1, "job.check": 1, "job.snooze": 1, "job.move": 3} {
			if did[action] != times {
				t.Errorf("%s is in the audit %d times, want %d: %v", action, did[action], times, did)
			}
		}
	})
}

// Existing events of a stream are ingested on request, after a preview of their number.
func TestNewRuleAppliesPastEvents(t *testing.T) {
	t.Parallel()
	onBothDatabases(t, func(t *testing.T, c server.Config) {
		n := startReadyNode(t, c)
		n.saveRule(http.StatusCreated, "", shipmentRule) // new events of its streams are ingested
		for i := range 700 {
			n.callExpecting(http.StatusAccepted, http.MethodPost, "/api/v1/events/shipments.sent", fmt.Sprintf(`{"id":"s%d"}`, i))
		}
		n.callExpecting(http.StatusAccepted, http.MethodPost, "/api/v1/events/shipments.arrived", `{"id":"s7"}`)
		other := strings.Replace(shipmentRule, "shipment-late", "shipment-other", 1)
		var change struct {
			Past int `json:"backfilled_jobs"`
		}
		since := "?since=" + time.Now().Add(-time.Hour).UTC().Format(time.RFC3339)
		pending := func() int {
			var all struct{ Items []any }
			n.get("/api/v1/jobs?rule=shipment-other&limit=500", &all)
			return len(all.Items)
		}
		n.saveRule(http.StatusOK, since+"&dry_run=true", other).decode(t, &change)
		if change.Past != 699 || pending() != 0 {
			t.Fatalf("%d would begin, %d are pending", change.Past, pending())
		}
		n.saveRule(http.StatusCreated, since, other).decode(t, &change)
		if change.Past != 699 || pending() != 500 {
			t.Errorf("%d began, %d are pending", change.Past, pending())
		}
		if status := n.get("/api/v1/jobs/shipment-other/s7", nil); status != http.StatusNotFound {
			t.Errorf("s7 has arrived, and is waited for: %d", status)
		}
		n.saveRule(http.StatusOK, since, other).decode(t, &change)
		if change.Past != 0 {
			t.Errorf("%d began the second time", change.Past)
		}
	})
}

// Beyond loopback all requests need a token, and the first token is handed out once.
func TestAccessGate(t *testing.T) {
	t.Parallel()
	secrets, logins := make(chan string, 2), make(chan string, 2)
	c := server.Config{HTTPAddr: "0.0.0.0:0", DataDir: bustest.Dir(t), FirstToken: func(secret, login string) {
		secrets <- secret
		logins <- login
	}}
	n := startReadyNode(t, c)
	secret, login := <-secrets, <-logins
	if n.Open || !strings.HasPrefix(secret, "dm_") || !strings.HasSuffix(login, "/login?token="+secret) {
		t.Fatalf("open %t, secret %q, login %q", n.Open, secret, login)
	}
	if strings.Contains(n.log.String(), secret) {
		t.Error("the log has the secret")
	}
	for _, path := range []string{"/api/v1/jobs", "/api/v1/rules", "/", "/metrics", "/openapi.json", "/docs", "/docs/api", "/alerts/1"} {
		n.callExpecting(http.StatusUnauthorized, http.MethodGet, path, "")
		n.callExpecting(http.StatusUnauthorized, http.MethodGet, path, "", "Authorization", "Bearer dm_wrong")
	}
	n.callExpecting(http.StatusOK, http.MethodGet, "/healthz", "")
	n.callExpecting(http.StatusOK, http.MethodGet, "/api/v1/jobs", "", "Authorization", "Bearer "+secret)

	var made struct{ Secret string }
	n.callExpecting(http.StatusCreated, http.MethodPost, "/api/v1/tokens", `{"name":"acme","scopes":["read","rules"],"prefix":"acme-*","subjects":["shipments.>"]}`, "Authorization", "Bearer "+secret).decode(t, &made)
	acme := []string{"Authorization", "Bearer " + made.Secret}
	n.saveRule(http.StatusForbidden, "", shipmentRule, acme...)
	n.saveRule(http.StatusCreated, "", strings.Replace(shipmentRule, "shipment-late", "acme-late", 1), acme...)
	n.callExpecting(http.StatusForbidden, http.MethodPost, "/api/v1/events/shipments.sent", `{"id":"1"}`, acme...)
	n.callExpecting(http.StatusForbidden, http.MethodGet, "/api/v1/tokens", "", acme...)
	n.callExpecting(http.StatusNoContent, http.MethodDelete, "/api/v1/tokens/acme", "", "Authorization", "Bearer "+secret)
	n.callExpecting(http.StatusUnauthorized, http.MethodGet, "/api/v1/rules", "", acme...)
	n.shutDown()

	n = startReadyNode(t, c) // it has a token now, and creates none
	if len(secrets) != 0 {
		t.Error("a second first token was made")
	}
	n.callExpecting(http.StatusOK, http.MethodGet, "/api/v1/jobs", "", "Authorization", "Bearer "+secret)
	n.shutDown()

	c.Insecure = true
	if n = startReadyNode(t, c); !n.Open {
		t.Error("an insecure node is not open")
	}
	n.callExpecting(http.StatusOK, http.MethodGet, "/api/v1/jobs", "")
}

// On loopback a node without tokens is open, until the first token exists.
func TestFirstTokenClosesNode(t *testing.T) {
	t.Parallel()
	n := startReadyNode(t, server.Config{})
	if !n.Open {
		t.Fatal("a node on loopback without tokens is not open")
	}
	n.callExpecting(http.StatusForbidden, http.MethodGet, "/api/v1/jobs", "", "Host", "evil.example")
	var made struct{ Secret string }
	n.callExpecting(http.StatusCreated, http.MethodPost, "/api/v1/tokens", `{"name":"me","scopes":["admin"]}`).decode(t, &made)
	n.callExpecting(http.StatusUnauthorized, http.MethodGet, "/api/v1/jobs", "")
	n.callExpecting(http.StatusOK, http.MethodGet, "/api/v1/jobs", "", "Authorization", "Bearer "+made.Secret)
}
