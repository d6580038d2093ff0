package server_test

import (
	"fmt"
	"net/http"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"

	"deadman/internal/bus"
)

// withJSON returns the headers with a JSON content type.
func withJSON(headers []string) []string {
	return append(slices.Clone(headers), "Content-Type", "application/json")
}

// pending returns the number of acme's jobs, once the quota has counted as many.
func (w *tenants) pending() (n int) {
	w.Helper()
	w.eventually("all pending jobs of acme are counted", func() bool {
		var jobs list
		w.callExpecting(http.StatusOK, http.MethodGet, "/api/v1/jobs?limit=500", "", w.acme...).decode(w.T, &jobs)
		n = len(jobs.Items)
		return w.usage("acme-", "jobs", w.acme).Used == int64(n)
	})
	return n
}

// Alerts that an admin publishes again are admitted, count once, and are resolved in the stream.
func (w *tenants) alertsAgainAreCountedOnce(t *testing.T) {
	const rule, subjects = "acme-again", "deadman.alerts.acme-again.>"
	w.saveRule(http.StatusCreated, "", strings.NewReplacer("TEXT", "late", "acme-flood", rule, "acme.flood", "acme.again", "acme.dry", "acme.done").Replace(floodRule), w.acme...)
	w.setQuota(`{}`)
	before := w.usage("acme-", "alerts", w.acme).Used
	w.setQuota(fmt.Sprintf(`{"alerts": %d}`, before+2))
	if published, withheld := w.flood(rule, "acme.again", 5, ""); published != 2 || withheld != 3 {
		t.Fatalf("%d alerts are published and %d withheld, want 2 and 3", published, withheld)
	}
	const request = `{"rule": "acme-again", "since": "2020-01-01T00:00:00Z"}`
	if got := w.callRaw(http.MethodPost, "/api/v1/alerts/republish", request, withJSON(w.acme)...); got.status != http.StatusForbidden {
		t.Errorf("acme has alerts published again: %d %s", got.status, got.body)
	}
	again := func(alerts int, used int64) {
		t.Helper()
		w.callExpecting(http.StatusOK, http.MethodPost, "/api/v1/alerts/republish", request, withJSON(w.admin)...)
		w.eventually("all alerts are published", func() bool {
			raised := w.alertsOf(rule, w.acme)
			return len(raised) == alerts && !slices.ContainsFunc(raised, func(a tenantAlert) bool { return !a.Published || a.Withheld })
		})
		if n := w.messages(bus.AlertsStream, subjects); n != uint64(alerts) {
			t.Errorf("the stream has %d alerts, want %d", n, alerts)
		}
		w.eventually("each alert counts once", func() bool {
			w.setQuota(fmt.Sprintf(`{"alerts": %d}`, before+2)) // starts a new count
			return w.usage("acme-", "alerts", w.acme).Used == before+used
		})
	}
	again(5, 5)
	for i := range 5 {
		w.publish(http.StatusAccepted, "acme.done", fmt.Sprintf(`{"id": "f%d"}`, i), w.acme...)
	}
	w.eventually("all alerts are resolved in the stream", func() bool {
		return w.messages(bus.AlertsStream, subjects) == 10
	})
	again(10, 10)
}

// Concurrent requests and events create as many jobs as the quota allows.
func (w *tenants) jobsAtOnceAreCounted(t *testing.T) {
	const room = 7
	w.setQuota(`{}`)
	before := w.pending()
	w.setQuota(fmt.Sprintf(`{"jobs": %d}`, before+room))
	letters := len(w.deadLetters("acme-hold"))
	var all sync.WaitGroup
	var refused, begun atomic.Int64
	for client := range 8 {
		all.Go(func() {
			for i := range 8 {
				if client == 0 {
					w.publish(http.StatusAccepted, "acme.hold", fmt.Sprintf(`{"id": "event%d"}`, i), w.acme...)
					continue
				}
				body := fmt.Sprintf(`{"rule": "acme-hold", "key": "once%d-%d"}`, client, i)
				switch got := w.callRaw(http.MethodPost, "/api/v1/jobs", body, withJSON(w.acme)...); got.status {
				case http.StatusCreated:
					begun.Add(1)
				case http.StatusUnprocessableEntity:
					refused.Add(1)
				default:
					t.Errorf("%d %s", got.status, got.body)
				}
			}
		})
	}
	all.Wait()
	w.eventually("all events are jobs or dead letters", func() bool {
		n := 0
		for i := range 8 {
			if w.callRaw(http.MethodGet, fmt.Sprintf("/api/v1/jobs/acme-hold/event%d", i), "", w.acme...).status == http.StatusOK {
				n++
			}
		}
		return n+len(w.deadLetters("acme-hold"))-letters == 8
	})
	if n := w.pending(); n != before+room {
		t.Errorf("%d jobs of acme began at a time, want %d; %d requests began one, %d were refused", n-before, room, begun.Load(), refused.Load())
	}
}

