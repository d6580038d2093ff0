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
	"github.com/google/go-cmp/cmp/cmpopts"

	"deadman/checks"
	futurejobs "deadman/future_jobs"
)

// createJobs starts n jobs over three slots.
func createJobs(w *fixture, n int) {
	effects := make([]futurejobs.Effect, n)
	for i := range effects {
		effects[i] = w.starting(w.rule, fmt.Sprintf("k%03d", i), w.slot().Add(time.Duration(i%3)*time.Minute))
	}
	w.applyManually(effects...)
}

func keysOf[T any](items []T, key func(T) string) []string {
	keys := make([]string, len(items))
	for i, item := range items {
		keys[i] = key(item)
	}
	return keys
}

func distinct(keys []string) int {
	keys = slices.Sorted(slices.Values(keys))
	return len(slices.Compact(keys))
}

func jobsAreListed(t *testing.T, w *fixture) {
	createJobs(w, 100)
	whole := pages(t, futurejobs.Filter{Limit: 500}, w.Jobs)
	for _, limit := range []int{1, 7, 100} {
		got := pages(t, futurejobs.Filter{Limit: limit}, w.Jobs)
		if diff := cmp.Diff(whole, got); diff != "" {
			t.Fatalf("in pages of %d (-whole +pages):\n%s", limit, diff)
		}
	}
	for i, l := range whole {
		if rest := pages(t, futurejobs.Filter{Limit: 500, Cursor: w.JobCursor(l)}, w.Jobs); !cmp.Equal(rest, whole[i+1:], cmpopts.EquateEmpty()) {
			t.Fatalf("%d jobs after job %d of %d", len(rest), i+1, len(whole))
		}
	}
	if !slices.IsSortedFunc(whole, func(a, b futurejobs.ListedJob) int { return a.NextCheckAt.Compare(b.NextCheckAt) }) {
		t.Error("not next due first")
	}
	if n := distinct(keysOf(whole, func(l futurejobs.ListedJob) string { return l.Key })); n != 100 {
		t.Errorf("%d different keys of 100", n)
	}
	if whole[0].Rule != w.rule.Name || whole[0].Entity != w.rule.Entity {
		t.Errorf("of rule %q and entity %q", whole[0].Rule, whole[0].Entity)
	}
	if page := must[futurejobs.Page[futurejobs.ListedJob]](t)(w.Jobs(w.ctx(), futurejobs.Filter{})); len(page.Items) != 50 {
		t.Errorf("%d items without a limit, want 50", len(page.Items))
	}
}

func jobsAreFiltered(t *testing.T, w *fixture) {
	other := w.save("payment-missing", "payment")
	third := w.save("order-unpaid", "order")
	slot := w.slot()
	w.applyManually(
		w.starting(w.rule, "1", slot), w.starting(w.rule, "2", slot.Add(time.Minute)),
		w.starting(third, "1", slot.Add(2*time.Minute)),
		w.starting(other, "1", slot.Add(3*time.Minute)),
	)
	for want, f := range map[string]futurejobs.Filter{
		"order-unshipped/1 order-unshipped/2 order-unpaid/1 payment-missing/1": {},
		"order-unshipped/1 order-unshipped/2":                                  {Rule: "order-unshipped"},
		"order-unshipped/1 order-unshipped/2 order-unpaid/1":                   {Entity: "order"},
		"order-unshipped/1 order-unpaid/1 payment-missing/1":                   {Key: "1"},
		"order-unshipped/1 order-unpaid/1":                                     {Entity: "order", Key: "1"},
		"order-unpaid/1":                                                       {RulePrefix: "order-unp"},
		"order-unshipped/2":                                                    {RulePrefix: "order-", Key: "2"},
		"payment-missing/1":                                                    {Rule: "payment-missing", Key: "1"},
		"order-unshipped/2 order-unpaid/1":                                     {DueAfter: slot.Add(time.Minute), DueBefore: slot.Add(3 * time.Minute)},
		"":                                                                     {Rule: "no-such-rule"},
	} {
		got := keysOf(pages(t, f, w.Jobs), func(l futurejobs.ListedJob) string { return l.Rule + "/" + l.Key })
		if strings.Join(got, " ") != want {
			t.Errorf("%+v: %v, want %s", f, got, want)
		}
	}
	if _, err := w.Job(w.ctx(), "order-unpaid", "2"); !errors.Is(err, futurejobs.ErrNotFound) {
		t.Errorf("no such job: %v, want ErrNotFound", err)
	}
	if j, err := w.Job(w.ctx(), "payment-missing", "1"); err != nil || j.Rule != "payment-missing" || j.Key != "1" {
		t.Errorf("job: %+v, %v", j, err)
	}
}

// oddKeys are keys with special sort orders and escapes.
var oddKeys = []string{
	"a", "ab", "ab\"c", "ab\"c\\d", "ab\\", "ab\\x41", "ab\nc", "ab\x00c", "ab\xffc", "abé", "ab\ud7ff", "ab\ue000", "ab\U0010ffff", "ab\U0010ffffz", "ac", "b",
}

