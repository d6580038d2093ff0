package storetest

import (
	"fmt"
	"slices"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	futurejobs "deadman/future_jobs"
)

// ticksOfRuleAreListed checks that the ticks of all schedules of a rule are listed newest first, also those of a deleted
// schedule, in pages, and by outcome, time, delay and missed ticks.
func ticksOfRuleAreListed(t *testing.T, f *fixture) {
	w := withSchedules(f)
	at := w.now.Add(-time.Minute)
	w.put(w.schedule("a", at), w.schedule("b", at), w.schedule("c", at.Add(-time.Second)), w.schedule("gone", at.Add(-time.Hour)))
	var decided []futurejobs.DecidedTick
	for _, s := range must[[]futurejobs.Schedule](t)(w.DueSchedules(w.ctx(), w.fenceOf(), w.now, 100)) {
		d := futurejobs.DecidedTick{Schedule: s, At: s.NextAt, Outcome: futurejobs.TickPlanned, Next: s.NextAt.Add(24 * time.Hour)}
		switch s.ID {
		case "c":
			d.Outcome, d.Missed = futurejobs.TickSkipped, 3
		case "gone":
			d.Outcome, d.Reason = futurejobs.TickFailed, "it cannot be read"
		}
		decided = append(decided, d)
	}
	planned := must[[]futurejobs.PlannedTick](t)(w.DecideTicks(w.ctx(), w.fenceOf(), decided))
	for _, p := range planned {
		if p.ID == "a" {
			w.must(w.MarkEmitted(w.ctx(), []futurejobs.PlannedTick{p}))
		}
	}
	must[futurejobs.ScheduleChanges](t)(w.PutSchedules(w.ctx(), nil, []futurejobs.ScheduleRef{w.scheduleRef("gone")}))
	all := []string{"b -1m0s planned", "a -1m0s emitted", "c -1m1s skipped", "gone -1h1m0s failed"}
	for name, test := range map[string]struct {
		f    futurejobs.TickFilter
		want []string
	}{
		"all":                 {futurejobs.TickFilter{}, all},
		"emitted":             {futurejobs.TickFilter{Outcome: futurejobs.TickEmitted}, all[1:2]},
		"planned":             {futurejobs.TickFilter{Outcome: futurejobs.TickPlanned}, all[:1]},
		"failed":              {futurejobs.TickFilter{Outcome: futurejobs.TickFailed}, all[3:]},
		"skipped":             {futurejobs.TickFilter{Outcome: futurejobs.TickSkipped, After: at.Add(-time.Second)}, all[2:3]},
		"skipped, before":     {futurejobs.TickFilter{Outcome: futurejobs.TickSkipped, Before: at.Add(-time.Second)}, nil},
		"planned, before":     {futurejobs.TickFilter{Outcome: futurejobs.TickPlanned, Before: at}, nil},
		"from":                {futurejobs.TickFilter{After: at}, all[:2]},
		"to":                  {futurejobs.TickFilter{Before: at}, all[2:]},
		"missed":              {futurejobs.TickFilter{Missed: true}, all[2:3]},
		"late":                {futurejobs.TickFilter{LateBy: time.Hour}, all[3:]},
		"late and skipped":    {futurejobs.TickFilter{LateBy: time.Minute, Outcome: futurejobs.TickSkipped}, all[2:3]},
		"missed and emitted":  {futurejobs.TickFilter{Missed: true, Outcome: futurejobs.TickEmitted}, nil},
		"less late than that": {futurejobs.TickFilter{LateBy: 24 * time.Hour}, nil},
	} {
		if diff := cmp.Diff(test.want, w.ticksOfRule(w.rule.ID, test.f)); diff != "" {
			t.Errorf("%s (-want +got):\n%s", name, diff)
		}
	}
	if got := w.ticksOfRule(w.rule.ID+1, futurejobs.TickFilter{}); got != nil {
		t.Errorf("another rule has the ticks %v", got)
	}
	for f, want := range map[futurejobs.TickFilter]int{{Missed: true}: 1, {LateBy: time.Minute}: 1, {LateBy: time.Hour}: 0} {
		if got := w.ticksOf("c", f); len(got) != want {
			t.Errorf("ticks of c, %+v: %v, want %d", f, got, want)
		}
	}
}

