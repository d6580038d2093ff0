package server_test

import (
	"fmt"
	"net/http"
	"strings"
	"sync"
	"testing"
)

// dueRule is a rule of acme with stored schedules.
const dueRule = "name: acme-due\nentity: report\ntrigger: {schedule: \"@stored\", emit: {subject: acme.due}}\n"

// scheduleLines returns lines that create schedules of a rule, from a number.
func scheduleLines(rule, schedule string, from, n int) string {
	var lines strings.Builder
	for i := range n {
		fmt.Fprintf(&lines, `{"rule": %q, "id": "s%d", "schedule": %q}`+"\n", rule, from+i, schedule)
	}
	return lines.String()
}

func (w *tenants) sendSchedules(lines string, as []string) reply {
	w.Helper()
	return w.callRaw(http.MethodPost, "/api/v1/schedules/bulk", lines, append(as, "Content-Type", "application/x-ndjson")...)
}

// A tenant has stored schedules of its own rules, up to its quota, however it creates them, and replaces and deletes them
// beyond it, too. Another tenant has its own quota.
func (w *tenants) schedulesAreCounted(t *testing.T) {
	w.saveRule(http.StatusCreated, "", dueRule, w.acme...)
	w.saveRule(http.StatusCreated, "", strings.ReplaceAll(dueRule, "acme", "zenith"), w.zenith...)
	if use := w.usage("acme-", "schedules", w.acme); use.Limit != 100_000 || !use.Default || use.Used != 0 {
		t.Errorf("the default: %+v", use)
	}
	w.setQuota(`{"schedules": 40}`)
	const daily, hourly = "@daily", "@hourly"
	var working sync.WaitGroup
	answers := make([]reply, 8)
	for i := range answers {
		working.Go(func() { answers[i] = w.sendSchedules(scheduleLines("acme-due", daily, 10*i, 10), w.acme) })
	}
	working.Wait()
	created := 0
	for _, got := range answers {
		if got.status == http.StatusOK {
			created += 10
		} else {
			w.checkOverQuota(got, http.StatusUnprocessableEntity)
		}
	}
	if created != 40 {
		t.Errorf("%d schedules were created, want 40", created)
	}
	w.eventually("they are counted", func() bool { return w.usage("acme-", "schedules", w.acme).Used == 40 })
	one := func(method, id, body string) reply {
		return w.callRaw(method, "/api/v1/schedules/acme-due/"+id, body, append(w.acme, "Content-Type", "application/json")...)
	}
	w.checkOverQuota(one(http.MethodPut, "one-more", `{"schedule": "@daily"}`), http.StatusUnprocessableEntity)
	var listed struct{ Items []storedSchedule }
	w.callExpecting(http.StatusOK, http.MethodGet, "/api/v1/schedules?rule=acme-due&limit=50", "", w.acme...).decode(t, &listed)
	if len(listed.Items) != 40 {
		t.Fatalf("%d schedules are stored, want 40", len(listed.Items))
	}
	w.setQuota(`{"schedules": 3}`)
	id := listed.Items[0].ID
	if got := one(http.MethodPut, id, `{"schedule": "@hourly"}`); got.status != http.StatusOK {
		t.Errorf("an existing schedule is not replaced: %d %s", got.status, got.body)
	}
	w.changeSchedules(strings.ReplaceAll(scheduleLines("acme-due", hourly, 0, 1), `"s0"`, `"`+listed.Items[1].ID+`"`), w.acme...)
	if got := one(http.MethodDelete, id, ""); got.status != http.StatusNoContent {
		t.Errorf("a schedule is not deleted: %d %s", got.status, got.body)
	}
	w.checkOverQuota(one(http.MethodPut, id, `{"schedule": "@daily"}`), http.StatusUnprocessableEntity)
	if got := w.callRaw(http.MethodPut, "/api/v1/schedules/acme-due/by-an-admin", `{"schedule": "@daily"}`, append(w.admin, "Content-Type", "application/json")...); got.status != http.StatusCreated {
		t.Errorf("a token without a prefix: %d %s", got.status, got.body)
	}
	if done := w.changeSchedules(scheduleLines("zenith-due", daily, 0, 50), w.zenith...); done.Created != 50 {
		t.Errorf("zenith: %+v", done)
	}
	w.setQuota(`{}`)
	for _, rule := range []string{"acme-due", "zenith-due"} {
		w.callExpecting(http.StatusNoContent, http.MethodDelete, "/api/v1/rules/"+rule, "", w.admin...)
	}
}

// The ticks of stored schedules count toward the events of a tenant: those beyond them wait.
func (w *tenants) storedTicksAreCounted(t *testing.T) {
	w.saveRule(http.StatusCreated, "", dueRule, w.acme...)
	before := w.usage("acme-", "events", w.acme).Refused
	w.setQuota(`{"events": 3}`)
	w.changeSchedules(scheduleLines("acme-due", "@every 1s", 0, 30), w.acme...)
	w.eventually("ticks wait", func() bool { return w.usage("acme-", "events", w.acme).Refused > before })
	w.eventually("each schedule ticks", func() bool {
		var listed struct{ Items []storedSchedule }
		w.callExpecting(http.StatusOK, http.MethodGet, "/api/v1/schedules?rule=acme-due&limit=50", "", w.acme...).decode(t, &listed)
		for _, s := range listed.Items {
			if s.LastAt.IsZero() {
				return false
			}
		}
		return len(listed.Items) == 30
	})
	w.setQuota(`{}`)
	w.callExpecting(http.StatusNoContent, http.MethodDelete, "/api/v1/rules/acme-due", "", w.admin...)
}