// jobsAreFoundByTheirKeys checks that keys are found by any prefix, for few and many jobs.
func jobsAreFoundByTheirKeys(t *testing.T, w *fixture) {
	other := w.save("payment-missing", "payment")
	var effects []futurejobs.Effect
	for i, key := range oddKeys {
		effects = append(effects, w.starting(w.rule, key, w.slot().Add(time.Duration(i%4)*time.Minute)))
	}
	for i := range 3000 {
		effects = append(effects, w.starting(other, fmt.Sprintf("k%04d", i), w.slot().Add(time.Duration(i*7%90)*time.Minute)))
	}
	w.applyManually(effects...)
	whole := pages(t, futurejobs.Filter{Limit: 500}, w.Jobs)
	if len(whole) != len(effects) {
		t.Fatalf("%d jobs, want %d", len(whole), len(effects))
	}
	late := w.slot().Add(40 * time.Minute)
	for _, f := range []futurejobs.Filter{
		{KeyPrefix: "a"},
		{KeyPrefix: "ab"},
		{KeyPrefix: "ab\""},
		{KeyPrefix: "ab\"c\\"},
		{KeyPrefix: "ab\\"},
		{KeyPrefix: "ab\n"},
		{KeyPrefix: "abé"},
		{KeyPrefix: "ab\ud7ff"},
		{KeyPrefix: "ab\U0010ffff"},
		{KeyPrefix: "\U0010ffff"},
		{KeyPrefix: "none"},
		{KeyPrefix: "%"},
		{KeyPrefix: "a_"},
		{KeyPrefix: "k"},
		{KeyPrefix: "k00"},
		{KeyPrefix: "k2", DueAfter: late},
		{KeyPrefix: "k", DueBefore: late},
		{KeyPrefix: "k01", DueAfter: late, DueBefore: late.Add(time.Hour)},
		{KeyPrefix: "k", Rule: other.Name},
		{KeyPrefix: "k", Rule: w.rule.Name},
		{KeyPrefix: "k0", Entity: "payment"},
		{KeyPrefix: "a", RulePrefix: "order"},
		{KeyPrefix: "k00", Key: "k0012"},
		{KeyPrefix: "k01", Key: "k0012"},
		{Rule: other.Name, DueAfter: late},
	} {
		var want []futurejobs.ListedJob
		for _, l := range whole {
			if strings.HasPrefix(l.Key, f.KeyPrefix) && (f.Key == "" || l.Key == f.Key) && (f.Rule == "" || l.Rule == f.Rule) &&
				(f.Entity == "" || l.Entity == f.Entity) && strings.HasPrefix(l.Rule, f.RulePrefix) &&
				!l.NextCheckAt.Before(f.DueAfter) && (f.DueBefore.IsZero() || l.NextCheckAt.Before(f.DueBefore)) {
				want = append(want, l)
			}
		}
		for _, f.Limit = range []int{7, 400} {
			if f.Limit == 7 && len(want) > 300 {
				continue
			}
			if diff := cmp.Diff(want, pages(t, f, w.Jobs), cmpopts.EquateEmpty()); diff != "" {
				t.Errorf("%+v (-want +got):\n%s", f, diff)
			}
		}
	}
}

func jobsAreListedWhileTheyMove(t *testing.T, w *fixture) {
	createJobs(w, 60)
	f := futurejobs.Filter{Limit: 20}
	first := must[futurejobs.Page[futurejobs.ListedJob]](t)(w.Jobs(w.ctx(), f))
	for _, l := range first.Items[:10] { // listed jobs end
		w.applyManually(w.ending(w.rule, l.Key))
	}
	w.start(w.slot().Add(-time.Hour), "earlier") // and a new job before the cursor does not appear twice
	f.Cursor = first.Next
	rest := pages(t, f, w.Jobs)
	seen := append(first.Items, rest...)
	keys := keysOf(seen, func(l futurejobs.ListedJob) string { return l.Key })
	if len(keys) != 60 || distinct(keys) != 60 {
		t.Errorf("%d items, %d of them different, want 60", len(keys), distinct(keys))
	}
}