// ticksOfRule returns the ticks of all schedules of a rule, read in pages of one.
func (w scheduleFixture) ticksOfRule(rule int32, f futurejobs.TickFilter) (all []string) {
	w.t.Helper()
	f.Limit = 1
	for {
		page := must[futurejobs.Page[futurejobs.ScheduleTick]](w.t)(w.ScheduleTicks(w.ctx(), futurejobs.ScheduleRef{RuleID: rule}, f))
		for _, tick := range page.Items {
			all = append(all, fmt.Sprintf("%s %s %s", tick.ID, tick.At.Sub(w.now), tick.Outcome))
		}
		if f.Cursor = page.Next; f.Cursor == "" {
			return all
		}
	}
}

// replacedTicksAreDecidedOnce checks that a tick that comes due between the request and the transaction of a change belongs to
// one of the two texts: it is either canceled or decided, and an attempt to decide it again returns nothing.
func replacedTicksAreDecidedOnce(t *testing.T, f *fixture) {
	w := withSchedules(f)
	at := w.now.Add(-30 * time.Second)
	ids := []string{"decided", "deleted", "disabled", "ended", "kept", "later", "sooner"}
	replace := make(map[string]futurejobs.Schedule)
	for _, id := range ids {
		w.put(w.schedule(id, at))
		s := w.schedule(id, at)
		s.Text = "@every 60m"
		replace[id] = s
	}
	change := func(id string, next time.Time, enabled bool) futurejobs.Schedule {
		s := replace[id]
		s.NextAt, s.Enabled = next, enabled
		return s
	}
	first := must[futurejobs.Schedule](t)(w.Schedule(w.ctx(), w.scheduleRef("decided")))
	tick := futurejobs.DecidedTick{Schedule: first, At: at, Outcome: futurejobs.TickPlanned, Next: w.now.Add(time.Hour)}
	w.must(w.MarkEmitted(w.ctx(), must[[]futurejobs.PlannedTick](t)(w.DecideTicks(w.ctx(), w.fenceOf(), []futurejobs.DecidedTick{tick}))))
	must[futurejobs.ScheduleChanges](t)(w.PutSchedules(w.ctx(), []futurejobs.Schedule{
		change("decided", at, true), change("disabled", time.Time{}, false), change("ended", time.Time{}, true), change("kept", at, true),
		change("later", at.Add(time.Second), true), change("sooner", at.Add(-time.Second), true),
	}, []futurejobs.ScheduleRef{w.scheduleRef("deleted")}))
	var planned []string
	for _, p := range must[[]futurejobs.PlannedTick](t)(w.decide(w.now)) {
		planned = append(planned, p.ID)
	}
	slices.Sort(planned)
	if diff := cmp.Diff([]string{"kept", "later", "sooner"}, planned); diff != "" {
		t.Errorf("events to publish (-want +got):\n%s", diff)
	}
	canceled := "-30s canceled missed 0 attempts 0"
	want := map[string][]string{
		"decided": {"-30s emitted missed 0 attempts 1"}, "deleted": {canceled}, "disabled": {canceled}, "ended": {canceled},
		"kept": {"-30s planned missed 2 attempts 1"}, "later": {"-29s planned missed 2 attempts 1", canceled}, "sooner": {"-31s planned missed 2 attempts 1"},
	}
	for _, id := range ids {
		if diff := cmp.Diff(want[id], w.ticksOf(id, futurejobs.TickFilter{})); diff != "" {
			t.Errorf("ticks of %s (-want +got):\n%s", id, diff)
		}
	}
	if s := must[futurejobs.Schedule](t)(w.Schedule(w.ctx(), w.scheduleRef("decided"))); !s.NextAt.After(w.now) {
		t.Errorf("a schedule with a tick that was decided before does not go on: %+v", s)
	}
}
