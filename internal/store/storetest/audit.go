package storetest

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"deadman/checks"
	futurejobs "deadman/future_jobs"
	"deadman/internal/access"
	"deadman/rules"
)

// ada is the actor of manual changes.
var ada = access.Actor{Name: "ada", TokenID: "t1", Addr: "127.0.0.1:9"}

// audited returns the audit log, oldest first, as "actor action object detail".
func audited(w *fixture, f access.AuditFilter) []string {
	w.t.Helper()
	entries, _, err := w.Audit(w.ctx(), f)
	w.must(err)
	lines := make([]string, len(entries))
	for i, e := range entries {
		if e.At.IsZero() {
			w.t.Errorf("entry %d has no time", e.ID)
		}
		lines[len(entries)-1-i] = e.Actor.Name + " " + e.Action + " " + e.Object + " " + e.Detail
	}
	return lines
}

func actionsAreAudited(t *testing.T, w *fixture) {
	ctx := access.As(w.ctx(), ada)
	by := func(action string, effects ...futurejobs.Effect) {
		t.Helper()
		must[futurejobs.ApplyResult](t)(w.Apply(ctx, futurejobs.EffectBatch{RuleSet: w.set, Effects: effects, AuditAction: action}))
	}
	w.start(w.slot(), "unaudited")
	by("job.create", w.starting(w.rule, "a", w.slot()), w.starting(w.rule, "b\x00", w.slot()))
	by("job.create", w.starting(w.rule, "a", w.slot())) // it exists
	until := w.slot().Add(time.Hour)
	by("job.snooze", actionEffect(w, w.rule, "a", time.Time{}, futurejobs.Snooze{Until: until}))
	by("job.cancel", futurejobs.Cancel(w.rule, w.ref(w.rule, "a"), "ada"), futurejobs.Cancel(w.rule, w.ref(w.rule, "no such"), "ada"))
	by("job.cancel", futurejobs.Cancel(w.rule, w.ref(w.rule, "a"), "ada")) // it no longer exists
	stale := futurejobs.EffectBatch{RuleSet: w.set - 1, AuditAction: "job.cancel", Effects: []futurejobs.Effect{futurejobs.Cancel(w.rule, w.ref(w.rule, "b\x00"), "ada")}}
	if _, err := w.Apply(ctx, stale); err == nil {
		t.Fatal("an action under old rules was applied")
	}
	w.must(w.Note(ctx, "job.check", "job/order-unshipped/b\x00", "still\x00 waiting"))
	want := []string{
		"ada job.create job/order-unshipped/a ", "ada job.create job/order-unshipped/b\x00 ",
		"ada job.snooze job/order-unshipped/a until " + until.UTC().Format(time.RFC3339), "ada job.cancel job/order-unshipped/a ",
		"ada job.check job/order-unshipped/b\x00 still\x00 waiting",
	}
	if diff := cmp.Diff(want, audited(w, access.AuditFilter{Object: "job/*"})); diff != "" {
		t.Errorf("audited (-want +got):\n%s", diff)
	}
	if ended := w.ended(); len(ended) != 1 || ended[0].Outcome != checks.Cancelled || ended[0].Reason != "by ada" {
		t.Errorf("the history does not name who cancelled it: %+v", ended)
	}
}

// unknownActionsAreRefused checks that an action missing from access.Actions is not written, and that the change with
// that action is not made.
func unknownActionsAreRefused(t *testing.T, w *fixture) {
	ctx := access.As(w.ctx(), ada)
	effect := w.starting(w.rule, "a", w.slot())
	for _, bulk := range []bool{false, true} {
		b := futurejobs.EffectBatch{RuleSet: w.set, Effects: []futurejobs.Effect{effect}, AuditAction: "job.forget", Bulk: bulk}
		if _, err := w.Apply(ctx, b); err == nil || !strings.Contains(err.Error(), `"job.forget"`) {
			t.Errorf("bulk %v: an unknown action is applied: %v", bulk, err)
		}
	}
	if err := w.Note(ctx, "job.forget", "job/order-unshipped/a", ""); err == nil || !strings.Contains(err.Error(), "access.Actions") {
		t.Errorf("an unknown action is noted: %v", err)
	}
	if _, err := w.Job(ctx, w.rule.Name, "a"); !errors.Is(err, futurejobs.ErrNotFound) {
		t.Errorf("the job of a refused action: %v", err)
	}
	if got := audited(w, access.AuditFilter{Actor: "ada"}); len(got) != 0 {
		t.Errorf("audited: %q", got)
	}
}

