package server_test

import (
	"bufio"
	"context"
	"database/sql"
	"encoding/json"
	"fmt"
	"net/http"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"deadman/internal/store"
)

// allRetention counts all rows that exist.
const allRetention = "/api/v1/retention?at=2100-01-01T00:00:00Z"

func (w *tenants) foreignDataIsHidden(t *testing.T) {
	for _, c := range []struct {
		token []string
		sees  bool
	}{{w.admin, true}, {w.acme, true}, {w.zenith, false}} { // acme has dead letters
		if got := w.callRaw(http.MethodGet, allRetention, "", c.token...); got.status != http.StatusOK || strings.Contains(string(got.body), "acme-late") != c.sees {
			t.Errorf("retention counts: %d %s", got.status, got.body)
		}
	}
	for _, path := range []string{
		"/api/v1/rules", "/api/v1/jobs", "/api/v1/history", "/api/v1/alerts", "/api/v1/entities/order/z1", "/api/v1/outcomes",
		"/api/v1/jobs?rule=zenith-late", "/api/v1/alerts?rule=zenith-late", "/api/v1/alerts?key=z1", "/api/v1/rules?text=zenith", "/api/v1/tokens/self",
		"/", "/rules", "/jobs", "/alerts", "/history", "/find?q=z1",
	} {
		got := w.callRaw(http.MethodGet, path, "", append(w.acme, "Accept", "text/html, application/json")...)
		if text := strings.ReplaceAll(string(got.body), "rule=zenith-late", ""); got.status == http.StatusOK && strings.Contains(text, "zenith-late") {
			t.Errorf("%s shows %s", path, got.body)
		}
		if got.status >= 500 {
			t.Errorf("%s: %d %s", path, got.status, got.body)
		}
	}
	for _, path := range []string{
		"/api/v1/dead-letters", "/api/v1/dead-letters/1", "/api/v1/sources", "/api/v1/sources/zenith-bus", "/api/v1/handlers", "/api/v1/streams", "/api/v1/nodes",
		"/api/v1/audit", "/api/v1/tokens", "/api/v1/outages", "/api/v1/channels", "/api/v1/mutes", "/metrics",
	} {
		if got := w.callRaw(http.MethodGet, path, "", w.acme...); got.status != http.StatusForbidden {
			t.Errorf("%s: %d %s", path, got.status, got.body)
		}
	}
	for _, a := range w.streamedRules(t) {
		if !strings.HasPrefix(a, "acme-") {
			t.Errorf("the stream of alerts has one of %s", a)
		}
	}
}

// replaysAreHidden replays acme's events, with a wildcard. The result has none of zenith's, and zenith does not see it.
func (w *tenants) replaysAreHidden(t *testing.T) {
	body := fmt.Sprintf(`{"since": %q, "rule": {"name": "acme-all", "entity": "order", "trigger": {"event": "acme.>", "key": "event.id"}, "slot": "1s",
		"escalate": [{"after": "1s", "text": "{{event}}"}]}}`, time.Now().Add(-time.Hour).UTC().Format(time.RFC3339))
	type replay struct {
		ID, State, Reason string
		Warnings          []string
		Result            struct{ Alerts []struct{ Key, Text string } }
	}
	var r replay
	w.callExpecting(http.StatusAccepted, http.MethodPost, "/api/v1/rules/replays", body, append(w.acme, "Content-Type", "application/json")...).decode(t, &r)
	path := "/api/v1/replays/" + r.ID
	for _, method := range []string{http.MethodGet, http.MethodDelete} {
		w.callExpecting(http.StatusNotFound, method, path, "", w.zenith...)
	}
	var text string
	w.eventually("the replay ends", func() bool {
		got := w.callExpecting(http.StatusOK, http.MethodGet, path, "", w.acme...)
		got.decode(t, &r)
		text = string(got.body)
		return r.State != "running"
	})
	if r.State != "done" || len(r.Result.Alerts) == 0 || r.Result.Alerts[0].Key != "a1" {
		t.Errorf("acme's replay is %s", text)
	}
	if strings.Contains(text, "z1") || strings.Contains(text, "zenith") || strings.Contains(text, "DEADMAN_EVENTS") {
		t.Errorf("acme's replay shows %s", text)
	}
}

