package server

import (
	"cmp"
	"context"
	"fmt"
	"log/slog"
	"math"
	"slices"
	"strings"
	"time"

	"deadman/alerts"
	futurejobs "deadman/future_jobs"
	"deadman/internal/periodic"
	"deadman/internal/store"
	"deadman/rules"
	"deadman/web"
)

// maintenanceInterval is the interval of maintenance.
const maintenanceInterval = time.Minute

// versionsEvery is the interval at which unused rule versions are pruned: for a rule with such versions, its jobs are
// read.
const versionsEvery = 10 * time.Minute

// outcomesBudget bounds the count of outcomes to a twentieth of the time.
const outcomesBudget = maintenanceInterval / 20

// calendarTurn is the time for which jobs of a tenant follow changed calendars before those of the next tenant do.
const calendarTurn = 200 * time.Millisecond

// maintenanceShard is the shard of the maintenance node: its holder does the maintenance.
const maintenanceShard = 0

// maintenance prunes rows by retention, creates the jobs of expected heartbeat keys, and ends the jobs of deleted
// rules.
type maintenance struct {
	store       *store.Store
	rules       *rules.Registry
	wake        chan struct{} // signalled after changes of rules and of shards
	followers   chan struct{} // likewise, for FollowCalendars
	every       time.Duration // interval of a round
	owner       *futurejobs.Owner
	rescheduler *rules.Rescheduler
	keep        store.Retention
	noteAlert   func(alerts.Alert, bool, error) error
	count       func(what string, n int64) // counts rows removed by caps
	letters     int64                      // number of dead letters that raises an alert
	now         func() time.Time           // the database's time
	tenant      func(rule string) string   // tenant of a rule; empty: none
	crowded     func(rule string) bool     // the tenant of a rule has little room for versions
	log         *slog.Logger

	results    map[string]*periodic.Status // by part of a step; used by Run alone
	versionsAt time.Time                   // last pruning of rule versions; used by Run alone
}

// Wake starts the parts of a round that follow changes of rules at once, and a whole round if the node has just taken the
// maintenance shard.
func (u *maintenance) Wake() {
	for _, round := range []chan struct{}{u.wake, u.followers} {
		select {
		case round <- struct{}{}:
		default: // already signalled
		}
	}
}

// Run does the maintenance until ctx ends, while this node holds the maintenance shard.
func (u *maintenance) Run(ctx context.Context) error {
	return u.repeat(ctx, u.wake, u.step, u.followRules)
}

// FollowCalendars determines the checks of pending jobs again after changes of calendars. It is apart from Run, as jobs of
// many rules take minutes and may not delay the other parts.
func (u *maintenance) FollowCalendars(ctx context.Context) error {
	result := periodic.NewStatus(u.log, slog.LevelError, "rescheduling by calendars")
	round := func(ctx context.Context) {
		_, err := u.rescheduler.Run(ctx, u.now())
		result.Set(ctx, err, "again_in", u.every)
	}
	return u.repeat(ctx, u.followers, round, round)
}

// beginCalendarTurn begins a turn of calendarTurn, and returns whether it is over.
func beginCalendarTurn() func() bool {
	end := time.Now().Add(calendarTurn)
	return func() bool { return time.Now().After(end) }
}

// repeat does a round at each interval and a shorter one at each signal until ctx ends, while this node holds the maintenance
// shard. The first round after the node took the shard is whole: the last one of its former holder may be long ago.
func (u *maintenance) repeat(ctx context.Context, wake <-chan struct{}, round, shorter func(context.Context)) error {
	tick := time.NewTicker(u.every)
	defer tick.Stop()
	held := false
	for next := round; ; {
		took := !held
		if held = u.owner.Holds(maintenanceShard); held && took {
			round(ctx)
		} else if held {
			next(ctx)
		}
		select {
		case <-ctx.Done():
			return nil
		case <-tick.C:
			next = round
		case <-wake:
			next = shorter
		}
	}
}

// maintenancePart is a part of the maintenance.
type maintenancePart struct {
	name string // noun of the log messages
	do   func(context.Context) error
}

// step does all parts of the maintenance.
func (u *maintenance) step(ctx context.Context) {
	u.do(ctx, []maintenancePart{
		{"clock correction", u.putBack},
		{"pruning", u.prune},
		{"count of outcomes", u.countOutcomes},
		{"history watch", u.watchHistory},
		{"dead letter cap", u.capLetters},
		{"dead letter alert", u.alertLetters},
		{"early resolve cap", u.capEarly},
		{"pruning of rule versions", u.pruneVersions},
	})
	u.followRules(ctx)
}

