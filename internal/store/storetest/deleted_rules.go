package storetest

import (
	"errors"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	futurejobs "deadman/future_jobs"
	"deadman/rules"
)

func rulesAreDeleted(t *testing.T, w *fixture) {
	other := w.save("payment-missing", "payment")
	w.start(w.slot(), "a", "b", "c")
	w.applyManually(w.starting(other, "p", w.slot()))
	decided := w.settlement(w.exhausted(w.one("a")))
	if id := must[int32](t)(w.Delete(w.ctx(), w.rule.Name, 1)); id != w.rule.ID {
		t.Errorf("deleted %d, want %d", id, w.rule.ID)
	}
	if _, err := w.Settle(w.ctx(), decided); !errors.Is(err, futurejobs.ErrRulesChanged) {
		t.Errorf("settle: %v, want ErrRulesChanged", err)
	}
	var loaded []rules.RuleVersion
	var err error
	w.set, loaded, err = w.Load(w.ctx())
	w.must(err)
	if len(loaded) != 1 || loaded[0].RuleID != other.ID {
		t.Errorf("loaded %+v, want the other rule alone", loaded)
	}
	if v := must[rules.RuleVersion](t)(w.Version(w.ctx(), w.rule.ID, 1)); v.DeletedAt.IsZero() || v.Name != w.rule.Name {
		t.Errorf("a version of it: %+v", v)
	}
	checkNotFound(w, func() error { _, err := w.Delete(w.ctx(), w.rule.Name, rules.AnyVersion); return err })
	checkNotFound(w, func() error { return w.Pause(w.ctx(), w.rule.Name, true) })
	checkRulesLeft(w, w.rule.ID)
	purge(w, w.rule)
	checkRulesLeft(w)
	checkRulesLeft(w) // and again, now that it is marked as purged
	if len(w.all()) != 1 || len(w.unpublished()) != 0 {
		t.Errorf("%d jobs and %d alerts, want the other rule's job alone", len(w.all()), len(w.unpublished()))
	}
	for _, e := range w.ended() {
		if e.Outcome != "rule_deleted" || e.Rule != w.rule.Name {
			t.Errorf("history: %+v", e)
		}
	}
	checkBalance(w, 4)
}

func checkNotFound(w *fixture, change func() error) {
	w.t.Helper()
	if err := change(); !errors.Is(err, futurejobs.ErrNotFound) {
		w.t.Errorf("%v, want ErrNotFound", err)
	}
}

// checkRulesLeft fails the test unless exactly these deleted rules have jobs.
func checkRulesLeft(w *fixture, want ...int32) {
	w.t.Helper()
	if diff := cmp.Diff(want, must[[]int32](w.t)(w.Deleted(w.ctx()))); diff != "" {
		w.t.Errorf("deleted rules with jobs (-want +got):\n%s", diff)
	}
}

// purge ends the jobs of a deleted rule, two at a time.
func purge(w *fixture, rule *futurejobs.Rule) {
	w.t.Helper()
	for {
		jobs := must[[]futurejobs.Job](w.t)(w.JobsOf(w.ctx(), rule.ID, futurejobs.Ref{}, 2))
		if len(jobs) == 0 {
			return
		}
		effects := make([]futurejobs.Effect, len(jobs))
		for i, j := range jobs {
			effects[i] = futurejobs.Purge(rule, j.Ref)
		}
		if got := w.applyManually(effects...); got.Ended != len(jobs) || len(got.Alerts) != 0 {
			w.t.Fatalf("purged %+v of %d", got, len(jobs))
		}
	}
}

func deletedNamesAreReusable(t *testing.T, w *fixture) {
	w.start(w.slot(), "a", "b")
	w.settle(w.exhausted(w.one("b")))
	must[int32](t)(w.Delete(w.ctx(), w.rule.Name, rules.AnyVersion))
	next := w.save(w.rule.Name, "parcel")
	if next.ID == w.rule.ID || next.Version != w.rule.Version+1 {
		t.Fatalf("it came back as %+v, was %+v", next, w.rule)
	}
	w.applyManually(w.starting(next, "a", w.slot().Add(time.Hour)))
	for _, f := range []futurejobs.Filter{{Rule: w.rule.Name}, {RulePrefix: "order-"}, {Rule: w.rule.Name, Key: "a"}} {
		if jobs := pages(t, f, w.Jobs); len(jobs) != 2 || jobs[0].Entity != "order" || jobs[1].Entity != "parcel" {
			t.Errorf("%+v: %+v, want the job of each", f, jobs)
		}
	}
	if j := must[futurejobs.ListedJob](t)(w.Job(w.ctx(), w.rule.Name, "a")); j.RuleID != next.ID {
		t.Errorf("the job is of rule %d, want that of now, %d", j.RuleID, next.ID)
	}
	w.applyManually(w.ending(next, "a"))
	for _, f := range []futurejobs.Filter{{Rule: w.rule.Name}, {Rule: w.rule.Name, Limit: 1}} {
		if ended := pages(t, f, w.History); len(ended) != 2 || ended[0].Entity != "parcel" || ended[1].Entity != "order" {
			t.Errorf("history: %+v, want that of each", ended)
		}
	}
	if listed := pages(t, futurejobs.Filter{Rule: w.rule.Name}, w.Alerts); len(listed) != 1 || listed[0].RuleID != w.rule.ID {
		t.Errorf("alerts: %+v", listed)
	}
	checkRulesLeft(w, w.rule.ID)
}

// deletedRulesRaiseNoAlerts checks that no alert of a rule is decided once its deletion is committed, even with settles in
// progress.
func deletedRulesRaiseNoAlerts(t *testing.T, w *fixture) {
	w.start(w.slot(), "a", "b", "c", "d")
	var settlers sync.WaitGroup
	var deleted atomic.Bool
	for _, j := range w.all() {
		settlers.Go(func() {
			for {
				late := deleted.Load()
				settled, err := w.Settle(w.ctx(), w.settlement(w.reschedule(j, j.NextCheckAt.Add(time.Minute))))
				if errors.Is(err, futurejobs.ErrRulesChanged) {
					return
				}
				if err != nil || !settled.Jobs[j.ID] || late {
					t.Errorf("settle, begun after the deletion: %v: %+v, %v", late, settled, err)
					return
				}
				j.Rev, j.CheckCount, j.NextCheckAt = j.Rev+1, j.CheckCount+1, j.NextCheckAt.Add(time.Minute)
			}
		})
	}
	for len(w.unpublished()) < 20 { // until they are running
		if t.Failed() {
			break
		}
	}
	must[int32](t)(w.Delete(w.ctx(), w.rule.Name, rules.AnyVersion))
	unpublished := len(w.unpublished())
	deleted.Store(true)
	settlers.Wait()
	if now := len(w.unpublished()); now != unpublished {
		t.Errorf("%d alerts when the deletion was committed, %d in the end", unpublished, now)
	}
}
