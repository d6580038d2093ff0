package storetest

import (
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"deadman/alerts"
	futurejobs "deadman/future_jobs"
	"deadman/internal/access"
	"deadman/internal/store"
	"deadman/rules"
)

// expected returns the effect that starts a job of a key that nothing was reported of.
func (w *fixture) expected(rule *futurejobs.Rule, key string) futurejobs.Effect {
	job := w.job(rule, key, w.slot())
	job.Event, job.State = nil, []byte(`{"heartbeat":{"kind":"expected"}}`)
	return begins(rule, job)
}

// reported returns the effect that starts a job with a state of its heartbeat, beside a body that is too large for a list.
func reported(w *fixture, rule *futurejobs.Rule, key, state string) futurejobs.Effect {
	job := w.job(rule, key, w.slot())
	job.State = []byte(`{"body":"` + strings.Repeat("x", 3<<10) + `","heartbeat":{"kind":` + state + `}}`)
	return begins(rule, job)
}

// keysOf returns the keys of a filter with their rules, over pages of three.
func (w *fixture) keysOf(f futurejobs.HeartbeatFilter) (keys []string) {
	w.t.Helper()
	for f.Limit = 3; ; {
		page := must[futurejobs.Page[futurejobs.HeartbeatKey]](w.t)(w.HeartbeatKeys(w.ctx(), f))
		for _, k := range page.Items {
			keys = append(keys, k.Rule+"/"+k.Key)
		}
		if page.Next == "" {
			return keys
		}
		f.Cursor = page.Next
	}
}