// A retry of a dead letter creates no job that an event has ended meanwhile.
func (w *tenants) endsFromDeadLettersAreKept(t *testing.T) {
	w.setQuota(`{}`)
	w.setQuota(`{"jobs": 1}`) // less than what is pending
	before := len(w.deadLetters("acme-hold"))
	for _, key := range []string{"shipped", "open"} {
		w.publish(http.StatusAccepted, "acme.hold", `{"id": "`+key+`"}`, w.acme...)
	}
	w.publish(http.StatusAccepted, "acme.free", `{"id": "shipped"}`, w.acme...)
	w.publish(http.StatusAccepted, "acme.free", `{"id": "next"}`, w.acme...)
	job := func(key string) int {
		return w.callRaw(http.MethodGet, "/api/v1/jobs/acme-hold/"+key, "", w.acme...).status
	}
	w.eventually("the events are read", func() bool { return job("next") == http.StatusNotFound })
	if n := len(w.deadLetters("acme-hold")) - before; n != 2 {
		t.Fatalf("%d new dead letters, want 2", n)
	}
	w.setQuota(`{}`)
	w.callExpecting(http.StatusOK, http.MethodPost, "/api/v1/dead-letters/retry?rule=acme-hold", "", w.admin...)
	if shipped, open := job("shipped"), job("open"); shipped != http.StatusNotFound || open != http.StatusOK {
		t.Errorf("after the retry: %d for what has ended, %d for what has not", shipped, open)
	}
	if got := w.callRaw(http.MethodGet, "/api/v1/history?rule=acme-hold&key=shipped", "", w.acme...); !strings.Contains(string(got.body), `"resolved"`) {
		t.Errorf("the history has no job that ended: %s", got.body)
	}
}

// A tenant below a shorter prefix learns only of the existence of a limit, neither its prefix nor its value.
func (w *tenants) outerLimitsAreHidden(t *testing.T) {
	w.setQuota(`{}`)
	w.callExpecting(http.StatusOK, http.MethodPut, "/api/v1/quotas/ac*", `{"rules": 1, "jobs": 2, "events": 0}`, withJSON(w.admin)...)
	outer := func(what string, got reply, status int) {
		t.Helper()
		text := string(got.body)
		if got.status != status || !strings.Contains(text, "outer limit") || !strings.Contains(text, "quota-used-up") || strings.Contains(text, "ac*") || strings.Contains(text, "all of their") {
			t.Errorf("%s: %d %s", what, got.status, text)
		}
	}
	outer("a rule", w.callRaw(http.MethodPut, "/api/v1/rules/acme-outer", strings.Replace(holdRule, "acme-hold", "acme-outer", 1), append(slices.Clone(w.acme), "Content-Type", "application/yaml")...), http.StatusUnprocessableEntity)
	outer("an event", w.callRaw(http.MethodPost, "/api/v1/events/acme.hold", `{"id": "outer"}`, w.acme...), http.StatusTooManyRequests)
	outer("a job", w.callRaw(http.MethodPost, "/api/v1/jobs", `{"rule": "acme-hold", "key": "outer"}`, withJSON(w.acme)...), http.StatusUnprocessableEntity)
	w.publish(http.StatusAccepted, "acme.hold", `{"id": "outer"}`, w.admin...)
	w.eventually("the event is a dead letter", func() bool {
		return slices.ContainsFunc(w.deadLetters("acme-hold"), func(l letter) bool {
			return strings.Contains(l.Reason, "outer limit") && !strings.Contains(l.Reason, "ac*")
		})
	})
	shown := func(as []string) string {
		return string(w.callRaw(http.MethodGet, "/api/v1/rules?name=acme-hold", "", as...).body)
	}
	if text := shown(w.acme); !strings.Contains(text, "outer limit") || strings.Contains(text, "ac*") {
		t.Errorf("the rule, to acme: %s", text)
	}
	if text := shown(w.admin); !strings.Contains(text, "ac* have all of their 2 pending jobs") {
		t.Errorf("the rule, to an admin: %s", text)
	}
	for _, path := range []string{"/api/v1/quotas", "/api/v1/tokens/self", "/sessions"} {
		text := string(w.callExpecting(http.StatusOK, http.MethodGet, path, "", append(slices.Clone(w.acme), "Accept", "text/html, application/json")...).body)
		if !strings.Contains(text, "acme-") || strings.Contains(text, `"ac"`) || strings.Contains(text, "ac*") {
			t.Errorf("%s, to acme: %s", path, text)
		}
	}
	w.eventually("the operator sees what was refused", func() bool {
		return w.usage("ac", "jobs", w.admin).Refused > 0 && w.usage("ac", "events", w.admin).Refused > 0
	})
	if use := w.usage("ac", "jobs", w.admin); use.Limit != 2 {
		t.Errorf("the operator sees %+v", use)
	}
	w.callExpecting(http.StatusNoContent, http.MethodDelete, "/api/v1/quotas/ac*", "", w.admin...)
}