// followRules does the parts of the maintenance that follow changes of rules. The others cost more than most changes.
func (u *maintenance) followRules(ctx context.Context) {
	u.do(ctx, []maintenancePart{
		{"sync of expected keys", u.expect},
		{"end of jobs of deleted rules", u.sweepDeleted},
	})
}

// do does parts of the maintenance. The failure of one does not stop the others.
func (u *maintenance) do(ctx context.Context, parts []maintenancePart) {
	for _, part := range parts {
		u.result(part.name).Set(ctx, part.do(ctx), "again_in", u.every)
	}
}

// result returns the status of a part of the maintenance.
func (u *maintenance) result(part string) *periodic.Status {
	if u.results[part] == nil {
		u.results[part] = periodic.NewStatus(u.log, slog.LevelError, part)
	}
	return u.results[part]
}

// putBack corrects times that a fast clock wrote, even if no node detected the step.
func (u *maintenance) putBack(ctx context.Context) error {
	return u.store.PutBack(ctx, store.RoutineNotices)
}

func (u *maintenance) prune(ctx context.Context) error {
	pruned, err := u.store.Prune(ctx, u.keep)
	if pruned != (store.Pruned{}) {
		u.log.Info("pruned", "history", pruned.History, "alerts", pruned.Alerts, "dead_letters", pruned.DeadLetters, "audit", pruned.Audit, "pings", pruned.Pings, "ticks", pruned.Ticks)
	}
	return err
}

// countOutcomes counts the jobs that ended in the hours before. It starts no further hour after outcomesBudget; the others
// follow in the next rounds.
func (u *maintenance) countOutcomes(ctx context.Context) error {
	for startedAt := time.Now(); time.Since(startedAt) < outcomesBudget; {
		if counted, err := u.store.CountOutcomeHour(ctx); err != nil || !counted {
			return err
		}
	}
	return nil
}

// capLetters enforces the caps of dead letters. It raises an alert while dead letters lack their bodies or are summaries,
// and resolves it when such letters are gone.
func (u *maintenance) capLetters(ctx context.Context) error {
	caps := store.DefaultLetterCaps
	caps.Tenant = u.tenant
	capped, err := u.store.CapLetters(ctx, caps)
	u.count(web.CappedLetters, capped.Removed)
	u.count(web.CappedBodies, capped.Emptied)
	if capped.Removed+capped.Emptied > 0 {
		u.log.Warn("dead letters beyond the cap", "removed", capped.Removed, "bodies_removed", capped.Emptied, "rules", capped.Rules)
	}
	if err != nil {
		return err
	}
	r := alerts.SystemAlert{Topic: "dead-letters", Step: "capped", Status: alerts.Resolved, Severity: alerts.Warning, Since: u.now(), Text: "all refused events are dead letters with their bodies"}
	if len(capped.Rules) > 0 {
		r.Status, r.Text = alerts.Firing, cappedText(capped.Rules, caps)
	}
	return u.noteAlert(u.store.ReportState(ctx, r))
}

// alertLetters raises an alert if many events became dead letters. It is open until an actor closes it.
func (u *maintenance) alertLetters(ctx context.Context) error {
	letters, err := u.store.CountLetters(ctx)
	if err != nil {
		return err
	}
	reasons, err := u.store.LetterReasons(ctx, futurejobs.Filter{}) // of the newest
	if err != nil {
		return err
	}
	var rules []string
	for _, r := range reasons.Reasons {
		if !slices.Contains(rules, r.Rule) {
			rules = append(rules, r.Rule)
		}
	}
	return u.noteAlert(u.store.AlertDeadLetters(ctx, letters, u.letters, func() alerts.SystemAlert {
		return alerts.SystemAlert{
			Topic: "dead-letters", Step: "many", Status: alerts.Firing, Severity: alerts.Error, Since: u.now(), Count: int(min(letters, math.MaxInt32)), UntilClosed: true,
			Text: fmt.Sprintf("%d events are dead letters, the newest of %s: no job was started, updated or resolved by them; correct the sender or the rule, "+
				"retry or drop them (deadman dead-letter reasons), then close this alert", letters, named(rules)),
		}
	}))
}

// rulesNamed is the largest number of rules named in a text.
const rulesNamed = 5

