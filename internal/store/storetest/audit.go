package storetest

import (
	"context"
	"errors"
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
	by("job.snooze", asking(w, w.rule, "a", time.Time{}, futurejobs.Snooze{Until: w.slot().Add(time.Hour)}))
	by("job.cancel", futurejobs.Cancel(w.rule, w.ref(w.rule, "a"), "ada"), futurejobs.Cancel(w.rule, w.ref(w.rule, "no such"), "ada"))
	by("job.cancel", futurejobs.Cancel(w.rule, w.ref(w.rule, "a"), "ada")) // it no longer exists
	stale := futurejobs.EffectBatch{RuleSet: w.set - 1, AuditAction: "job.cancel", Effects: []futurejobs.Effect{futurejobs.Cancel(w.rule, w.ref(w.rule, "b\x00"), "ada")}}
	if _, err := w.Apply(ctx, stale); err == nil {
		t.Fatal("an action under old rules was applied")
	}
	w.must(w.Note(ctx, "job.check", "job/order-unshipped/b\x00", "still\x00 waiting"))
	want := []string{
		"ada job.create job/order-unshipped/a ", "ada job.create job/order-unshipped/b\x00 ",
		"ada job.snooze job/order-unshipped/a ", "ada job.cancel job/order-unshipped/a ",
		"ada job.check job/order-unshipped/b\x00 still\x00 waiting",
	}
	if diff := cmp.Diff(want, audited(w, access.AuditFilter{Object: "job/*"})); diff != "" {
		t.Errorf("audited (-want +got):\n%s", diff)
	}
	if ended := w.ended(); len(ended) != 1 || ended[0].Outcome != checks.Cancelled || ended[0].Reason != "by ada" {
		t.Errorf("the history does not say who cancelled it: %+v", ended)
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