func changesOfRulesAreAudited(t *testing.T, w *fixture) {
	ctx := access.As(context.WithoutCancel(w.ctx()), ada)
	saved := rules.RuleVersion{Name: "r", Entity: "e", Document: []byte(`{}`)}
	must[rules.RuleVersion](t)(w.Save(ctx, saved, 0))
	must[rules.RuleVersion](t)(w.Save(ctx, saved, 1))
	if _, err := w.Save(ctx, saved, 1); err == nil {
		t.Fatal("saved over another version")
	}
	for _, paused := range []bool{true, true, false, false} { // each second one changes nothing
		w.must(w.Pause(ctx, "r", paused))
	}
	must[int32](t)(w.Delete(ctx, "r", 2))
	want := []string{
		"ada rule.save rule/r version 1", "ada rule.save rule/r version 2",
		"ada rule.pause rule/r ", "ada rule.resume rule/r ", "ada rule.delete rule/r version 2",
	}
	if diff := cmp.Diff(want, audited(w, access.AuditFilter{Object: "rule/r"})); diff != "" {
		t.Errorf("audited (-want +got):\n%s", diff)
	}
}

// auditEntries reads the audit log to its end.
func auditEntries(w *fixture, f access.AuditFilter) (entries []access.AuditEntry) {
	w.t.Helper()
	for {
		page, next, err := w.Audit(w.ctx(), f)
		w.must(err)
		entries = append(entries, page...)
		if next == "" {
			return entries
		}
		f.Cursor = next
	}
}

// withActor returns a context of an actor.
func withActor(w *fixture, a access.Actor) context.Context { return access.As(w.ctx(), a) }

func auditNamesActor(t *testing.T, w *fixture) {
	before := must[time.Time](t)(w.Now(w.ctx()))
	odd := access.Actor{Name: "a\\\x00\xff☃", TokenID: "7", Addr: "[::1]:80"}
	w.must(w.InsertToken(withActor(w, odd), newToken(w, "ci")))
	w.must(w.RevokeToken(w.ctx(), "ci", w.at))
	entries := auditEntries(w, access.AuditFilter{Object: "token/ci"})
	if len(entries) != 2 {
		t.Fatalf("%d entries, want 2", len(entries))
	}
	if entries[1].Actor != odd || entries[0].Actor != (access.Actor{Name: access.NodeItself}) {
		t.Errorf("done by %+v, then by %+v", entries[1].Actor, entries[0].Actor)
	}
	after := must[time.Time](t)(w.Now(w.ctx()))
	for _, e := range entries { // the database's time, and not the caller's
		if e.At.Before(before) || e.At.After(after) {
			t.Errorf("entry at %s, want within %s and %s", e.At, before, after)
		}
	}
	if entries[0].ID <= entries[1].ID {
		t.Errorf("ids %d, then %d", entries[1].ID, entries[0].ID)
	}
}

func auditIsFiltered(t *testing.T, w *fixture) {
	for i, name := range []string{"acme-1", "acme-2", "acme_3", "Acme-4", "acme%5", "acme\u2603"} {
		actor := access.Actor{Name: "alice"}
		if i%2 == 1 {
			actor.Name = "file:shop"
		}
		w.must(w.InsertToken(withActor(w, actor), newToken(w, name)))
	}
	w.must(w.RevokeToken(withActor(w, access.Actor{Name: "alan"}), "acme-1", w.at))
	all := auditEntries(w, access.AuditFilter{Object: "token/*"}) // newest first
	for _, c := range []struct {
		f    access.AuditFilter
		want string // the indexes in all
	}{
		{access.AuditFilter{Object: "token/acme-1"}, "0 6"},
		{access.AuditFilter{Object: "token/acme-*"}, "0 5 6"},
		{access.AuditFilter{Object: "token/acme_*"}, "4"},
		{access.AuditFilter{Object: "token/acme%*"}, "2"},
		{access.AuditFilter{Object: "token/acme"}, ""},
		{access.AuditFilter{Object: "token/acm*"}, "0 1 2 4 5 6"},
		{access.AuditFilter{Object: "token/acme*"}, "0 1 2 4 5 6"},
		{access.AuditFilter{Object: "*oken/acme-1"}, ""},
		{access.AuditFilter{Object: "token/*", Actor: "alice"}, "2 4 6"},
		{access.AuditFilter{Object: "token/*", Actor: "al*"}, "0 2 4 6"},
		{access.AuditFilter{Object: "token/*", Actor: "file:*"}, "1 3 5"},
		{access.AuditFilter{Action: "token.revoke"}, "0"},
		{access.AuditFilter{Action: "token.*"}, "0 1 2 3 4 5 6"},
		{access.AuditFilter{Action: "token.*", Actor: "alice", Object: "token/acme-*"}, "6"},
		{access.AuditFilter{Action: "*", Object: "token/*", Actor: "*"}, "0 1 2 3 4 5 6"},
		{access.AuditFilter{Object: "token/\x00\xff*"}, ""},
		{access.AuditFilter{Object: "token/*", After: all[3].At}, positions(all, func(e access.AuditEntry) bool { return !e.At.Before(all[3].At) })},
		{access.AuditFilter{Object: "token/*", Before: all[3].At}, positions(all, func(e access.AuditEntry) bool { return e.At.Before(all[3].At) })},
		{access.AuditFilter{Object: "token/*", Before: all[6].At}, ""},
	} {
		for _, limit := range []int{1, 2, 0} {
			c.f.Limit = limit
			ids := make(map[int64]bool)
			for _, e := range auditEntries(w, c.f) {
				ids[e.ID] = true
			}
			if got := positions(all, func(e access.AuditEntry) bool { return ids[e.ID] }); got != c.want || len(ids) != len(strings.Fields(c.want)) {
				t.Errorf("%+v: %q of %d, want %q", c.f, got, len(ids), c.want)
			}
		}
	}
}

