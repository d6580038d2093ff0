package server_test

import (
	"context"
	"database/sql"
	"fmt"
	"net/http"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"deadman/internal/store"
)

// versionOf returns a rule of acme whose n-th version has about 10 kB in its document and as much in its text, or only in its text.
func versionOf(name string, n int, comments bool) string {
	text := strings.ReplaceAll(holdRule, "acme-hold", name)
	if comments {
		return "# " + strings.Repeat("c", 10_000) + fmt.Sprintf(" %d", n) + text
	}
	return strings.Replace(text, "step: primary}", fmt.Sprintf("step: primary, text: %q}, {after: 101h, step: b, text: %q}, {after: 102h, step: c, text: %q}",
		fmt.Sprint(n)+strings.Repeat("x", 4000), strings.Repeat("y", 4000), strings.Repeat("z", 1500)), 1)
}

// put saves a rule, and returns the response.
func (w *tenants) put(name, query, text string, as []string) reply {
	w.Helper()
	return w.callRaw(http.MethodPut, "/api/v1/rules/"+name+query, text, append(slices.Clone(as), "Content-Type", "application/yaml")...)
}

// Beyond the quota, no version of the tenant's rules is saved in any way, and nothing changes. An admin saves, and a deleted
// rule counts as long as its versions are kept.
func (w *tenants) versionsAreCounted(t *testing.T) {
	const rule = "acme-versions"
	w.setQuota(`{}`)
	before := w.usage("acme-", "rule_bytes", w.acme)
	if before.Limit != 32<<20 || !before.Default || before.Used == 0 {
		t.Errorf("%+v, want the default and the bytes of the rules so far", before)
	}
	w.setQuota(fmt.Sprintf(`{"rule_bytes": %d}`, before.Used+65_000))
	for n := 1; n <= 3; n++ {
		if got := w.put(rule, "", versionOf(rule, n, false), w.acme); got.status != http.StatusCreated && got.status != http.StatusOK {
			t.Fatalf("version %d: %d %s", n, got.status, got.body)
		}
	}
	got := w.put(rule, "", versionOf(rule, 4, false), w.acme)
	w.checkOverQuota(got, http.StatusUnprocessableEntity)
	if text := string(got.body); !strings.Contains(text, "bytes of kept versions of rules") || !strings.Contains(text, "--rule-bytes") || !strings.Contains(text, "ten minutes") {
		t.Errorf("%s: want the limit and the remedy", text)
	}
	w.checkOverQuota(w.put(rule, "", strings.Replace(versionOf(rule, 3, false), "name:", "# "+strings.Repeat("c", 10_000)+"\nname:", 1), w.acme), http.StatusUnprocessableEntity) // only its comments change
	w.checkOverQuota(w.put("acme-another", "", versionOf("acme-another", 1, true), w.acme), http.StatusUnprocessableEntity)
	w.checkOverQuota(w.put("acme-another", "?bundle=shop", versionOf("acme-another", 1, false), w.acme), http.StatusUnprocessableEntity)
	w.checkOverQuota(w.callRaw(http.MethodPost, "/api/v1/rules", versionOf("acme-another", 1, false), append(slices.Clone(w.acme), "Content-Type", "application/yaml", "Idempotency-Key", "v")...), http.StatusUnprocessableEntity)
	if got := w.callRaw(http.MethodGet, "/api/v1/rules/acme-another", "", w.acme...); got.status != http.StatusNotFound {
		t.Errorf("a refused rule: %d", got.status)
	}
	var versions list
	w.callExpecting(http.StatusOK, http.MethodGet, "/api/v1/rules/"+rule+"/versions", "", w.acme...).decode(t, &versions)
	if len(versions.Items) != 3 {
		t.Errorf("%d versions, want 3", len(versions.Items))
	}
	for _, change := range []string{"pause", "resume"} {
		w.callExpecting(http.StatusOK, http.MethodPost, "/api/v1/rules/"+rule+"/"+change, "", w.acme...)
	}
	w.eventually("the bytes are counted", func() bool {
		used := w.usage("acme-", "rule_bytes", w.acme).Used - before.Used
		return used > 58_000 && used < 65_000
	})
	if got := w.put(rule, "", versionOf(rule, 5, false), w.admin); got.status != http.StatusOK {
		t.Errorf("an admin: %d %s", got.status, got.body)
	}
	w.callExpecting(http.StatusNoContent, http.MethodDelete, "/api/v1/rules/"+rule, "", w.acme...)
	w.checkOverQuota(w.put("acme-another", "", versionOf("acme-another", 1, false), w.acme), http.StatusUnprocessableEntity)
	w.setQuota(`{}`)
	if got := w.put("acme-another", "", versionOf("acme-another", 1, true), w.acme); got.status != http.StatusCreated {
		t.Errorf("with room: %d %s", got.status, got.body)
	}
	w.callExpecting(http.StatusNoContent, http.MethodDelete, "/api/v1/rules/acme-another", "", w.acme...)
}

