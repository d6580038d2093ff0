package server

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"slices"
	"strings"
	"time"

	"deadman/alerts"
	futurejobs "deadman/future_jobs"
	"deadman/internal/access"
	"deadman/internal/periodic"
	"deadman/internal/store"
	"deadman/rules"
)

// The steps of the alerts that alarms raises.
const (
	unfitStep      = "unfit"
	unreadableStep = "unreadable"
	overdueStep    = "overdue"
	costlyStep     = "costly"
	putOffStep     = "allowance"
)

// alarms raises an alert for each condition that delays due jobs, and resolves it when the condition ends. Every node
// reads the state of all shards and nodes from the database, because a broken node may be unable to report itself.
// The database records the open alerts, so each is raised once.
type alarms struct {
	overdue *overdue
	quotas  *access.Quotas
	store   *store.Store
	after   time.Duration // age at which unexplained overdue jobs raise an alert; alerts that explain them are raised earlier
	record  func(alerts.Alert, bool, error) error
	log     *slog.Logger
}

// alarm is a system alert for a condition. raise is false if an open alert must stay open but no new one is due.
type alarm struct {
	alerts.SystemAlert
	raise bool
}

// Run runs rounds until ctx ends.
func (a *alarms) Run(ctx context.Context) error {
	return periodic.RunAfter(ctx, stallCheckInterval, a.log, "system alerts", a.round)
}

// round is one pass:
//
//  1. It pauses rules that cost too much.
//  2. It reads the open alerts before the conditions, so that the conditions are newer.
//  3. It finds the current conditions.
//  4. It raises alerts that are not open, and resolves alerts of conditions that ended.
func (a *alarms) round(ctx context.Context) error {
	if err := a.pauseCostly(ctx); err != nil {
		return err
	}
	open, err := a.store.FiringSystemAlerts(ctx)
	if err != nil {
		return err
	}
	s, err := a.see(ctx)
	if err != nil {
		return err
	}
	found := slices.Concat(s.unfit(), s.unreadable(), s.putOff(), s.costly(), s.overQuota(a.quotas.Uses("")), s.overdueJobs(a.after))
	for _, f := range found {
		if !f.raise || slices.ContainsFunc(open, f.is) {
			continue
		}
		if err := a.record(a.store.OpenSystemAlert(ctx, f.SystemAlert)); err != nil {
			return err
		}
	}
	for _, r := range open {
		over, ours := overTexts[r.Step]
		switch {
		case !ours, slices.ContainsFunc(found, func(f alarm) bool { return f.is(r) }):
			continue
		case r.Step == unreadableStep && s.isYoung():
			continue
		}
		r.Status, r.Severity, r.Text = alerts.Resolved, alerts.Error, over(r.Topic)
		if err := a.record(a.store.CloseSystemAlert(ctx, r)); err != nil {
			return err
		}
	}
	return nil
}

// is reports whether the alarm and an open alert have the same topic and step.
func (f alarm) is(r alerts.SystemAlert) bool { return f.Topic == r.Topic && f.Step == r.Step }

// overTexts holds the texts of resolving alerts, by step.
var overTexts = map[string]func(topic string) string{
	unfitStep: func(topic string) string {
		return strings.Replace(topic, "node/", "node ", 1) + " is fit again, or gone"
	},
	unreadableStep: func(topic string) string {
		rule, version := cutVersion(topic)
		return fmt.Sprintf("version %s of rule %s can be read again, or no job of it is due", version, rule)
	},
	costlyStep: func(topic string) string {
		return strings.Replace(topic, "rule/", "rule ", 1) + " is resumed, or gone; what it could not take in is among the dead letters"
	},
	putOffStep: func(topic string) string {
		return strings.Replace(topic, "rule/", "rule ", 1) + ": no due check is put off any more"
	},
	quotaStep: quotaOver,
	overdueStep: func(string) string {
		return "no due job waits for longer than it may, but where another alert names the cause"
	},
}

// see reads the situation.
func (a *alarms) see(ctx context.Context) (s situation, err error) {
	s.now, s.overdueAfter = a.overdue.now(), a.overdue.after
	if s.nodes, err = a.overdue.liveNodes(ctx); err != nil {
		return s, err
	}
	s.claims = claimsOf(s.nodes)
	if err := a.overdue.catalog.Refresh(ctx); err != nil {
		return s, err
	}
	s.halted = a.overdue.catalog.Halted()
	if s.refusals, err = a.store.Refusals(ctx, ""); err != nil {
		return s, err
	}
	overdue, err := a.overdue.findAll(ctx)
	if err == nil {
		overdue, err = a.overdue.withoutTenantsLines(ctx, overdue)
	}
	if s.overdue, s.delayed = overdue.split(s.claims); err != nil || len(s.overdue.parts) == 0 {
		return s, err
	}
	if s.leases, err = a.store.Leases(ctx); err != nil {
		return s, err
	}
	outages, err := a.store.Outages(ctx)
	if err != nil {
		return s, err
	}
	s.explained = make(map[int32]bool)
	for _, o := range outages {
		s.explained[o.RuleID] = true
	}
	progress, err := a.store.Progress(ctx)
	for _, p := range progress {
		stream, isIngest := strings.CutPrefix(p.Topic, ingestTopic)
		switch {
		case !p.Still:
		case !isIngest:
			s.sweepStalled = true
		default:
			for _, rule := range a.overdue.catalog.WaitingFor(stream) {
				s.explained[rule] = true
			}
		}
	}
	return s, err
}

// pauseCostly pauses rules with expressions that cost too much on several events ingested by this node, so that they
// delay no other rule on any node. It skips a rule that was changed or deleted meanwhile.
func (a *alarms) pauseCostly(ctx context.Context) error {
	ctx = access.As(ctx, access.Actor{Name: access.NodeItself})
	for _, c := range a.overdue.catalog.Costly() {
		err := a.store.Halt(ctx, c.Rule, c.Version, "its expressions or effects cost too much on several events")
		switch {
		case errors.Is(err, rules.ErrConflict), errors.Is(err, futurejobs.ErrNotFound):
		case err != nil:
			return err
		default:
			a.log.Warn("rule paused: its expressions or effects cost too much", "rule", c.Rule, "version", c.Version)
		}
	}
	return nil
}