// streamedRules returns the rules of the alerts in acme's stream, up to acme's own.
func (w *tenants) streamedRules(t *testing.T) (rules []string) {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), within)
	defer cancel()
	request, err := http.NewRequestWithContext(ctx, http.MethodGet, w.HTTP+"/api/v1/alerts?backlog=100", nil)
	if err != nil {
		t.Fatal(err)
	}
	request.Header.Set("Accept", "text/event-stream")
	request.Header.Set(w.acme[0], w.acme[1])
	client := http.Client{Transport: &http.Transport{}}
	defer client.CloseIdleConnections()
	answer, err := client.Do(request)
	if err != nil {
		t.Fatal(err)
	}
	defer answer.Body.Close()
	// An alert of each tenant after the stream was opened; zenith's is published first.
	w.publish(http.StatusAccepted, "zenith.created", `{"id": "z9"}`, w.zenith...)
	w.eventually("zenith has its alert", func() bool {
		var raised list
		w.callExpecting(http.StatusOK, http.MethodGet, "/api/v1/alerts?key=z9", "", w.zenith...).decode(t, &raised)
		return len(raised.Items) == 1
	})
	w.publish(http.StatusAccepted, "acme.created", `{"id": "a9"}`, w.acme...)
	for lines := bufio.NewScanner(answer.Body); lines.Scan(); {
		data, is := strings.CutPrefix(lines.Text(), "data: ")
		if !is {
			continue
		}
		var a struct{ Rule, Key string }
		if err := json.Unmarshal([]byte(data), &a); err != nil {
			t.Fatal(err)
		}
		if rules = append(rules, a.Rule); a.Key == "a9" {
			return rules
		}
	}
	t.Fatal("the stream ended before acme's alert")
	return nil
}

func (w *tenants) errorsRevealNothing(t *testing.T) {
	var raised struct{ Items []struct{ ID string } }
	w.callExpecting(http.StatusOK, http.MethodGet, "/api/v1/alerts?key=z1", "", w.admin...).decode(t, &raised)
	alert := raised.Items[0].ID
	foreign := strings.ReplaceAll(zenithRule, "zenith.", "acme.")
	for _, c := range []struct{ method, path, body string }{
		{"GET", "/api/v1/rules/RULE", ""},
		{"GET", "/api/v1/rules/RULE/versions", ""},
		{"PUT", "/api/v1/rules/RULE", strings.Replace(foreign, "zenith-late", "RULE", 1)},
		{"POST", "/api/v1/rules", strings.Replace(foreign, "zenith-late", "RULE", 1)},
		{"POST", "/api/v1/rules/lint", strings.Replace(foreign, "zenith-late", "RULE", 1)},
		{"DELETE", "/api/v1/rules/RULE", ""},
		{"POST", "/api/v1/rules/RULE/pause", ""},
		{"POST", "/api/v1/rules/RULE/preview", `{"event": {"data": {"id": "1"}}}`},
		{"POST", "/api/v1/rules/RULE/replays", `{"since": "2026-01-01T00:00:00Z"}`},
		{"GET", "/api/v1/rules/RULE/pings/log", ""},
		{"POST", "/api/v1/rules/RULE/pings", `{"key": "z1"}`},
		{"POST", "/api/v1/jobs", `{"rule": "RULE", "key": "KEY"}`},
		{"GET", "/api/v1/jobs/RULE/KEY", ""},
		{"DELETE", "/api/v1/jobs/RULE/KEY", ""},
		{"POST", "/api/v1/jobs/RULE/KEY/check", ""},
		{"POST", "/api/v1/jobs/RULE/KEY/snooze", `{"for": "2h"}`},
		{"DELETE", "/api/v1/entities/order/KEY/jobs", ""},
		{"GET", "/api/v1/alerts/ALERT", ""},
		{"POST", "/api/v1/alerts/ALERT/ack", ""},
		{"POST", "/api/v1/mutes", `{"match": {"rule": "RULE"}, "reason": "r", "for": "1h"}`},
		{"POST", "/api/v1/handlers/zenith-checks/test", "{}"},
		{"POST", "/api/v1/sources/zenith-bus/test", ""},
	} {
		there := strings.NewReplacer("RULE", "zenith-late", "KEY", "z1", "ALERT", alert)
		gone := strings.NewReplacer("RULE", "zenith-nope", "KEY", "z0", "ALERT", "019c0f5a-7d08-8000-9b1c-2f4a6c8e0b1d")
		back := strings.NewReplacer("zenith-nope", "zenith-late", "z0", "z1", "019c0f5a-7d08-8000-9b1c-2f4a6c8e0b1d", alert)
		contentType := "application/json"
		if strings.HasPrefix(strings.TrimSpace(c.body), "name:") {
			contentType = "application/yaml"
		}
		headers := append(w.acme, "Content-Type", contentType)
		a := w.callRaw(c.method, there.Replace(c.path), there.Replace(c.body), headers...)
		b := w.callRaw(c.method, gone.Replace(c.path), gone.Replace(c.body), headers...)
		if a.status < 400 || a.status >= 500 {
			t.Errorf("%s %s: %d %s", c.method, c.path, a.status, a.body)
		}
		if got := back.Replace(string(b.body)); a.status != b.status || got != string(a.body) {
			t.Errorf("%s %s: what is there is answered %d %s\nand what is not %d %s", c.method, c.path, a.status, a.body, b.status, got)
		}
	}
	w.waitForJob("z1")
	var rule struct {
		Items []struct {
			Version  int
			PausedAt string `json:"paused_at"`
		}
	}
	w.callExpecting(http.StatusOK, http.MethodGet, "/api/v1/rules?name=zenith-late", "", w.admin...).decode(t, &rule)
	if len(rule.Items) != 1 || rule.Items[0].Version != 1 || rule.Items[0].PausedAt != "" {
		t.Errorf("zenith's rule is %+v", rule.Items)
	}
}

