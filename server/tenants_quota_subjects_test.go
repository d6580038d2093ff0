package server_test

import (
	"fmt"
	"net/http"
	"net/url"
	"strings"
	"testing"
)

// reading returns a rule of acme that reads n subjects of its own beside those of holdRule.
func reading(name string, n int) string {
	var resolves strings.Builder
	for i := range n {
		fmt.Fprintf(&resolves, "  - {event: acme.%s.s%d, key: event.id}\n", name, i)
	}
	return strings.NewReplacer("acme-hold", name, "resolve: {event: acme.free, key: event.id}", "resolve:\n"+resolves.String()).Replace(holdRule)
}

// Beyond the quota, the tenant captures no further subject in any way, and nothing changes: neither the rules nor the stream.
// A deleted rule leaves its subjects, a wildcard takes the place of those that it includes, and an admin has no limit.
func (w *tenants) subjectsAreCounted(t *testing.T) {
	w.setQuota(`{}`)
	var before usage
	w.eventually("the subjects so far are counted", func() bool {
		before = w.usage("acme-", "subjects", w.acme)
		return before.Used > 0
	})
	if before.Limit != 1000 || !before.Default {
		t.Errorf("%+v, want the default", before)
	}
	w.setQuota(fmt.Sprintf(`{"subjects": %d}`, before.Used+12))
	if got := w.put("acme-few", "", reading("acme-few", 10), w.acme); got.status != http.StatusCreated {
		t.Fatalf("%d %s", got.status, got.body)
	}
	for _, query := range []string{"", "?bundle=shop"} {
		got := w.put("acme-many", query, reading("acme-many", 10), w.acme)
		w.checkOverQuota(got, http.StatusUnprocessableEntity)
		if text := string(got.body); !strings.Contains(text, "captured subjects") || !strings.Contains(text, "wildcard") || !strings.Contains(text, "--subjects") {
			t.Errorf("%s: want the limit and the remedies", text)
		}
	}
	w.callExpecting(http.StatusNoContent, http.MethodDelete, "/api/v1/rules/acme-few", "", w.acme...)
	w.checkOverQuota(w.put("acme-many", "", reading("acme-many", 10), w.acme), http.StatusUnprocessableEntity)
	if got := w.callRaw(http.MethodGet, "/api/v1/rules/acme-many", "", w.acme...); got.status != http.StatusNotFound {
		t.Errorf("a refused rule: %d", got.status)
	}
	if got := w.put("acme-many", "", reading("acme-many", 10), w.admin); got.status != http.StatusCreated {
		t.Errorf("an admin: %d %s", got.status, got.body)
	}
	w.eventually("the subjects are counted", func() bool {
		used := w.usage("acme-", "subjects", w.acme).Used - before.Used
		return used >= 20 && used <= 22
	})
	w.callExpecting(http.StatusNoContent, http.MethodDelete, "/api/v1/rules/acme-many", "", w.admin...)
	wide := strings.ReplaceAll(reading("acme-wide", 1), "acme.acme-wide.s0", "acme.acme-few.*")
	if got := w.put("acme-wide", "", wide, w.acme); got.status != http.StatusCreated {
		t.Errorf("a wildcard: %d %s", got.status, got.body)
	}
	w.eventually("the wildcard took the place of others", func() bool {
		return w.usage("acme-", "subjects", w.acme).Used-before.Used <= 13
	})
	w.setQuota(`{}`)
	w.callExpecting(http.StatusNoContent, http.MethodDelete, "/api/v1/rules/acme-wide", "", w.acme...)
}

// Beyond the quotas, a ping is logged without its body, and a refused one leaves neither a job nor an address.
func (w *tenants) pingsAreCounted(t *testing.T) {
	const rule = "acme-beat"
	w.setQuota(`{}`)
	w.saveRule(http.StatusCreated, "", "name: "+rule+"\nentity: host\ntrigger: {heartbeat: {every: 24h}}\n", w.acme...)
	var address struct{ URL string }
	w.callExpecting(http.StatusCreated, http.MethodPost, "/api/v1/rules/"+rule+"/pings", "{}", withJSON(w.acme)...).decode(t, &address)
	target, err := url.Parse(address.URL)
	if err != nil {
		t.Fatal(err)
	}
	ping := func(key string) int {
		return w.callRaw(http.MethodPost, target.Path+"/"+key+"?create=1", strings.Repeat("x", 5000)).status
	}
	bodies := func() (whole, bare int) {
		var log struct {
			Items []struct {
				Body     string
				BodySize int `json:"body_size"`
			}
		}
		w.callExpecting(http.StatusOK, http.MethodGet, "/api/v1/rules/"+rule+"/pings/log", "", w.acme...).decode(t, &log)
		for _, e := range log.Items {
			switch {
			case e.BodySize != 5000:
				t.Errorf("a body of %d bytes", e.BodySize)
			case e.Body == "":
				bare++
			default:
				whole++
			}
		}
		return whole, bare
	}
	if use := w.usage("acme-", "kept_ping_bytes", w.acme); use.Limit != 256<<20 || !use.Default || use.Used != 0 {
		t.Errorf("%+v, want the default and nothing in use", use)
	}
	for i := range 3 {
		if status := ping(fmt.Sprint("h", i)); status != http.StatusCreated {
			t.Errorf("a ping: %d", status)
		}
	}
	w.eventually("the bodies are counted", func() bool { return w.usage("acme-", "kept_ping_bytes", w.acme).Used == 15_000 })
	w.setQuota(`{"kept_ping_bytes": 15000}`)
	if first, again := ping("h3"), ping("h0"); first != http.StatusCreated || again != http.StatusOK {
		t.Errorf("beyond the quota of bodies: %d, %d", first, again)
	}
	w.eventually("the pings are logged", func() bool { whole, bare := bodies(); return whole+bare == 5 })
	if whole, bare := bodies(); whole != 3 || bare != 2 {
		t.Errorf("%d pings are logged with their body and %d without", whole, bare)
	}
	w.setQuota(`{"jobs": 0}`)
	for range 2 {
		if status := ping("h9"); status != http.StatusUnprocessableEntity {
			t.Errorf("beyond the quota of jobs: %d", status)
		}
	}
	if got := w.callExpecting(http.StatusOK, http.MethodGet, "/api/v1/rules/"+rule+"/pings", "", w.acme...); strings.Contains(string(got.body), `"h9"`) || !strings.Contains(string(got.body), `"h3"`) {
		t.Errorf("addresses: %s", got.body)
	}
	w.setQuota(`{}`)
	if status := ping("h9"); status != http.StatusCreated {
		t.Errorf("with room: %d", status)
	}
	w.callExpecting(http.StatusNoContent, http.MethodDelete, "/api/v1/rules/"+rule, "", w.acme...)
}