func historyIsListed(t *testing.T, w *fixture) {
	other := w.save("payment-missing", "payment")
	var order []string // in the order of their ends
	for i := range 30 {
		rule, key := w.rule, fmt.Sprintf("k%d", i%10)
		if i%5 == 0 {
			rule = other
		}
		w.applyManually(w.starting(rule, key, w.slot()))
		w.applyManually(w.ending(rule, key))
		order = append(order, rule.Name+"/"+key)
	}
	slices.Reverse(order)
	name := func(e futurejobs.EndedJob) string { return e.Rule + "/" + e.Key }
	for _, limit := range []int{1, 7, 500} {
		got := keysOf(pages(t, futurejobs.Filter{Limit: limit}, w.History), name)
		if diff := cmp.Diff(order, got); diff != "" {
			t.Errorf("in pages of %d (-newest first +got):\n%s", limit, diff)
		}
	}
	for _, f := range []futurejobs.Filter{
		{Rule: "payment-missing"},
		{Entity: "order"},
		{Key: "k5"},
		{Key: "k3", Rule: "order-unshipped"},
		{Rule: "none"},
		{RulePrefix: "order-"},
		{RulePrefix: "order_"},
		{RulePrefix: "payment", Key: "k5"},
	} {
		want := slices.DeleteFunc(slices.Clone(order), func(n string) bool {
			rule, key, _ := strings.Cut(n, "/")
			return f.Rule != "" && rule != f.Rule || f.Key != "" && key != f.Key || f.Entity != "" && !strings.HasPrefix(rule, f.Entity) ||
				!strings.HasPrefix(rule, f.RulePrefix)
		})
		f.Limit = 2
		if diff := cmp.Diff(want, keysOf(pages(t, f, w.History), name), cmpEmpty); diff != "" {
			t.Errorf("%+v (-want +got):\n%s", f, diff)
		}
	}
	// Many jobs that end at the same instant.
	createJobs(w, 50)
	var decisions []futurejobs.Decision
	for _, j := range w.all() {
		decisions = append(decisions, w.exhausted(j))
	}
	w.settle(decisions...)
	got := keysOf(pages(t, futurejobs.Filter{Limit: 7}, w.History), func(e futurejobs.EndedJob) string { return fmt.Sprint(e.ID) })
	if len(got) != 80 || distinct(got) != 80 {
		t.Errorf("%d rows, %d of them different, want 80", len(got), distinct(got))
	}
}

// cmpEmpty treats an empty list and nil as equal.
var cmpEmpty = cmp.Transformer("empty", func(s []string) []string {
	if s == nil {
		return []string{}
	}
	return s
})

func historyIsFiltered(t *testing.T, w *fixture) {
	for i := range 12 {
		outcome := checks.Outcome([]string{"resolved", "shipped", "cleared"}[i%3])
		key := fmt.Sprintf("k%d", i%2)
		w.applyManually(w.starting(w.rule, key, w.slot()))
		w.applyManually(actionEffect(w, w.rule, key, time.Time{}, futurejobs.End{Outcome: outcome}))
	}
	whole := w.ended()
	second, tenth := whole[10].EndedAt, whole[2].EndedAt
	for _, f := range []futurejobs.Filter{
		{Outcome: "shipped"},
		{Outcome: "none"},
		{After: second},
		{Before: tenth},
		{After: second, Before: tenth},
		{After: second, Before: second},
		{After: second, Outcome: "cleared", Rule: w.rule.Name},
		{Before: whole[11].EndedAt},
		{After: whole[0].EndedAt.AddDate(0, 0, 40)},
		{Before: whole[0].EndedAt.AddDate(0, 0, 40), After: second.AddDate(0, 0, -40)},
	} {
		for _, f.Key = range []string{"", "k0"} {
			want := slices.DeleteFunc(slices.Clone(whole), func(e futurejobs.EndedJob) bool {
				return f.Key != "" && e.Key != f.Key || f.Outcome != "" && e.Outcome != f.Outcome || outside(e.EndedAt, f)
			})
			for _, f.Limit = range []int{1, 500} {
				if diff := cmp.Diff(want, pages(t, f, w.History), cmpopts.EquateEmpty()); diff != "" {
					t.Errorf("%+v (-want +got):\n%s", f, diff)
				}
			}
		}
	}
}

// outside reports whether an instant is outside a filter's range.
func outside(at time.Time, f futurejobs.Filter) bool {
	return at.Before(f.After) || !f.Before.IsZero() && !at.Before(f.Before)
}

func cursorOfOtherListIsRefused(t *testing.T, w *fixture) {
	createJobs(w, 3)
	jobs := must[futurejobs.Page[futurejobs.ListedJob]](t)(w.Jobs(w.ctx(), futurejobs.Filter{Limit: 1}))
	for _, cursor := range []string{"nonsense", "!", "e30", jobs.Next} {
		f := futurejobs.Filter{Cursor: cursor}
		for name, list := range map[string]func(context.Context, futurejobs.Filter) error{
			"history": errorOf(w.History), "alerts": errorOf(w.Alerts), "dead letters": errorOf(w.DeadLetters),
		} {
			if err := list(w.ctx(), f); !errors.Is(err, futurejobs.ErrBadCursor) {
				t.Errorf("%s from %q: %v, want ErrBadCursor", name, cursor, err)
			}
		}
		if err := errorOf(w.Jobs)(w.ctx(), f); (err == nil) != (cursor == jobs.Next) {
			t.Errorf("jobs from %q: %v", cursor, err)
		}
	}
}

func errorOf[T any](l func(context.Context, futurejobs.Filter) (futurejobs.Page[T], error)) func(context.Context, futurejobs.Filter) error {
	return func(ctx context.Context, f futurejobs.Filter) error {
		_, err := l(ctx, f)
		return err
	}
}
