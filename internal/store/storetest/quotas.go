package storetest

import (
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"

	"deadman/alerts"
	futurejobs "deadman/future_jobs"
	"deadman/internal/access"
	"deadman/internal/store"
	"deadman/rules"
)

// quotas returns the quotas of all prefixes, without their times.
func quotas(w *fixture) []access.Quota {
	w.t.Helper()
	all := must[[]access.Quota](w.t)(w.Quotas(w.ctx(), ""))
	for i := range all {
		if (len(all[i].Set) > 0) != !all[i].SetAt.IsZero() {
			w.t.Errorf("%+v was set at %s", all[i], all[i].SetAt)
		}
		all[i].SetAt = time.Time{}
	}
	return all
}

func quotasAreKept(t *testing.T, w *fixture) {
	same := func(what string, want ...access.Quota) {
		t.Helper()
		if diff := cmp.Diff(want, quotas(w), cmpopts.EquateEmpty()); diff != "" {
			t.Errorf("%s (-want +got):\n%s", what, diff)
		}
	}
	same("at first")
	token := newToken(w, "acme")
	token.Prefix = "acme-"
	w.must(w.InsertToken(w.ctx(), token))
	same("of a token", access.Quota{Prefix: "acme-"})
	w.must(w.RevokeToken(w.ctx(), token.ID, w.at))
	same("when the token has ended", access.Quota{Prefix: "acme-"})

	by := access.As(w.ctx(), ada)
	limits := map[access.Limited]int64{access.LimitRules: 3, access.LimitRuleBytes: 4, access.LimitSubjects: 13, access.LimitSchedules: 15, access.LimitJobBytes: 5, access.LimitEventBytes: 6, access.LimitAlertBytes: 0, access.LimitKeptAlertBytes: 11, access.LimitKeptAnswerBytes: 12, access.LimitKeptPingBytes: 14}
	w.must(w.SetQuota(by, access.Quota{Prefix: "acme-", Set: limits}))
	w.must(w.SetQuota(by, access.Quota{Prefix: "b", Set: map[access.Limited]int64{access.LimitJobs: 9, access.LimitEvents: 8, access.LimitAlerts: 7}}))
	b := access.Quota{Prefix: "b", Set: map[access.Limited]int64{access.LimitJobs: 9, access.LimitEvents: 8, access.LimitAlerts: 7}, SetBy: "ada"}
	same("that were set", access.Quota{Prefix: "acme-", Set: limits, SetBy: "ada"}, b)
	w.must(w.DeleteQuota(by, "acme-"))
	same("one was deleted", b)
	for _, prefix := range []string{"acme-", "", "a\x00\xff"} {
		if err := w.DeleteQuota(by, prefix); !errors.Is(err, access.ErrNoQuota) || !errors.Is(err, futurejobs.ErrNotFound) {
			t.Errorf("delete %q: %v, want ErrNoQuota", prefix, err)
		}
	}
	again := newToken(w, "again")
	again.Prefix = "acme-"
	w.must(w.InsertToken(w.ctx(), again))
	w.must(w.DeleteQuota(by, "acme-"))
	same("a live token has one for all that", access.Quota{Prefix: "acme-"}, b)
	for within, want := range map[string]int{"": 2, "acme-": 1, "acme-e": 0, "b": 1, "B": 0, "_": 0, "%": 0} {
		if got := must[[]access.Quota](t)(w.Quotas(w.ctx(), within)); len(got) != want {
			t.Errorf("quotas within %q: %+v, want %d", within, got, want)
		}
		if got := must[[]access.Token](t)(w.TokensWithin(w.ctx(), within)); (len(got) > 0) != (within == "" || within == "acme-") {
			t.Errorf("tokens within %q: %+v", within, got)
		}
	}
	want := []string{
		"ada quota.set quota/acme- rules 3; rule_bytes 4; subjects 13; schedules 15; job_bytes 5; event_bytes 6; alert_bytes 0; kept_alert_bytes 11; kept_answer_bytes 12; kept_ping_bytes 14", "ada quota.set quota/b jobs 9; events 8; alerts 7",
		"ada quota.delete quota/acme- ", "ada quota.delete quota/acme- ",
	}
	if diff := cmp.Diff(want, audited(w, access.AuditFilter{Action: "quota.*"})); diff != "" {
		t.Errorf("the audit (-want +got):\n%s", diff)
	}
}