func cappedText(rules []string, caps store.LetterCaps) string {
	written := store.DefaultLetterLimits.Letters
	return fmt.Sprintf("too many dead letters of %s: of each rule the newest %d letters and %d bodies (%d MiB) are kept, of a tenant %d letters, and %d MiB of all; "+
		"in a minute a node writes %d letters of a rule, and %d of a tenant; further refused events are only counted, in summaries; "+
		"what is beyond is gone and cannot be tried again: correct the sender or the rule, then retry or drop them",
		named(rules), caps.Letters, caps.Bodies, caps.BodyBytes>>20, caps.TenantLetters, caps.TotalBytes>>20, written.Rule, written.Tenant)
}

// named returns the first of the rules, and the number of others.
func named(rules []string) string {
	names := make([]string, 0, rulesNamed)
	for _, r := range rules[:min(len(rules), rulesNamed)] {
		names = append(names, cmp.Or(r, "no rule"))
	}
	if n := len(rules) - len(names); n > 0 {
		return fmt.Sprintf("%s and %d others", strings.Join(names, ", "), n)
	}
	return strings.Join(names, ", ")
}

// capEarly drops early resolves beyond the caps. It raises an alert while that happens.
func (u *maintenance) capEarly(ctx context.Context) error {
	caps := store.DefaultEarlyCaps
	caps.Tenant = u.tenant
	capped, err := u.store.CapEarly(ctx, caps)
	var rules []string
	for _, c := range capped {
		u.count(web.CappedEarly, c.Rows)
		u.log.Warn("early resolves beyond the cap", "rule", c.Rule, "forgotten", c.Rows)
		rules = append(rules, c.Rule)
	}
	if err != nil {
		return err
	}
	r := alerts.SystemAlert{Topic: "early-resolves", Step: "capped", Status: alerts.Resolved, Severity: alerts.Warning, Since: u.now(), Text: "all early resolves are remembered for their time"}
	if len(rules) > 0 {
		r.Status = alerts.Firing
		r.Text = fmt.Sprintf("too many resolves without a job of %s: of each rule %d are remembered (%d MiB), and %d of all (%d MiB); where the trigger of a forgotten one still comes, its job alerts although it was resolved: narrow the resolve with a condition, or set early to less",
			named(rules), caps.Rule, caps.RuleBytes>>20, caps.Total, caps.TotalBytes>>20)
	}
	return u.noteAlert(u.store.ReportState(ctx, r))
}

func (u *maintenance) expect(ctx context.Context) error {
	_, err := u.rules.SyncExpectedKeys(ctx)
	return err
}

func (u *maintenance) sweepDeleted(ctx context.Context) error {
	ended, err := u.rules.EndJobsOfDeletedRules(ctx)
	if ended > 0 {
		u.log.Info("ended the jobs of deleted rules", "jobs", ended)
	}
	return err
}

// historyLate is the time before a day's start by which the day's table must exist.
const historyLate = 6 * time.Hour

// watchHistory raises an alert if tomorrow's history table could not be created, and resolves it once the table
// exists.
func (u *maintenance) watchHistory(ctx context.Context) error {
	day, now, err := u.store.HistoryUnready(ctx)
	if err != nil {
		return err
	}
	r := historyRemark(day, now)
	if r.Status == alerts.Resolved {
		return u.noteAlert(u.store.CloseSystemAlert(ctx, r))
	}
	u.log.Warn("the table of tomorrow's history is missing", "day", day.Format(time.DateOnly))
	return u.noteAlert(u.store.OpenSystemAlert(ctx, r))
}

// historyRemark returns the alert about the first day after today without a table; a zero day means that all days
// have one.
func historyRemark(day, now time.Time) alerts.SystemAlert {
	r := alerts.SystemAlert{Topic: "history", Step: "unready", Status: alerts.Firing, Severity: alerts.Warning, Since: now}
	if day.IsZero() || day.Sub(now) > historyLate {
		r.Status, r.Text = alerts.Resolved, "the table of tomorrow's history is there"
		return r
	}
	r.Text = fmt.Sprintf("no table for the history of %s could be made: a long transaction, such as a backup, reads history; end it before 00:00 UTC, or that day is kept in the default table and pruned row by row",
		day.Format(time.DateOnly))
	return r
}

// pruneVersions prunes unused rule versions, at most every versionsEvery.
func (u *maintenance) pruneVersions(ctx context.Context) error {
	if time.Since(u.versionsAt) < versionsEvery {
		return nil
	}
	u.versionsAt = time.Now()
	n, err := u.store.PruneVersions(ctx, u.crowded)
	if n > 0 {
		u.log.Info("pruned versions of rules that no job has", "versions", n)
	}
	return err
}