// The versions of a tenant fit its quota exactly, whichever nodes save them.
func (w *tenantNodes) versionsAreCounted(t *testing.T) {
	w.setQuota(`{}`)
	before := w.usage("acme-", "rule_bytes", w.acme).Used
	w.setQuota(fmt.Sprintf(`{"rule_bytes": %d}`, before+130_000))
	name := func(i int) string { return fmt.Sprintf("acme-v%d", i%5) }
	answers := w.sendEverywhere(30, func(n *tenants, i int) reply { return n.put(name(i), "", versionOf(name(i), i, false), n.acme) })
	saved := 0
	for _, got := range slices.Concat(answers...) {
		if got.status == http.StatusCreated || got.status == http.StatusOK {
			saved++
			continue
		}
		w.checkOverQuota(got, http.StatusUnprocessableEntity)
	}
	if saved != 6 {
		t.Errorf("%d versions were saved over %d nodes, want 6", saved, len(w.nodes))
	}
	w.waitForEach("the bytes are counted", func(n *tenants) bool {
		used := n.usage("acme-", "rule_bytes", n.acme).Used - before
		return used > 115_000 && used <= 130_000
	})
	w.setQuota(`{}`)
	for i := range 5 {
		w.callRaw(http.MethodDelete, "/api/v1/rules/"+name(i), "", w.acme...)
	}
}

// loseAnswers makes the database refuse answers to requests with an Idempotency-Key, until the returned function is called:
// then the requests are as old as those of a node that is gone.
func (w *tenants) loseAnswers() (restore func()) {
	w.Helper()
	driver, dsn := "sqlite", "file:"+filepath.Join(w.config.DataDir, store.DatabaseFile)+"?_pragma=busy_timeout(10000)"
	begin := []string{`CREATE TRIGGER lost BEFORE UPDATE ON idempotency WHEN NEW.status IS NOT NULL BEGIN SELECT RAISE(ABORT, 'lost'); END`}
	end := []string{`DROP TRIGGER lost`, `UPDATE idempotency SET at = at - 70000000 WHERE status IS NULL`}
	if w.config.DatabaseURL != "" {
		driver, dsn = "pgx", w.config.DatabaseURL
		begin = []string{
			`CREATE FUNCTION lose() RETURNS trigger LANGUAGE plpgsql AS $$ BEGIN RAISE EXCEPTION 'lost'; END $$`,
			`CREATE TRIGGER lost BEFORE UPDATE ON idempotency FOR EACH ROW WHEN (NEW.status IS NOT NULL) EXECUTE FUNCTION lose()`,
		}
		end = []string{`DROP TRIGGER lost ON idempotency`, `DROP FUNCTION lose()`, `UPDATE idempotency SET at = at - interval '70 seconds' WHERE status IS NULL`}
	}
	db, err := sql.Open(driver, dsn)
	if err != nil {
		w.Fatal(err)
	}
	w.Cleanup(func() { _ = db.Close() })
	all := func(texts []string) {
		for _, text := range texts {
			if _, err := db.ExecContext(context.Background(), text); err != nil {
				w.Fatal(err)
			}
		}
	}
	all(begin)
	return func() { all(end) }
}

// A request that made its change and lost its answer is answered even if the quota of answers is used up: its client would
// make the change again otherwise. So is a published event, which the stream has once. A request that did not begin is
// refused.
func (w *tenants) lostAnswersAreMadeAgain(t *testing.T) {
	w.setQuota(`{}`)
	w.saveRule(http.StatusCreated, "", strings.ReplaceAll(holdRule, "acme-hold", "acme-lost"), w.acme...)
	create := func(key string) reply {
		return w.callRaw(http.MethodPost, "/api/v1/jobs", `{"rule": "acme-lost", "key": "`+key+`"}`, append(withJSON(w.acme), "Idempotency-Key", key)...)
	}
	restore := w.loseAnswers()
	if got := create("first"); got.status != http.StatusCreated {
		t.Fatalf("%d %s", got.status, got.body)
	}
	publish := func() reply {
		return w.callRaw(http.MethodPost, "/api/v1/events/acme.free", `{"id": "lost"}`, append(withJSON(w.acme), "Idempotency-Key", "event")...)
	}
	if got := publish(); got.status != http.StatusAccepted || strings.Contains(string(got.body), `"duplicate"`) {
		t.Fatalf("%d %s", got.status, got.body)
	}
	restore()
	w.setQuota(`{"kept_answer_bytes": 1}`)
	w.checkOverQuota(create("second"), http.StatusTooManyRequests)
	if got := publish(); got.status != http.StatusAccepted || !strings.Contains(string(got.body), `"duplicate":true`) {
		t.Errorf("the repeated event: %d %s, want the duplicate of the first", got.status, got.body)
	}
	if got := publish(); got.status != http.StatusAccepted || got.header.Get("Idempotent-Replayed") != "true" {
		t.Errorf("the event once more: %d %s", got.status, got.body)
	}
	if got := create("first"); got.status != http.StatusCreated || got.header.Get("Idempotent-Replayed") != "" {
		t.Errorf("the repeated request: %d %s", got.status, got.body)
	}
	if got := create("first"); got.status != http.StatusCreated || got.header.Get("Idempotent-Replayed") != "true" {
		t.Errorf("the request once more: %d %s", got.status, got.body)
	}
	var jobs list
	w.callExpecting(http.StatusOK, http.MethodGet, "/api/v1/jobs?rule=acme-lost", "", w.acme...).decode(t, &jobs)
	if len(jobs.Items) != 1 {
		t.Errorf("%d jobs, want 1", len(jobs.Items))
	}
	w.setQuota(`{}`)
}