// positions returns the indexes of the wanted entries in a list.
func positions(entries []access.AuditEntry, wanted func(access.AuditEntry) bool) string {
	var at []string
	for i, e := range entries {
		if wanted(e) {
			at = append(at, fmt.Sprint(i))
		}
	}
	return strings.Join(at, " ")
}

func auditIsPaged(t *testing.T, w *fixture) {
	for i := range 60 {
		insert(w, fmt.Sprint("t", i))
	}
	whole := auditEntries(w, access.AuditFilter{Object: "token/*", Limit: 500})
	if len(whole) != 60 || whole[0].Object != "token/t59" || whole[59].Object != "token/t0" {
		t.Fatalf("%d entries, want 60, newest first", len(whole))
	}
	for _, limit := range []int{1, 7, 60} {
		if diff := cmp.Diff(whole, auditEntries(w, access.AuditFilter{Object: "token/*", Limit: limit})); diff != "" {
			t.Errorf("in pages of %d (-whole +pages):\n%s", limit, diff)
		}
	}
	for limit, want := range map[int]int{1: 1, 59: 59, 61: 60, 0: 50} {
		if page, _, err := w.Audit(w.ctx(), access.AuditFilter{Object: "token/*", Limit: limit}); err != nil || len(page) != want {
			t.Errorf("%d entries in a page of %d, %v, want %d", len(page), limit, err, want)
		}
	}
	f := access.AuditFilter{Object: "token/*"}
	_, next, err := w.Audit(w.ctx(), f)
	w.must(err)
	insert(w, "later") // new entries do not appear on the remaining pages
	f.Cursor = next
	if diff := cmp.Diff(whole[50:], auditEntries(w, f)); diff != "" {
		t.Errorf("the rest (-want +got):\n%s", diff)
	}
	createJobs(w, 2)
	jobs := must[futurejobs.Page[futurejobs.ListedJob]](t)(w.Jobs(w.ctx(), futurejobs.Filter{Limit: 1}))
	for _, cursor := range []string{"nonsense", "!", "e30", jobs.Next} {
		if _, _, err := w.Audit(w.ctx(), access.AuditFilter{Cursor: cursor}); !errors.Is(err, futurejobs.ErrBadCursor) {
			t.Errorf("from %q: %v, want ErrBadCursor", cursor, err)
		}
	}
}

func auditIsPruned(t *testing.T, w *fixture) {
	// Tokens end by the access package's time; entries have the database's time.
	now := must[time.Time](t)(w.Now(w.ctx()))
	expired, revoked, live := newToken(w, "expired"), newToken(w, "revoked"), newToken(w, "live")
	expired.ExpiresAt, live.ExpiresAt = now.Add(-2*time.Hour), now.Add(2*futurejobs.Day)
	for _, token := range []access.Token{expired, revoked, live} {
		w.must(w.InsertToken(w.ctx(), token))
	}
	w.must(w.RevokeToken(w.ctx(), "revoked", now.Add(-time.Minute)))
	left := func(before time.Time, tokens string, actions int) {
		t.Helper()
		entries := len(auditEntries(w, access.AuditFilter{}))
		pruned := must[int64](t)(w.PruneAudit(w.ctx(), before))
		rest := len(auditEntries(w, access.AuditFilter{}))
		if int(pruned) != entries-rest || len(tokenAudit(w)) != actions {
			t.Errorf("pruned %d of %d entries, %d left, %d about tokens", pruned, entries, rest, len(tokenAudit(w)))
		}
		names := keysOf(must[[]access.Token](t)(w.Tokens(w.ctx())), func(t access.Token) string { return t.Name })
		slices.Sort(names)
		if got := strings.Join(names, " "); got != tokens {
			t.Errorf("tokens left: %s, want %s", got, tokens)
		}
	}
	left(now.Add(-3*time.Hour), "expired live revoked", 4)
	left(now.Add(-time.Hour), "live revoked", 4)
	left(now.Add(futurejobs.Day), "live", 0)
	w.must(w.RevokeToken(w.ctx(), "live", now))
	must[int64](t)(w.PruneAudit(w.ctx(), now.Add(3*futurejobs.Day)))
	if got := must[[]access.Token](t)(w.Tokens(w.ctx())); len(got) != 1 || got[0].Name != "live" {
		t.Errorf("of the tokens, all of which ended, %v is left, want the newest", got)
	}
	insert(w, "next")
	if got := tokenAudit(w); len(got) != 1 || got[0] != "token.create token/next" {
		t.Errorf("the audit goes on with %v", got)
	}
}
