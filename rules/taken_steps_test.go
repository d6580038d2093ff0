package rules_test

import (
	"fmt"
	"testing"
	"time"

	"deadman/alerts"
	futurejobs "deadman/future_jobs"
	"deadman/internal/store"
	"deadman/rules"
)

const movedRule = `
name: reply
entity: ticket
trigger: {event: tickets.opened, key: event.id}
escalate: %s
`

// startReply starts the job of a ticket that is opened in an hour, so that no step is late, and lets it take steps. The last
// of them was due at a time after its beginning.
func startReply(t *testing.T, s *store.Store, c *rules.Catalog, steps int, last time.Duration) (since time.Time) {
	t.Helper()
	now, err := s.Now(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	since = now.Truncate(time.Minute).Add(time.Hour)
	effects, _ := c.Match(futurejobs.Event{Stream: "S", Subject: "tickets.opened", Seq: 1, At: since, Data: []byte(`{"id": "7", "status": "success"}`)})
	if _, err := s.Apply(t.Context(), futurejobs.EffectBatch{RuleSet: c.Revision(), Effects: effects}); err != nil || len(effects) != 1 {
		t.Fatal(effects, err)
	}
	if steps > 0 {
		takeSteps(t, s, c, effects[0].Rule.ID, steps, since.Add(last))
	}
	return since
}

// takeSteps settles a check of the only job of a rule that takes steps, the last of which was due at a time.
func takeSteps(t *testing.T, s *store.Store, c *rules.Catalog, rule int32, steps int, last time.Time) {
	t.Helper()
	j := onlyJob(t, s, rule)
	j.Step, j.CheckCount = steps, 1
	a := alerts.Alert{
		ID:   alerts.Decision{JobID: j.ID, CreatedAt: j.CreatedAt, Check: 1, Status: alerts.Firing, At: last}.ID(),
		Rule: "reply", RuleVersion: 1, Entity: "ticket", Key: j.Key, DecidedAt: last, Shard: j.Shard, RuleID: rule,
		Detail: alerts.Detail{Draft: alerts.Draft{Status: alerts.Firing, Severity: alerts.Warning, Text: "it waits"}, Since: j.Since, Slot: last},
	}
	j.Alerts = []alerts.ID{a.ID}
	leases, err := s.Leases(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	held, _, err := s.Take(t.Context(), "me", leases[j.Shard].HeldShard, time.Hour)
	if err != nil {
		t.Fatal(err)
	}
	done, err := s.Settle(t.Context(), futurejobs.Settlement{
		Held: []futurejobs.HeldShard{held.HeldShard}, RuleSet: c.Revision(), Decisions: []*futurejobs.Decision{{Job: j, Alerts: []alerts.Alert{a}}},
	})
	if err != nil || len(done.Jobs) != 1 {
		t.Fatal(done, err)
	}
}

// onlyJob returns the only job of a rule.
func onlyJob(t *testing.T, s *store.Store, rule int32) futurejobs.Job {
	t.Helper()
	jobs, err := s.JobsOf(t.Context(), rule, futurejobs.Ref{}, 10)
	if err != nil || len(jobs) != 1 {
		t.Fatalf("%+v %v", jobs, err)
	}
	return jobs[0]
}

// A job that moves to another version takes the steps that it has not taken, and no step twice.
func TestMovedJobTakesTheStepsThatAreLeft(t *testing.T) {
	for name, c := range map[string]struct {
		steps string
		taken int
		last  time.Duration // when the last of them was due
		moved string
		want  int           // taken steps of the new version
		next  time.Duration // after the beginning
	}{
		"a taken step is removed":               {"[{after: 1h, step: note}, {after: 3h, step: page}]", 1, time.Hour, "[{after: 3h, step: page}]", 0, 3 * time.Hour},
		"a step comes before a taken one":       {"[{after: 2h, step: page}, {after: 5h, step: lead}]", 1, 2 * time.Hour, "[{after: 1h, step: note}, {after: 2h, step: page}, {after: 5h, step: lead}]", 2, 5 * time.Hour},
		"a step comes after a taken one":        {"[{after: 1h, step: note}, {after: 5h, step: lead}]", 1, time.Hour, "[{after: 1h, step: note}, {after: 2h, step: page}, {after: 5h, step: lead}]", 1, 2 * time.Hour},
		"a taken step has another name":         {"[{after: 1h, step: note}, {after: 3h, step: page}]", 1, time.Hour, "[{after: 1h, step: notice}, {after: 3h, step: page}]", 1, 3 * time.Hour},
		"a taken step is later":                 {"[{after: 1h, step: note}, {after: 3h, step: page}]", 1, time.Hour, "[{after: 2h, step: note}, {after: 3h, step: page}]", 1, 3 * time.Hour},
		"a step comes earlier than a taken one": {"[{after: 1h, step: note}, {after: 2h, step: lead}, {after: 9h, step: page}]", 2, 2 * time.Hour, "[{after: 1h, step: note}, {after: 90m, step: page}, {after: 2h, step: lead}]", 3, time.Hour},
		"a longer time between repetitions":     {"[{after: 1h, step: note}, {every: 15m, times: 36, step: again}]", 9, 3 * time.Hour, "[{after: 1h, step: note}, {every: 1h, times: 10, step: again}]", 3, 4 * time.Hour},
		"fewer repetitions":                     {"[{after: 1h, step: note}, {every: 1h, times: 3, step: again}, {after: 9h, step: page}]", 3, 3 * time.Hour, "[{after: 1h, step: note}, {every: 1h, times: 1, step: again}, {after: 9h, step: page}]", 2, 9 * time.Hour},
		"all steps are taken":                   {"[{after: 1h, step: note}]", 1, time.Hour, "[{after: 1h, step: note}, {after: 3h, step: page}]", 1, 3 * time.Hour},
		"no step is taken":                      {"[{after: 1h, step: note}]", 0, 0, "[{after: 2h, step: page}]", 0, 2 * time.Hour},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			s := openStore(t)
			_, b := newBroker(t)
			r := newRegistry(b, s)
			saved := saveRule(t, s, 0, fmt.Sprintf(movedRule, c.steps))
			refresh(t, r.Catalog)
			since := startReply(t, s, r.Catalog, c.taken, c.last)
			if _, err := r.Save(t.Context(), fmt.Appendf(nil, movedRule, c.moved), "", rules.SaveOptions{Version: rules.AnyVersion, Pending: true}); err != nil {
				t.Fatal(err)
			}
			if j := onlyJob(t, s, saved.RuleID); j.Version != 2 || j.Step != c.want || j.NextCheckAt.Sub(since) != c.next {
				t.Errorf("version %d has taken %d steps, and its next is after %s; want %d and %s", j.Version, j.Step, j.NextCheckAt.Sub(since), c.want, c.next)
			}
		})
	}
}

