package storetest

import (
	"errors"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"deadman/internal/access"
	"deadman/internal/store"
	"deadman/rules"
)

// ruleOfSize returns a rule with a document and a text of these sizes.
func ruleOfSize(name string, document, text int) rules.RuleVersion {
	return rules.RuleVersion{Name: name, Entity: "order", Document: []byte(`"` + strings.Repeat("x", document-2) + `"`), Text: strings.Repeat("# ", text/2)}
}

// versionBytesAreCounted checks that a token with a prefix saves no version beyond the bytes of a quota, with those of
// deleted rules, and that the other changes are made.
func versionBytesAreCounted(t *testing.T, w *fixture) {
	w.must(w.SetQuota(w.ctx(), access.Quota{Prefix: "acme-", Set: map[access.Limited]int64{access.LimitRuleBytes: 1000}}))
	w.must(w.SetQuota(w.ctx(), access.Quota{Prefix: "acme-eu-", Set: map[access.Limited]int64{access.LimitRuleBytes: 300}}))
	acme := access.Within(w.ctx(), &access.Bounds{Token: "acme", Prefix: "acme-"})
	ids := make(map[string]int32)
	save := func(r rules.RuleVersion) error {
		saved, err := w.Save(acme, r, rules.AnyVersion)
		if err == nil {
			ids[r.Name] = saved.RuleID
		}
		return err
	}
	before := must[int64](t)(w.Revision(w.ctx()))
	for i, step := range []struct {
		save rules.RuleVersion
		over bool
	}{
		{save: ruleOfSize("zenith-1", 5000, 0)}, // another prefix: it does not count
		{save: ruleOfSize("acme-1", 300, 100)},
		{save: ruleOfSize("acme-eu-1", 200, 102), over: true}, // the longer prefix
		{save: ruleOfSize("acme-eu-1", 200, 100)},
		{save: ruleOfSize("acme-1", 200, 102), over: true}, // all of acme-
		{save: ruleOfSize("acme-2", 302, 0), over: true},
		{save: ruleOfSize("acme-1", 200, 100)}, // its second version
		{save: ruleOfSize("acme-1", 10, 0), over: true},
	} {
		if err := save(step.save); errors.Is(err, access.ErrQuota) != step.over || !step.over && err != nil {
			t.Errorf("step %d: %v, over the quota %v", i, err, step.over)
		}
	}
	if now := must[int64](t)(w.Revision(w.ctx())); now != before+4 {
		t.Errorf("%d changes, want 4: a refused one is none", now-before)
	}
	if err := w.SetText(acme, ids["acme-1"], 2, strings.Repeat("#", 101)); !errors.Is(err, access.ErrQuota) {
		t.Errorf("a longer text: %v, want ErrQuota", err)
	}
	w.must(w.SetText(acme, ids["acme-1"], 2, strings.Repeat("#", 90)))
	want := map[string]int64{w.rule.Name: 8, "zenith-1": 5000, "acme-1": 690, "acme-eu-1": 300}
	bytes := must[map[string]int64](t)(w.VersionBytes(w.ctx(), ""))
	want[w.rule.Name] = bytes[w.rule.Name]
	if diff := cmp.Diff(want, bytes); diff != "" {
		t.Errorf("bytes (-want +got):\n%s", diff)
	}
	must[int32](t)(w.Delete(acme, "acme-1", rules.AnyVersion))
	if err := save(ruleOfSize("acme-1", 12, 0)); !errors.Is(err, access.ErrQuota) {
		t.Errorf("the versions of a deleted rule are kept and count: %v, want ErrQuota", err)
	}
	acme = access.Within(w.ctx(), &access.Bounds{Token: "ada"}) // without a prefix
	w.must(save(ruleOfSize("acme-3", 5000, 0)))
	must[rules.RuleVersion](t)(w.Save(w.ctx(), ruleOfSize("acme-4", 5000, 0), rules.AnyVersion))
}

// versionsOfCrowdedTenantsArePruned checks that fewer old versions stay of rules whose tenants have little room.
func versionsOfCrowdedTenantsArePruned(t *testing.T, w *fixture) {
	for range 20 {
		w.save(w.rule.Name, "order")
	}
	w.must(w.MarkRead(w.ctx(), "ORDERS", 7, must[time.Time](t)(w.Now(w.ctx())).Add(time.Hour)))
	for _, c := range []struct {
		crowded bool
		pruned  int64
	}{{false, 0}, {true, 10}, {true, 0}} {
		n := must[int64](t)(w.PruneVersions(w.ctx(), func(rule string) bool { return c.crowded && rule == w.rule.Name }))
		if n != c.pruned {
			t.Errorf("crowded %v: %d versions went, want %d", c.crowded, n, c.pruned)
		}
	}
	if left := must[[]rules.RuleVersion](t)(w.Named(w.ctx(), w.rule.Name)); len(left) != 11 || left[0].Version != 21 || left[10].Version != 1 {
		t.Errorf("%d versions are left, want the newest 10 and the first", len(left))
	}
}

// versionsOfDeletedRulesAreForgotten checks that the versions of a deleted rule stay for the retention of history, and
// while it has jobs, and that their numbers are not used again.
func versionsOfDeletedRulesAreForgotten(t *testing.T, w *fixture) {
	name := w.rule.Name
	w.save(name, "order")
	w.applyManually(w.starting(w.rule, "a", w.slot()))
	must[int32](t)(w.Delete(w.ctx(), name, rules.AnyVersion))
	w.set = must[int64](t)(w.Revision(w.ctx()))
	versions := func() int { return len(must[[]rules.RuleVersion](t)(w.Named(w.ctx(), name))) }
	forget := func(history time.Duration) {
		must[[]int32](t)(w.Deleted(w.ctx()))
		must[store.Pruned](t)(w.Prune(w.ctx(), store.Retention{History: history}))
	}
	if forget(time.Nanosecond); versions() != 2 {
		t.Fatalf("%d versions are left while a job is pending, want 2", versions())
	}
	purge(w, w.rule)
	if forget(time.Hour); versions() != 2 {
		t.Fatalf("%d versions are left within the retention, want 2", versions())
	}
	if forget(time.Nanosecond); versions() != 0 {
		t.Fatalf("%d versions are left beyond the retention, want none", versions())
	}
	checkBalance(w, 1)
	if next := w.save(name, "order"); next.Version != 3 {
		t.Errorf("the next rule of the name begins with version %d, want 3", next.Version)
	}
}
