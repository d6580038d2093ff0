package rules

import (
	"context"
	"errors"
	"log/slog"
	"maps"
	"slices"
	"time"

	futurejobs "deadman/future_jobs"
)

// Rescheduler determines the next checks of pending jobs again after changes of calendars. The tenants of the rules take
// turns: one that changes the calendars of many jobs all the time delays the others by its turns only.
type Rescheduler struct {
	Store    CalendarStore
	Catalog  *Catalog
	Jobs     Jobs
	TenantOf func(rule string) string // empty: none
	Turn     func() func() bool       // begins the turn of a tenant, and returns whether it is over; a page of jobs is completed
	Active   func() bool              // false: this node no longer does the work
	Log      *slog.Logger
}

// Run works until no change is left, and forgets calendars that were deleted long ago and that no rule uses. It returns the
// number of jobs whose next check moved. The failure of one rule does not stop the others. It can be repeated after an error.
func (r *Rescheduler) Run(ctx context.Context, now time.Time) (moved int, err error) {
	s := rescheduling{Rescheduler: r, passes: make(map[int32]*reschedulePass)}
	for r.Active() {
		byTenant, err := s.work(ctx, now)
		if err != nil || len(byTenant) == 0 {
			s.failures = append(s.failures, err)
			break
		}
		for _, tenant := range slices.Sorted(maps.Keys(byTenant)) {
			moved += s.serve(ctx, byTenant[tenant])
		}
	}
	if moved > 0 {
		r.Log.Info("calendars changed, and checks of pending jobs moved", "jobs", moved)
	}
	return moved, errors.Join(s.failures...)
}

// rescheduling is one run of a Rescheduler.
type rescheduling struct {
	*Rescheduler
	passes   map[int32]*reschedulePass // by rule ID
	turns    int
	failures []error
}

// reschedulePass is the progress of one rule. Its jobs are read from the first to the last, and once more if one of its
// calendars changed meanwhile.
type reschedulePass struct {
	rule     string
	jobs     pendingJobs
	goal     map[string]int32 // the changed calendars, at their versions when the jobs were begun; nil: not begun
	followed map[string]int32 // the versions that all jobs follow
	wanted   map[string]int32 // the changed calendars
	turn     int              // the last one
	failed   bool             // left to the next run
}

// isComplete reports whether all jobs of the rule follow its calendars.
func (p *reschedulePass) isComplete() bool {
	for name, version := range p.wanted {
		if p.followed[name] < version {
			return false
		}
	}
	return true
}

// work returns the rules whose jobs do not follow a calendar yet, by tenant. It marks the calendars that all jobs follow.
func (s *rescheduling) work(ctx context.Context, now time.Time) (byTenant map[string][]*reschedulePass, err error) {
	changed, err := s.Store.ChangedCalendars(ctx)
	if err != nil {
		return nil, err
	}
	if err := s.Catalog.Refresh(ctx); err != nil {
		return nil, err
	}
	for _, p := range s.passes {
		p.wanted = make(map[string]int32)
	}
	e := s.Catalog.current.Load()
	for _, c := range changed {
		users := e.calendarUsers(c.Name, true)
		if !c.DeletedAt.IsZero() && len(users) == 0 && c.DeletedAt.Before(now.AddDate(0, 0, -KeptCalendarDays)) {
			err = s.Store.ForgetCalendar(ctx, c.Name)
		} else if !c.Rescheduled && s.isFollowed(e, c, users) {
			err = s.Store.MarkRescheduled(ctx, c.Name, c.Version)
		}
		if err != nil {
			return nil, err
		}
	}
	byTenant = make(map[string][]*reschedulePass)
	for _, p := range s.passes {
		if !p.failed && !p.isComplete() {
			tenant := s.TenantOf(p.rule)
			byTenant[tenant] = append(byTenant[tenant], p)
		}
	}
	return byTenant, nil
}

// isFollowed notes that rules use a changed calendar. It reports whether all their jobs follow it.
func (s *rescheduling) isFollowed(e *snapshot, c CalendarVersion, users []string) bool {
	followed := true
	for _, name := range users {
		rule := e.names[name].versions[0].saved.RuleID
		p := s.passes[rule]
		if p == nil {
			p = &reschedulePass{rule: name, jobs: pendingJobs{jobs: s.Jobs, catalog: s.Catalog, ruleID: rule}, followed: make(map[string]int32), wanted: make(map[string]int32)}
			s.passes[rule] = p
		}
		p.wanted[c.Name] = c.Version
		followed = followed && p.followed[c.Name] >= c.Version
	}
	return followed
}

// serve does a turn of a tenant: it goes on with its rules, the one that waited longest first.
func (s *rescheduling) serve(ctx context.Context, passes []*reschedulePass) (moved int) {
	slices.SortFunc(passes, func(a, b *reschedulePass) int { return a.turn - b.turn })
	s.turns++
	isOver := s.Turn()
	for _, p := range passes {
		p.turn = s.turns
		for isLast := false; !isLast; {
			var n int
			var err error
			n, isLast, err = s.page(ctx, p)
			moved += n
			if err != nil {
				p.failed = true
				s.failures = append(s.failures, wrapErr("reschedule the jobs of rule "+p.rule, err))
				break
			}
			if isOver() {
				return moved
			}
		}
	}
	return moved
}

// page goes on with the next jobs of a rule.
func (s *rescheduling) page(ctx context.Context, p *reschedulePass) (moved int, isLast bool, err error) {
	if p.goal == nil {
		p.goal, p.jobs.after = maps.Clone(p.wanted), futurejobs.Ref{}
	}
	moved, isLast, err = p.jobs.page(ctx, "", func(j futurejobs.Job) (futurejobs.Effect, bool) {
		v, err := s.Catalog.version(ctx, s.Catalog.current.Load(), id{p.jobs.ruleID, j.Version})
		if err != nil || !slices.ContainsFunc(v.document.CalendarNames(), func(name string) bool { return p.goal[name] > 0 }) {
			return futurejobs.Effect{}, false // a check of the job reports the error
		}
		compiled, err := v.compiled()
		if err != nil {
			return futurejobs.Effect{}, false // likewise
		}
		return futurejobs.Effect{Rule: &compiled.engine, Ref: j.Ref, Action: futurejobs.Reschedule{Steps: stepsLeft(compiled.escalation), Next: compiled.nextOf}}, true
	})
	if isLast && err == nil {
		maps.Copy(p.followed, p.goal)
		p.goal = nil
	}
	return moved, isLast, err
}
