package rules

import (
	"iter"
	"slices"
	"time"

	futurejobs "deadman/future_jobs"
	"deadman/internal/schedules"
)

// Scheduled returns the rules that tick, and their revision.
func (b *Catalog) Scheduled() (revision int64, all []futurejobs.TickingRule) {
	e := b.current.Load()
	for _, r := range e.ticking {
		all = append(all, scheduled{r, e, b.shards})
	}
	return e.revision, all
}

// scheduled is a rule that ticks, with all its versions: each decides the ticks after its save, up to the save of the
// next.
type scheduled struct {
	*rule
	edition *snapshot
	shards  int
}

var _ futurejobs.TickingRule = scheduled{}

// Name returns the rule's name.
func (s scheduled) Name() string { return s.versions[0].saved.Name }

// RuleID returns the rule's id.
func (s scheduled) RuleID() int32 { return s.versions[0].saved.RuleID }

// Emits implements futurejobs.TickingRule.
func (s scheduled) Emits() bool { return s.versions[0].document.Trigger.Emit != nil }

// From returns when the first version with a schedule was saved: a tick may come before any node read the rule.
func (s scheduled) From() time.Time {
	for _, v := range slices.Backward(s.versions) {
		if v.schedule != nil {
			return v.saved.SavedAt
		}
	}
	return s.versions[0].saved.SavedAt
}

// versionPeriod is a version of a rule, and the period of its ticks.
type versionPeriod struct {
	*version
	schedule schedules.Schedule
	from, to time.Time // the ticks lie after from, and not after to; a zero to is no end
}

// charges returns the periods of all versions with a schedule, oldest first. @every counts from the first save of the
// rule.
func (s scheduled) charges() iter.Seq[versionPeriod] {
	began := s.began()
	return func(yield func(versionPeriod) bool) {
		for i, v := range slices.Backward(s.versions) {
			if v.schedule == nil {
				continue
			}
			c := versionPeriod{version: v, schedule: v.schedule.From(began), from: v.saved.SavedAt}
			if i > 0 {
				c.to = s.versions[i-1].saved.SavedAt
			}
			if !yield(c) {
				return
			}
		}
	}
}

// Next implements futurejobs.TickingRule.
func (s scheduled) Next(after time.Time) (time.Time, bool) {
	for c := range s.charges() {
		tick, ok := c.schedule.Next(latest(after, c.from))
		if ok && (c.to.IsZero() || !tick.After(c.to)) {
			return tick, true
		}
	}
	return time.Time{}, false
}

// Due implements futurejobs.TickingRule.
func (s scheduled) Due(after, now time.Time) (d futurejobs.DueTicks, ok bool, err error) {
	var by *version
	missed, isPassing := 0, false
	for c := range s.charges() {
		through := now
		if !c.to.IsZero() && c.to.Before(now) {
			through = c.to
		}
		from := latest(after, c.from)
		if !through.After(from) {
			continue
		}
		n, last := c.schedule.Between(from, through)
		if n == 0 {
			continue
		}
		do, before := judgeTicks(c.document, s.paused, n, last, now)
		d.At, by, d.Missed = last, c.version, missed+before
		if isPassing = do == passes; !isPassing {
			missed += n
		}
	}
	if by == nil {
		return d, false, nil
	}
	if isPassing {
		d.Outcome = futurejobs.TickPaused
		return d, true, nil
	}
	err = s.outcome(by, now, &d)
	return d, err == nil, err
}

// outcome computes the result of the tick that counts.
func (s scheduled) outcome(v *version, now time.Time, d *futurejobs.DueTicks) error {
	r, err := v.compiled()
	if err != nil {
		return err
	}
	if r.allowance != nil && r.allowance.IsUsedUp(now) {
		return futurejobs.ErrPutOff
	}
	jobs := s.edition.engineRule(id{r.engine.ID, r.engine.Version}, r)
	(&tickRun{r, jobs, now, s.shards, d}).compute()
	return nil
}