// A step that a calendar moves behind another one does not take its place: the other step is taken.
func TestCalendarSkipsNoStep(t *testing.T) {
	w := newCalendarTest(t)
	w.save("office", "zone: UTC\n")
	saved := saveRule(t, w.store, 0, fmt.Sprintf(movedRule, "[{after: 1h, of: office, step: note}, {after: 3h, step: page}]"))
	refresh(t, w.one)
	since := startReply(t, w.store, w.one, 1, time.Hour)
	w.save("office", "zone: UTC\nholidays: ["+since.Format(time.DateOnly)+", "+since.Add(24*time.Hour).Format(time.DateOnly)+"]\n")
	for range 2 { // the second finds nothing to do
		if _, err := w.rescheduler.Run(t.Context(), since); err != nil {
			t.Fatal(err)
		}
		if j := onlyJob(t, w.store, saved.RuleID); j.Step != 0 || j.NextCheckAt.Sub(since) != 3*time.Hour {
			t.Errorf("%d steps are taken, and the next is after %s; want 0 and 3h", j.Step, j.NextCheckAt.Sub(since))
		}
	}
}

// The start of a run moves the job of a heartbeat to the version that reads it, and its steps with it.
func TestStartedRunTakesTheStepsThatAreLeft(t *testing.T) {
	const beats = "name: reply\nentity: ticket\ntrigger: {heartbeat: {event: tickets.opened, key: event.id, every: 1h, kind: event.status}}\nescalate: %s\n"
	s := openStore(t)
	c := newCatalog(t, s)
	saved := saveRule(t, s, 0, fmt.Sprintf(beats, "[{after: 0s, step: note}, {after: 3h, step: page}]"))
	refresh(t, c)
	since := startReply(t, s, c, 1, time.Hour)
	saveRule(t, s, 0, fmt.Sprintf(beats, "[{after: 3h, step: page}]"))
	refresh(t, c)
	effects, _ := c.Match(futurejobs.Event{Stream: "S", Subject: "tickets.opened", Seq: 2, At: since.Add(2 * time.Hour), Data: []byte(`{"id": "7", "status": "start"}`)})
	if _, err := s.Apply(t.Context(), futurejobs.EffectBatch{RuleSet: c.Revision(), Effects: effects}); err != nil || len(effects) != 1 {
		t.Fatal(effects, err)
	}
	if j := onlyJob(t, s, saved.RuleID); j.Version != 2 || j.Step != 0 {
		t.Errorf("version %d has taken %d steps, want 0", j.Version, j.Step)
	}
}
