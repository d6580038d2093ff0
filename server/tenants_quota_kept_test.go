package server_test

import (
	"fmt"
	"net/http"
	"strings"
	"testing"
)

// keptAlert is an alert of a list, with its event.
type keptAlert struct {
	Status          string
	Event           any
	BodiesOverQuota bool `json:"bodies_over_quota"`
}

// Beyond the quota, alerts are kept, published and listed without event and state, those of checks and those of events.
func (w *tenants) keptAlertsAreCounted(t *testing.T) {
	const rule, keys = "acme-kept", 6
	w.saveRule(http.StatusCreated, "", strings.NewReplacer("TEXT", "late", "acme-flood", rule, "acme.flood", "acme.kept", "acme.dry", "acme.taken").Replace(floodRule), w.acme...)
	w.setQuota(`{}`)
	before := w.usage("acme-", "kept_alert_bytes", w.acme)
	if before.Limit != 1<<30 || !before.Default {
		t.Errorf("%+v, want the default", before)
	}
	body := `, "text": "` + strings.Repeat("x", 8000) + `"`
	alertsOf := func(status string) (whole, bare int) {
		var all struct{ Items []keptAlert }
		w.callExpecting(http.StatusOK, http.MethodGet, "/api/v1/alerts?limit=500&status="+status+"&rule="+rule, "", w.acme...).decode(t, &all)
		for _, a := range all.Items {
			switch {
			case a.Event != nil && !a.BodiesOverQuota:
				whole++
			case a.Event == nil && a.BodiesOverQuota:
				bare++
			default:
				t.Errorf("%+v: an event and a mark, or neither", a)
			}
		}
		return whole, bare
	}

	w.flood(rule, "acme.kept", keys, body)
	if whole, bare := alertsOf("firing"); whole != keys || bare != 0 {
		t.Fatalf("within the quota: %d alerts with their event and %d without", whole, bare)
	}
	w.eventually("the bytes are counted", func() bool {
		return w.usage("acme-", "kept_alert_bytes", w.acme).Used >= before.Used+keys*8000
	})

	w.setQuota(`{"kept_alert_bytes": 1, "alert_bytes": 1073741824}`)
	for i := range keys {
		w.publish(http.StatusAccepted, "acme.taken", fmt.Sprintf(`{"id": "f%d"}`, i), w.acme...)
	}
	w.eventually("alerts that close others have no event", func() bool {
		whole, bare := alertsOf("resolved")
		return whole == 0 && bare == keys
	})
	for i := range keys {
		w.publish(http.StatusAccepted, "acme.kept", fmt.Sprintf(`{"id": "g%d"%s}`, i, body), w.acme...)
	}
	w.eventually("alerts of checks have no event", func() bool {
		whole, bare := alertsOf("firing")
		return whole == keys && bare == keys
	})
	if got := w.callRaw(http.MethodGet, "/api/v1/jobs/"+rule+"/g1", "", w.acme...); !strings.Contains(string(got.body), "xxxx") {
		t.Errorf("the pending job lost its event: %.300s", got.body)
	}
	if shown := w.overQuota(rule, w.acme); !strings.Contains(shown, "bytes of kept alerts") {
		t.Errorf("the rule shows the used-up quota as %q", shown)
	}
	after := w.usage("acme-", "kept_alert_bytes", w.acme)
	if grown := after.Used - before.Used; grown > keys*8000+3*keys*2000 {
		t.Errorf("%d bytes are counted, want those of %d events", grown, keys)
	}
	w.eventually("the alerts without an event are counted as refused", func() bool {
		return w.usage("acme-", "kept_alert_bytes", w.acme).Refused == 2*keys
	})
}

// overQuota returns the used-up quota that a rule is listed with.
func (w *tenants) overQuota(rule string, as []string) string {
	w.Helper()
	var listed struct {
		Items []struct {
			Name      string
			OverQuota string `json:"over_quota"`
		}
	}
	w.callExpecting(http.StatusOK, http.MethodGet, "/api/v1/rules?limit=500", "", as...).decode(w.T, &listed)
	for _, r := range listed.Items {
		if r.Name == rule {
			return r.OverQuota
		}
	}
	w.Errorf("the rule %s is not listed", rule)
	return ""
}

// Beyond the quota, no request with a new Idempotency-Key is executed. Earlier requests get their answers, and requests
// without a key are executed.
func (w *tenants) keptAnswersAreCounted(t *testing.T) {
	w.setQuota(`{}`)
	w.saveRule(http.StatusCreated, "", strings.NewReplacer("acme-hold", "acme-answers", "acme.hold", "acme.answers", "acme.free", "acme.answered").Replace(holdRule), w.acme...)
	send := func(headers ...string) reply {
		return w.callRaw(http.MethodPost, "/api/v1/events/acme.answers", `{"id": "answer"}`, append(withJSON(w.acme), headers...)...)
	}
	if got := send("Idempotency-Key", "first"); got.status != http.StatusAccepted {
		t.Fatalf("%d %s", got.status, got.body)
	}
	if use := w.usage("acme-", "kept_answer_bytes", w.acme); use.Used == 0 || use.Limit != 256<<20 {
		t.Errorf("after an answer: %+v", use)
	}
	w.setQuota(`{"kept_answer_bytes": 1}`)
	got := send("Idempotency-Key", "second")
	w.checkOverQuota(got, http.StatusTooManyRequests)
	if got.header.Get("Retry-After") != "3600" || !strings.Contains(string(got.body), "without its Idempotency-Key") {
		t.Errorf("Retry-After %q, %s: want an hour and the remedy", got.header.Get("Retry-After"), got.body)
	}
	if got := send("Idempotency-Key", "first"); got.status != http.StatusAccepted || got.header.Get("Idempotent-Replayed") != "true" {
		t.Errorf("an earlier request: %d %s", got.status, got.body)
	}
	if got := send(); got.status != http.StatusAccepted {
		t.Errorf("without a key: %d %s", got.status, got.body)
	}
	w.setQuota(`{}`)
	if got := send("Idempotency-Key", "second"); got.status != http.StatusAccepted || got.header.Get("Idempotent-Replayed") != "" {
		t.Errorf("the refused request, with room: %d %s", got.status, got.body)
	}
}