// rulesAreCounted checks that a token with a prefix saves no new rule once the rules of its prefix use up a quota, and
// that existing rules can be changed and deleted.
func rulesAreCounted(t *testing.T, w *fixture) {
	w.must(w.SetQuota(w.ctx(), access.Quota{Prefix: "acme-", Set: map[access.Limited]int64{access.LimitRules: 2}}))
	w.must(w.SetQuota(w.ctx(), access.Quota{Prefix: "acme-eu-", Set: map[access.Limited]int64{access.LimitRules: 1}}))
	w.must(w.SetQuota(w.ctx(), access.Quota{Prefix: "beta-", Set: map[access.Limited]int64{access.LimitRules: 0}}))
	acme := access.Within(w.ctx(), &access.Bounds{Token: "acme", Prefix: "acme-"})
	save := func(name string) error {
		_, err := w.Save(acme, rules.RuleVersion{Name: name, Entity: "order", Document: []byte(`{"name":"` + name + `"}`)}, rules.AnyVersion)
		return err
	}
	for _, step := range []struct {
		save   string
		delete string
		over   bool
	}{
		{save: "zenith-1"}, // another prefix: this token could not save it, and it does not count
		{save: "acme-eu-1"},
		{save: "acme-eu-2", over: true},
		{save: "acme-1"},
		{save: "acme-2", over: true},
		{save: "acme-1"}, // it exists
		{delete: "acme-eu-1"},
		{save: "acme-2"},
		{save: "acme-eu-1", over: true},
	} {
		if step.delete != "" {
			_, err := w.Delete(acme, step.delete, rules.AnyVersion)
			w.must(err)
			continue
		}
		if err := save(step.save); errors.Is(err, access.ErrQuota) != step.over || !step.over && err != nil {
			t.Errorf("save %s: %v, over the quota %v", step.save, err, step.over)
		}
	}
	acme = access.Within(w.ctx(), &access.Bounds{Token: "ada"}) // without a prefix
	w.must(save("acme-3"))
	names := slices.Collect(maps.Keys(must[map[string]int64](t)(w.RuleNames(w.ctx(), ""))))
	if diff := cmp.Diff([]string{w.rule.Name, "zenith-1", "acme-1", "acme-2", "acme-3"}, names, cmpopts.SortSlices(func(a, b string) bool { return a < b })); diff != "" {
		t.Errorf("rules (-want +got):\n%s", diff)
	}
}

func useOfQuotasIsKept(t *testing.T, w *fixture) {
	w.must(w.KeepQuotas(w.ctx(), nil))
	now := must[time.Time](t)(w.Now(w.ctx()))
	for range 2 {
		w.must(w.KeepQuotas(w.ctx(), []access.Done{
			{Prefix: "acme-", Spent: access.Spent{access.SpentAlerts: 3, access.SpentAlertBytes: 400, access.SpentKeptAlertBytes: 500, access.SpentKeptAnswerBytes: 60}, Refused: map[access.Limited]int64{access.LimitJobs: 5, access.LimitEvents: 1}},
			{Prefix: "b", Spent: access.Spent{access.SpentAlerts: 1, access.SpentAlertBytes: 10}},
		}))
	}
	before, later := now.Add(-time.Hour), now.Add(2*time.Hour)
	for _, c := range []struct {
		published, kept time.Time
		acme, b         access.Spent
	}{
		{before, before, access.Spent{6, 800, 1000, 120}, access.Spent{2, 20, 0, 0}},
		{later, before, access.Spent{6, 0, 1000, 120}, access.Spent{2, 0, 0, 0}},
		{before, later, access.Spent{6, 800, 0, 120}, access.Spent{2, 20, 0, 0}},
	} {
		spent := must[map[string]access.Spent](t)(w.QuotaSpent(w.ctx(), "", c.published, c.kept))
		if diff := cmp.Diff(map[string]access.Spent{"acme-": c.acme, "b": c.b}, spent); diff != "" {
			t.Errorf("published since %s, kept since %s (-want +got):\n%s", c.published, c.kept, diff)
		}
	}
	refusals := must[map[string][]access.LimitUse](t)(w.Refusals(w.ctx(), ""))
	for i := range refusals["acme-"] {
		if at := refusals["acme-"][i].RefusedAt; at.Sub(now).Abs() > time.Minute {
			t.Errorf("refused at %s", at)
		}
		refusals["acme-"][i].RefusedAt = time.Time{}
	}
	if diff := cmp.Diff(map[string][]access.LimitUse{"acme-": {{Limited: access.LimitEvents, Refused: 2}, {Limited: access.LimitJobs, Refused: 10}}}, refusals); diff != "" {
		t.Errorf("refusals (-want +got):\n%s", diff)
	}
	w.must(w.PruneQuotas(w.ctx(), now.Add(time.Hour)))
	if left := must[map[string]access.Spent](t)(w.QuotaSpent(w.ctx(), "", before, before)); len(left) != 0 {
		t.Errorf("pruned, and %v is left", left)
	}
	if left := must[map[string][]access.LimitUse](t)(w.Refusals(w.ctx(), "")); len(left) != 0 {
		t.Errorf("pruned, and %v is left", left)
	}
}

