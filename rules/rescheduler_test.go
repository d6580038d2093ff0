package rules_test

import (
	"fmt"
	"strings"
	"testing"
	"time"

	futurejobs "deadman/future_jobs"
)

// A tenant that changes a calendar of many rules all the time delays the changes of another tenant by one turn. All jobs
// follow their calendars in the end.
func TestTenantsRescheduleInTurns(t *testing.T) {
	w := newCalendarTest(t)
	now, err := w.store.Now(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	since := now.Truncate(time.Minute).Add(time.Hour)
	rule := func(name, calendar string) int32 {
		text := strings.NewReplacer("reply", name, "of: office", "of: "+calendar, "tickets.", name+".").Replace(replyRule)
		return saveRule(t, w.store, 0, text).RuleID
	}
	w.save("acme", "zone: UTC\n")
	w.save("bob", "zone: UTC\n")
	ids := []int32{rule("bob-reply", "bob")}
	const acmeRules = 20
	for i := range acmeRules {
		ids = append(ids, rule(fmt.Sprintf("acme-%02d", i), "acme"))
	}
	refresh(t, w.one)
	for i, name := range append([]string{"bob-reply"}, names("acme-", acmeRules)...) {
		effects, _ := w.one.Match(futurejobs.Event{Stream: "S", Subject: name + ".opened", Seq: uint64(i + 1), At: since, Data: []byte(`{"id": "7"}`)})
		if _, err := w.store.Apply(t.Context(), futurejobs.EffectBatch{RuleSet: w.one.Revision(), Effects: effects}); err != nil || len(effects) != 1 {
			t.Fatal(effects, err)
		}
	}
	if _, err := w.rescheduler.Run(t.Context(), now); err != nil {
		t.Fatal(err)
	}
	next := func(rule int32) time.Duration {
		jobs, err := w.store.JobsOf(t.Context(), rule, futurejobs.Ref{}, 10)
		if err != nil || len(jobs) != 1 {
			t.Fatalf("%+v %v", jobs, err)
		}
		return jobs[0].NextCheckAt.Sub(since)
	}
	opensAfter := func(d time.Duration) string {
		return "zone: UTC\nhours: \"" + since.Add(d).UTC().Format("15:04") + "-" + since.Add(d+8*time.Hour).UTC().Format("15:04") + "\"\n"
	}
	const rounds = 10
	round := 0
	w.rescheduler.Active = func() bool {
		if round++; round <= rounds {
			w.save("acme", opensAfter(time.Duration(round)*time.Minute))
		}
		switch round {
		case 2:
			w.save("bob", opensAfter(2*time.Hour))
		case 3:
			if got := next(ids[0]); got != 6*time.Hour {
				t.Errorf("after one turn the next check of the other tenant is after %s, want 6h", got)
			}
		}
		return true
	}
	if _, err := w.rescheduler.Run(t.Context(), now); err != nil {
		t.Fatal(err)
	}
	if round <= rounds {
		t.Errorf("it ended in round %d, while calendars changed", round)
	}
	for _, id := range ids[1:] {
		if got, want := next(id), 4*time.Hour+rounds*time.Minute; got != want {
			t.Errorf("the next check of rule %d is after %s, want %s", id, got, want)
		}
	}
	if left, err := w.store.ChangedCalendars(t.Context()); err != nil || len(left) != 0 {
		t.Errorf("calendars that jobs do not follow: %+v %v", left, err)
	}
}

// names returns n names with a prefix and a number.
func names(prefix string, n int) (all []string) {
	for i := range n {
		all = append(all, fmt.Sprintf("%s%02d", prefix, i))
	}
	return all
}