// heartbeatKeysAreListed checks the order, the pages, the filters, the states and the counts of keys.
func heartbeatKeysAreListed(t *testing.T, w *fixture) {
	other, silent := w.save("beat", "host"), w.save("quiet", "host")
	startFailedHeartbeats(w, other)
	for i := range 8 {
		w.applyManually(w.starting(w.rule, fmt.Sprintf("k\\%d", i), w.slot()))
	}
	w.applyManually(w.expected(other, "new"), w.starting(other, "held", w.slot()), w.starting(other, "late", w.slot()), w.starting(other, "doubt", w.slot()),
		w.starting(other, "recent", w.slot()))
	old := w.job(other, "excused", w.slot())
	old.Since = old.Since.Add(-2 * time.Hour)
	overdue := old.Since.Add(time.Hour)
	w.applyManually(begins(other, old))
	w.applyManually(actionEffect(w, other, "held", time.Time{}, futurejobs.Pause{}))
	w.settle(w.reschedule(w.one("late"), w.slot().Add(time.Hour)))
	doubt := w.one("doubt")
	doubt.UndeterminedChecks, doubt.NextCheckAt = 1, w.slot().Add(time.Hour)
	w.settle(futurejobs.Decision{Job: doubt})
	for _, key := range []string{"excused", "recent"} { // checked without an alert
		checked := w.one(key)
		checked.CheckCount, checked.NextCheckAt = 1, w.slot().Add(time.Hour)
		w.settle(futurejobs.Decision{Job: checked})
	}
	w.start(w.slot(), "another")

	both := []futurejobs.HeartbeatRule{{ID: w.rule.ID}, {ID: other.ID, OverdueBefore: overdue}}
	name := w.rule.Name + "/"
	first := []string{name + "another"}
	for i := range 8 {
		first = append(first, fmt.Sprintf("%sk\\%d", name, i))
	}
	state := func(s futurejobs.HeartbeatState) *futurejobs.HeartbeatState { return &s }
	for what, c := range map[string]struct {
		filter futurejobs.HeartbeatFilter
		want   []string
	}{
		"all":             {futurejobs.HeartbeatFilter{Rules: both}, append(slices.Clone(first), "beat/again", "beat/closed", "beat/doubt", "beat/excused", "beat/fail", "beat/held", "beat/late", "beat/new", "beat/recent", "beat/run")},
		"one rule":        {futurejobs.HeartbeatFilter{Rules: both[:1]}, first},
		"no rule":         {futurejobs.HeartbeatFilter{}, nil},
		"an empty rule":   {futurejobs.HeartbeatFilter{Rules: []futurejobs.HeartbeatRule{{ID: silent.ID}}}, nil},
		"a key":           {futurejobs.HeartbeatFilter{Rules: both, Key: `k\3`}, []string{name + `k\3`}},
		"a prefix":        {futurejobs.HeartbeatFilter{Rules: both, KeyPrefix: "l"}, []string{"beat/late"}},
		"paused":          {futurejobs.HeartbeatFilter{Rules: both, State: state(futurejobs.HeartbeatPaused)}, []string{"beat/held"}},
		"late":            {futurejobs.HeartbeatFilter{Rules: both, State: state(futurejobs.HeartbeatLate)}, []string{"beat/late"}},
		"unknown":         {futurejobs.HeartbeatFilter{Rules: both, State: state(futurejobs.HeartbeatUnknown)}, []string{"beat/again", "beat/closed", "beat/doubt", "beat/excused", "beat/fail"}},
		"never reported":  {futurejobs.HeartbeatFilter{Rules: both, State: state(futurejobs.HeartbeatNeverReported)}, []string{"beat/new"}},
		"up":              {futurejobs.HeartbeatFilter{Rules: both, State: state(futurejobs.HeartbeatUp)}, append(slices.Clone(first), "beat/recent", "beat/run")},
		"up of a rule":    {futurejobs.HeartbeatFilter{Rules: both[1:], State: state(futurejobs.HeartbeatUp)}, []string{"beat/recent", "beat/run"}},
		"up and a prefix": {futurejobs.HeartbeatFilter{Rules: both, State: state(futurejobs.HeartbeatUp), KeyPrefix: `k\`}, first[1:]},
	} {
		if diff := cmp.Diff(c.want, w.keysOf(c.filter)); diff != "" {
			t.Errorf("%s (-want +got):\n%s", what, diff)
		}
	}
	if none := must[map[int32]futurejobs.HeartbeatCounts](t)(w.HeartbeatCounts(w.ctx(), nil)); len(none) != 0 {
		t.Errorf("of no rule: %v", none)
	}
	if _, err := w.HeartbeatKeys(w.ctx(), futurejobs.HeartbeatFilter{Rules: both, Cursor: "x"}); !errors.Is(err, futurejobs.ErrBadCursor) {
		t.Errorf("a foreign cursor: %v", err)
	}
	checkUnwatchedKeys(t, w, other)
	checkHeartbeatKeys(t, w, both[1:])
	checkHeartbeatCounts(t, w, both[1], silent.ID)
}

// startFailedHeartbeats starts jobs of keys that failed, failed and run again, and run.
func startFailedHeartbeats(w *fixture, rule *futurejobs.Rule) {
	w.applyManually(reported(w, rule, "fail", `"fail","failed_at":"2026-03-02T10:00:00Z","at":"2026-03-02T10:00:00Z"`),
		reported(w, rule, "again", `"start","failed_at":"2026-03-02T10:00:00Z","at":"2026-03-02T10:05:00Z","no_success":true`),
		reported(w, rule, "closed", `"expected","at":"2026-03-02T10:05:00Z","no_success":true`),
		reported(w, rule, "run", `"start","at":"2026-03-02T10:05:00Z"`))
}

// checkUnwatchedKeys checks the keys without a job, beyond those of one statement.
func checkUnwatchedKeys(t *testing.T, w *fixture, other *futurejobs.Rule) {
	t.Helper()
	many := make([]string, 300)
	for i := range many {
		many[i] = fmt.Sprint("none-", i)
	}
	if diff := cmp.Diff(many, must[[]string](t)(w.UnwatchedKeys(w.ctx(), other.ID, append([]string{"new", "late"}, many...)))); diff != "" {
		t.Errorf("unwatched (-want +got):\n%s", diff)
	}
	if diff := cmp.Diff([]string{`k\9`, "late"}, must[[]string](t)(w.UnwatchedKeys(w.ctx(), w.rule.ID, []string{`k\3`, `k\9`, "late"}))); diff != "" {
		t.Errorf("unwatched of a rule (-want +got):\n%s", diff)
	}
}

// checkHeartbeatKeys checks the fields of the keys of heartbeatKeysAreListed.
func checkHeartbeatKeys(t *testing.T, w *fixture, of []futurejobs.HeartbeatRule) {
	page := must[futurejobs.Page[futurejobs.HeartbeatKey]](t)(w.HeartbeatKeys(w.ctx(), futurejobs.HeartbeatFilter{Rules: of}))
	for _, k := range page.Items {
		if k.ReportedAt().IsZero() != (k.Key == "new") || k.Entity != "host" || k.Excused != (k.Key == "excused") {
			t.Errorf("%s was reported at %s, excused: %v", k.Key, k.ReportedAt(), k.Excused)
		}
		failed := time.Date(2026, 3, 2, 10, 0, 0, 0, time.UTC)
		want := map[string]futurejobs.HeartbeatReport{
			"fail": {At: failed, FailedAt: failed}, "again": {At: failed.Add(5 * time.Minute), FailedAt: failed, NoSuccess: true}, "run": {At: failed.Add(5 * time.Minute)},
			"new": {NoSuccess: true, Awaited: true}, "closed": {At: failed.Add(5 * time.Minute), NoSuccess: true, Awaited: true},
		}[k.Key]
		if k.Report != want || !want.At.IsZero() && k.ReportedAt() != want.At {
			t.Errorf("%s: %+v at %s, want %+v", k.Key, k.Report, k.ReportedAt(), want)
		}
	}
}

// checkHeartbeatCounts checks the counts of the keys of heartbeatKeysAreListed, also when no check was made for two days.
func checkHeartbeatCounts(t *testing.T, w *fixture, other futurejobs.HeartbeatRule, silent int32) {
	t.Helper()
	want := map[int32]futurejobs.HeartbeatCounts{w.rule.ID: {0, 0, 0, 0, 9}, other.ID: {1, 1, 5, 1, 2}}
	counts := func() map[int32]futurejobs.HeartbeatCounts {
		return must[map[int32]futurejobs.HeartbeatCounts](t)(w.HeartbeatCounts(w.ctx(), []futurejobs.HeartbeatRule{{ID: w.rule.ID}, other, {ID: silent}}))
	}
	if diff := cmp.Diff(want, counts()); diff != "" {
		t.Errorf("counts (-want +got):\n%s", diff)
	}

	// A check that is overdue by more than a minute makes the state unknown; an alert stays late.
	w.GoBy(func(reported time.Time) time.Time { return reported.Add(48 * time.Hour) })
	want = map[int32]futurejobs.HeartbeatCounts{w.rule.ID: {0, 0, 9, 0, 0}, other.ID: {1, 1, 8, 0, 0}}
	if diff := cmp.Diff(want, counts()); diff != "" {
		t.Errorf("counts after two days without checks (-want +got):\n%s", diff)
	}
}

// heartbeatPeriodsAreListed checks that the ended jobs of some keys are listed with the time of their first alert.
func heartbeatPeriodsAreListed(t *testing.T, w *fixture) {
	w.start(w.slot(), "a", "b", "c")
	begun := w.one("a")
	w.settle(w.reschedule(begun, w.slot().Add(time.Hour)))
	raised := w.one("a").Alerts[0]
	w.applyManually(w.ending(w.rule, "a"))
	w.applyManually(w.ending(w.rule, "b"), w.ending(w.rule, "c"))

	keys := []futurejobs.Ref{w.ref(w.rule, "a"), w.ref(w.rule, "b"), w.ref(w.rule, "none")}
	periods := func(since time.Time, limit int) []futurejobs.HeartbeatPeriod {
		return must[[]futurejobs.HeartbeatPeriod](t)(w.HeartbeatPeriods(w.ctx(), keys, since, limit))
	}
	found := periods(begun.CreatedAt, 10)
	if len(found) != 2 || found[0].Key != "b" || !found[0].LateAt.IsZero() || found[1].Key != "a" ||
		!found[1].LateAt.Equal(alerts.TimeOf(raised)) || !found[1].CreatedAt.Equal(begun.CreatedAt) || found[1].EndedAt.Before(begun.CreatedAt) {
		t.Errorf("found %+v", found)
	}
	if newest := periods(begun.CreatedAt, 1); len(newest) != 1 || newest[0].Key != "b" {
		t.Errorf("the newest: %+v", newest)
	}
	if later := periods(w.slot().Add(48*time.Hour), 10); len(later) != 0 {
		t.Errorf("later: %+v", later)
	}
}

// badgeKeysAreReplaced checks that a rule has one key for badges until it is deleted, and audits its creation and its end.
func badgeKeysAreReplaced(t *testing.T, w *fixture) {
	ctx, other := access.As(w.ctx(), ada), w.save("other", "order")
	key := func(rule *futurejobs.Rule) string { return string(must[[]byte](t)(w.CreateBadgeKey(ctx, rule.ID))) }
	none := func(what string) {
		t.Helper()
		if _, err := w.BadgeKey(ctx, w.rule.ID); !errors.Is(err, futurejobs.ErrNotFound) {
			t.Errorf("%s: %v", what, err)
		}
	}
	none("before the first badge")
	if err := w.DeleteBadgeKey(ctx, w.rule.ID); !errors.Is(err, futurejobs.ErrNotFound) {
		t.Errorf("no key: %v", err)
	}
	if _, err := w.CreateBadgeKey(ctx, 999); !errors.Is(err, futurejobs.ErrNotFound) {
		t.Errorf("no rule: %v", err)
	}
	first := key(w.rule)
	if len(first) != 32 || key(w.rule) != first || key(other) == first || string(must[[]byte](t)(w.BadgeKey(ctx, w.rule.ID))) != first {
		t.Errorf("the key is %x", first)
	}
	w.must(w.DeleteBadgeKey(ctx, w.rule.ID))
	none("revoked")
	if key(w.rule) == first {
		t.Error("a new key equals the revoked one")
	}
	var audited []string
	for _, e := range auditEntries(w, access.AuditFilter{Action: "badge.*"}) {
		audited = append(audited, e.Actor.Name+" "+e.Action+" "+e.Object)
	}
	if want := []string{"ada badge.create rule/order-unshipped", "ada badge.revoke rule/order-unshipped", "ada badge.create rule/other", "ada badge.create rule/order-unshipped"}; !cmp.Equal(audited, want) {
		t.Errorf("audited %q", audited)
	}
	must[int32](t)(w.Delete(ctx, w.rule.Name, rules.AnyVersion))
	none("of a deleted rule")
	must[store.Pruned](t)(w.Prune(ctx, store.Retention{}))
	if _, err := w.BadgeKey(ctx, other.ID); err != nil {
		t.Errorf("the key of another rule: %v", err)
	}
}
