package storetest

import (
	"fmt"
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