func alertsAreWithheld(t *testing.T, w *fixture) {
	since := publishedAlerts(w, "a", "b")
	waits := w.unpublished()
	if len(waits) != 2 {
		t.Fatalf("%d alerts wait", len(waits))
	}
	elsewhere := waits[0]
	elsewhere.Place.First = alerts.ID{1} // as if the node ends before the alert is out of the outbox
	w.must(w.Withhold(w.ctx(), []alerts.Alert{elsewhere}))
	if left := w.unpublished(); len(left) != 1 {
		t.Errorf("a withheld alert waits: %d", len(left))
	}
	w.must(w.Withhold(w.ctx(), waits[:1]))
	w.must(w.Withhold(w.ctx(), nil))
	id := waits[0].ID
	if left := w.unpublished(); len(left) != 1 || left[0].ID != waits[1].ID {
		t.Errorf("%d alerts are left", len(left))
	}
	w.must(w.MarkPublished(w.ctx(), waits[1:]))
	state := func() string {
		listed := must[futurejobs.ListedAlert](t)(w.Alert(w.ctx(), id))
		return fmt.Sprintf("published %v, withheld %v", listed.Published, listed.Withheld)
	}
	if got := state(); got != "published false, withheld true" {
		t.Error(got)
	}
	withheld := must[map[alerts.ID]bool](t)(w.Withheld(w.ctx(), waits[0].Shard, []alerts.ID{id, waits[1].ID}))
	if diff := cmp.Diff(map[alerts.ID]bool{id: true}, withheld); diff != "" {
		t.Errorf("withheld (-want +got):\n%s", diff)
	}
	if n := must[int64](t)(w.Republish(w.ctx(), futurejobs.Filter{After: since})); n != 2 {
		t.Errorf("%d are published again", n)
	}
	again := w.unpublished()
	if got := state(); len(again) != 2 || got != "published false, withheld false" {
		t.Errorf("%d wait again; %s", len(again), got)
	}
	w.must(w.MarkPublished(w.ctx(), again))
	if got := state(); got != "published true, withheld false" {
		t.Error(got)
	}
}

// withheldAlertsArePublished checks that republished alerts have their earlier state, even if a part of a row of the
// outbox is published.
func withheldAlertsArePublished(t *testing.T, w *fixture) {
	keys, shard := neighbours(w, 4)
	since := publishedAlerts(w, keys...)
	waits := w.unpublished()
	w.must(w.Withhold(w.ctx(), waits[1:3]))
	w.must(w.MarkPublished(w.ctx(), waits))
	republish(w, since, 4)
	publishedAlerts(w, "new")
	was := make(map[alerts.ID]alerts.Republication)
	for {
		next := must[[]alerts.Alert](t)(batchOf(w.Unpublished(w.ctx(), []int16{shard}, 1, nil)))
		if len(next) == 0 {
			break
		}
		for _, a := range next {
			was[a.ID] = a.Republication
		}
		w.must(w.MarkPublished(w.ctx(), next))
	}
	for i, a := range waits {
		want := alerts.WasPublished
		if i == 1 || i == 2 {
			want = alerts.WasWithheld
		}
		if got := was[a.ID]; got != want {
			t.Errorf("alert %d was %d before, want %d", i, got, want)
		}
		delete(was, a.ID)
	}
	for _, a := range w.unpublished() {
		was[a.ID] = a.Republication
	}
	for id, got := range was {
		if got != alerts.NotRepublished {
			t.Errorf("the new alert %s was %d before", id, got)
		}
	}
	if len(was) != 1 {
		t.Errorf("%d new alerts", len(was))
	}
	// Once more: withheld alerts now count as published.
	republish(w, since, 4)
	for _, a := range w.unpublished() {
		if a.Republication == alerts.WasWithheld {
			t.Errorf("alert %s is still withheld", a.ID)
		}
	}
}

// tenantOf returns the tenant of a rule: its name up to a dash; empty: none.
func tenantOf(rule string) string {
	if tenant, _, has := strings.Cut(rule, "-"); has {
		return tenant
	}
	return ""
}

// earlyIsCappedByTenant checks that a tenant with many rules does not displace the early resolves of another.
func earlyIsCappedByTenant(t *testing.T, w *fixture) {
	mine := w.rule
	for _, name := range []string{mine.Name, "acme-1", "acme-2"} {
		if w.rule = mine; name != mine.Name {
			w.rule = w.save(name, "order")
		}
		for i := range 6 {
			w.applyManually(eventEffect(w, fmt.Sprint(i), w.slot(), time.Hour+time.Duration(i)*time.Minute))
		}
	}
	const much = 1 << 20
	got := must[[]store.CappedEarly](t)(w.CapEarly(w.ctx(), store.EarlyCaps{Rule: much, Total: 12, RuleBytes: much, TotalBytes: much, Tenant: tenantOf}))
	if diff := cmp.Diff([]store.CappedEarly{{Rule: "acme-1", Rows: 3}, {Rule: "acme-2", Rows: 3}}, got); diff != "" {
		t.Errorf("forgotten (-want +got):\n%s", diff)
	}
}
