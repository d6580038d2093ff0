package futurejobs

import (
	"testing"
	"time"

	"deadman/alerts"
)

// Events that would move the next check forward do not affect a snooze; those that would delay it do.
func TestSnoozePostponesCheck(t *testing.T) {
	rule, job, alert := firingJob()
	newer := *rule
	newer.Version = 2
	for _, r := range []*Rule{rule, &newer} {
		r.Upcoming = func(Job, time.Time) time.Time { return noon.Add(4 * time.Hour) }
	}
	soon, late := noon.Add(4*time.Hour), noon.Add(9*time.Hour)
	until, slot := noon.Add(6*time.Hour+time.Second), noon.Add(6*time.Hour+time.Minute)
	next := func(at time.Time) func(Job) time.Time { return func(Job) time.Time { return at } }
	quiet := job
	quiet.Alerts = nil
	for name, c := range map[string]struct {
		job  Job
		then []Effect
		want time.Time
	}{
		"by a beat":                   {quiet, []Effect{postponeEffect(soon, true)}, slot},
		"by a beat, which is later":   {quiet, []Effect{postponeEffect(late, true)}, late},
		"by an acknowledgement":       {job, []Effect{effectOf(rule, Acknowledge{Ack{Alert: alert, Until: soon}})}, slot},
		"by one that is taken back":   {job, []Effect{effectOf(rule, Acknowledge{Ack{Alert: alert, Until: soon}}), effectOf(rule, Acknowledge{Ack{Alert: alert}})}, slot},
		"by another version":          {job, []Effect{effectOf(&newer, MoveToVersion{Next: next(soon)})}, slot},
		"by another version, later":   {job, []Effect{effectOf(&newer, MoveToVersion{Next: next(late)})}, late},
		"by the end of a pause":       {job, []Effect{effectOf(rule, Pause{}).at(noon), effectOf(rule, Resume{Next: next(soon)}).at(noon.Add(time.Minute))}, slot},
		"but by another snooze":       {job, []Effect{effectOf(rule, Snooze{Until: soon})}, soon},
		"another, and what follows":   {job, []Effect{effectOf(rule, Snooze{Until: soon}), effectOf(&newer, MoveToVersion{Next: next(noon.Add(time.Hour))})}, soon},
		"by a beat while time is not": {quiet, []Effect{effectOf(rule, Pause{}).at(noon), postponeEffect(soon, true), effectOf(rule, Resume{}).at(noon)}, slot},
	} {
		t.Run(name, func(t *testing.T) {
			effects := append([]Effect{effectOf(rule, Snooze{Until: until})}, c.then...)
			net := foldEffects(effects, map[Ref]Job{c.job.Ref: c.job}, noon)
			if len(net.Change) != 1 || !net.Change[0].NextCheckAt.Equal(c.want) {
				t.Errorf("changed %+v, want a next check at %s", net.Change, c.want)
			}
		})
	}
}

// A snooze moves no check forward, except one that another snooze delayed.
func TestSnoozeAdvancesNoCheck(t *testing.T) {
	rule, _, _ := firingJob()
	late := noon.Add(6*time.Hour + 30*time.Minute)
	for name, c := range map[string]struct {
		snoozes []time.Time
		want    time.Time
	}{
		"before the check":                 {[]time.Time{noon.Add(time.Hour)}, late},
		"twice before it":                  {[]time.Time{noon.Add(2 * time.Hour), noon.Add(time.Hour)}, late},
		"at it":                            {[]time.Time{late}, late},
		"after it":                         {[]time.Time{late.Add(time.Second)}, late.Add(time.Minute)},
		"after it, and not so long":        {[]time.Time{late.Add(time.Hour), noon.Add(time.Second)}, noon.Add(time.Minute)},
		"before it, and after it for once": {[]time.Time{noon.Add(time.Hour), late.Add(time.Hour)}, late.Add(time.Hour)},
	} {
		t.Run(name, func(t *testing.T) {
			_, job, _ := firingJob()
			job.NextCheckAt = late
			var effects []Effect
			for _, until := range c.snoozes {
				effects = append(effects, effectOf(rule, Snooze{Until: until}))
			}
			net := foldEffects(effects, map[Ref]Job{job.Ref: job}, noon)
			last := c.snoozes[len(c.snoozes)-1]
			if len(net.Change) != 1 || !net.Change[0].NextCheckAt.Equal(c.want) || !net.Change[0].SnoozedUntil.Equal(last) {
				t.Errorf("changed %+v, want a next check at %s and none before %s", net.Change, c.want, last)
			}
		})
	}
}

// Heartbeats that leave the check at the end of the snooze are not worth a write.
func TestHeartbeatsOfSnoozedJobCoalesce(t *testing.T) {
	_, pending := pendingState()
	for ref, j := range pending {
		j.SnoozedUntil, j.NextCheckAt = noon.Add(8*time.Hour), noon.Add(8*time.Hour)
		pending[ref] = j
	}
	if net := foldEffects([]Effect{postponeEffect(noon.Add(4*time.Hour), false)}, pending, noon); net.Coalesced != 1 || len(net.Change) > 0 {
		t.Errorf("%+v, want nothing to write", net)
	}
}

// A snooze ends with its job: the next job is not snoozed.
func TestSnoozeEndsWithItsWait(t *testing.T) {
	_, pending := pendingState()
	for ref, j := range pending {
		j.SnoozedUntil, j.Alerts = noon.Add(8*time.Hour), []alerts.ID{{1}}
		pending[ref] = j
	}
	net := foldEffects([]Effect{postponeEffect(noon.Add(4*time.Hour), false)}, pending, noon)
	if len(net.Create) != 1 || !net.Create[0].SnoozedUntil.IsZero() || !net.Create[0].NextCheckAt.Equal(noon.Add(4*time.Hour)) {
		t.Errorf("%+v, want a new wait without a snooze", net.Create)
	}
}