// An admin who saves a tenant's rule gives it the admin's bounds, and the tenant can't save that version as its own.
func (w *tenants) rulesMoveBetweenTenants(t *testing.T) {
	const wide = "name: acme-wide\nentity: order\ntrigger: {event: zenith.created, key: event.id}\n" + steps
	narrow := strings.Replace(wide, "zenith.created", "acme.created", 1)
	w.saveRule(http.StatusCreated, "", narrow, w.acme...)
	var change struct {
		Changed  bool
		Warnings []string
	}
	w.saveRule(http.StatusOK, "", narrow, w.acme...).decode(t, &change)
	if change.Changed {
		t.Error("the same rule with the same bounds is saved again")
	}
	w.saveRule(http.StatusOK, "", narrow, w.admin...).decode(t, &change)
	if !change.Changed || !strings.Contains(fmt.Sprint(change.Warnings), "bounds of the token acme, and has none") {
		t.Errorf("saved by an admin: %+v", change)
	}
	w.saveRule(http.StatusOK, "", wide, w.admin...)
	w.saveRule(http.StatusUnprocessableEntity, "", wide, w.acme...)
	w.callExpecting(http.StatusNoContent, http.MethodDelete, "/api/v1/rules/acme-wide", "", w.acme...)
}

// A rule saved by acme keeps acme's bounds after acme's token is gone, even if the database is changed.
func (w *tenants) boundsAreKept(t *testing.T) {
	w.callExpecting(http.StatusNoContent, http.MethodDelete, "/api/v1/tokens/acme", "", w.admin...)
	w.shutDown()
	w.sendForgedRequests(t)
	w.start(t)
	w.publish(http.StatusAccepted, "zenith.created", `{"id": "late"}`, w.zenith...)
	w.eventually("zenith waits for it", func() bool {
		return w.callRaw(http.MethodGet, "/api/v1/jobs/zenith-late/late", "", w.admin...).status == http.StatusOK
	})
	w.eventually("the rule shows that it does not run", func() bool {
		var letters struct{ Items []letter }
		w.callExpecting(http.StatusOK, http.MethodGet, "/api/v1/dead-letters?rule=acme-late", "", w.admin...).decode(t, &letters)
		return slices.ContainsFunc(letters.Items, func(l letter) bool {
			return strings.Contains(l.Reason, "the token acme may not read the subject")
		})
	})
	if got := w.callRaw(http.MethodGet, "/api/v1/jobs/acme-late/late", "", w.admin...); got.status != http.StatusNotFound {
		t.Errorf("acme's rule waits for zenith's order: %d %s", got.status, got.body)
	}
	var rule struct {
		Items []struct{ Problem string }
	}
	w.callExpecting(http.StatusOK, http.MethodGet, "/api/v1/rules?name=acme-late", "", w.admin...).decode(t, &rule)
	if len(rule.Items) != 1 || !strings.Contains(rule.Items[0].Problem, "out of the token's bounds") {
		t.Errorf("listed as %+v", rule.Items)
	}
}

// letter is the part of a dead letter that these tests check.
type letter struct{ Reason string }

// sendForgedRequests changes acme's rule in the database to read zenith's events.
func (w *tenants) sendForgedRequests(t *testing.T) {
	t.Helper()
	driver, dsn := "pgx", w.config.DatabaseURL
	if dsn == "" {
		driver, dsn = "sqlite", "file:"+filepath.Join(w.config.DataDir, store.DatabaseFile)
	}
	db, err := sql.Open(driver, dsn)
	if err != nil {
		t.Fatal(err)
	}
	defer db.Close()
	done, err := db.Exec(`UPDATE rule_version SET document = replace(document, 'acme.created', 'zenith.created'), reads = replace(reads, 'acme.created', 'zenith.created')
WHERE rule_id = (SELECT id FROM rule WHERE name = 'acme-late' AND deleted_at IS NULL)`)
	if err != nil {
		t.Fatal(err)
	}
	if n, err := done.RowsAffected(); n != 1 || err != nil {
		t.Fatalf("%d versions were changed: %v", n, err)
	}
}
