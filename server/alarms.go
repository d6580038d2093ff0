package server

import (
	"context"
	"encoding/json"
	"fmt"
	"log/slog"
	"slices"
	"strings"
	"time"

	"deadman/alerts"
	futurejobs "deadman/future_jobs"
	"deadman/internal/access"
	"deadman/internal/store"
	"deadman/rules"
)

// The steps of the alerts that alarms raises.
const (
	unfitStep      = "unfit"
	unreadableStep = "unreadable"
	overdueStep    = "overdue"
	costlyStep     = "costly"
)

// unreadableAfter is how long a job may be due before it is reported that the version of its rule cannot be read: a
// node that is just being replaced may be the only one that knows it.
const unreadableAfter = time.Minute

// alarms raises an alert for each condition because of which due jobs wait, and resolves it when that is over. Every
// node reads the state of all shards and all nodes from the database: a broken node may be unable to report itself.
// The database keeps which alerts are open, so each is raised once.
type alarms struct {
	overdue *overdue
	quotas  *access.Quotas
	store   *store.Store
	after   time.Duration // an overdue job is unexplained for: by then, the alerts that explain it are raised
	remark  func(alerts.Alert, bool, error) error
	log     *slog.Logger
}

// alarm is a remark, and whether it is to be raised or only to stay open.
type alarm struct {
	alerts.SystemAlert
	raise bool
}

// Run looks until ctx ends.
func (a *alarms) Run(ctx context.Context) error {
	r := rounds{
		every: stallCheckInterval, do: a.round, log: a.log, level: slog.LevelWarn,
		failed: "overdue jobs, unfit nodes, unreadable and costly rules, and used-up quotas cannot be looked for",
		works:  "overdue jobs, unfit nodes, unreadable and costly rules, and used-up quotas are looked for again",
	}
	return r.Run(ctx)
}

// round is one look:
//
//  1. rules that cost too much are paused;
//  2. the open alerts are read: what is found afterwards is newer;
//  3. what is wrong is found;
//  4. an alarm that is not open is raised, and one that is over is resolved.
func (a *alarms) round(ctx context.Context) error {
	if err := a.pauseCostly(ctx); err != nil {
		return err
	}
	standing, err := a.store.Standing(ctx)
	if err != nil {
		return err
	}
	s, err := a.see(ctx)
	if err != nil {
		return err
	}
	found := slices.Concat(s.unfit(), s.unreadable(), s.costly(), s.overQuota(a.quotas.Uses("")), s.overdueJobs(a.after))
	for _, f := range found {
		if !f.raise || slices.ContainsFunc(standing, f.is) {
			continue
		}
		if err := a.remark(a.store.OpenSystemAlert(ctx, f.SystemAlert)); err != nil {
			return err
		}
	}
	for _, r := range standing {
		over, ours := overTexts[r.Step]
		switch {
		case !ours, slices.ContainsFunc(found, func(f alarm) bool { return f.is(r) }):
			continue
		case r.Step == unreadableStep && s.isYoung():
			continue
		}
		r.Status, r.Severity, r.Text = alerts.Resolved, alerts.Error, over(r.Topic)
		if err := a.remark(a.store.CloseSystemAlert(ctx, r)); err != nil {
			return err
		}
	}
	return nil
}

// is reports whether the alarm is about the same as a remark.
func (f alarm) is(r alerts.SystemAlert) bool { return f.Topic == r.Topic && f.Step == r.Step }

// overTexts are the texts of the alerts that resolve an alarm, by step.
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
	quotaStep: quotaOver,
	overdueStep: func(string) string {
		return "no due job waits for longer than it may, but where another alert names the cause"
	},
}

// situation is what the database says of all nodes and shards at a time.
type situation struct {
	now       time.Time
	nodes     []futurejobs.Node // that live
	leases    []futurejobs.Lease
	late      backlog // at overdueAfter
	claims    map[futurejobs.VersionRef]claim
	explained map[int32]bool               // rules whose jobs wait for what another alert names
	halted    []rules.Costly               // rules that are paused because their expressions cost too much
	refusals  map[string][]access.LimitUse // of quotas, by prefix
	blind     bool                         // the sweep is blind: another alert reports all late jobs
}

// see reads the situation.
func (a *alarms) see(ctx context.Context) (s situation, err error) {
	s.now = a.overdue.now()
	if s.nodes, err = a.liveNodes(ctx); err != nil {
		return s, err
	}
	s.claims = claimsOf(s.nodes)
	if err := a.overdue.book.Refresh(ctx); err != nil {
		return s, err
	}
	s.halted = a.overdue.book.Halted()
	if s.refusals, err = a.store.Refusals(ctx); err != nil {
		return s, err
	}
	if s.late, err = a.overdue.look(ctx); err != nil || len(s.late.parts) == 0 {
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
		stream, isIntake := strings.CutPrefix(p.Topic, intakeTopic)
		switch {
		case !p.Still:
		case !isIntake:
			s.blind = true
		default:
			for _, rule := range a.overdue.book.WaitingFor(stream) {
				s.explained[rule] = true
			}
		}
	}
	return s, err
}

// liveNodes are the nodes whose rows have not expired.
func (a *alarms) liveNodes(ctx context.Context) ([]futurejobs.Node, error) {
	nodes, err := a.store.Nodes(ctx)
	now := a.overdue.now()
	return slices.DeleteFunc(nodes, func(n futurejobs.Node) bool { return !n.ExpiresAt.After(now) }), err
}

// isYoung reports whether a node began so lately that it may not have found out yet what it cannot read.
func (s situation) isYoung() bool {
	return slices.ContainsFunc(s.nodes, func(n futurejobs.Node) bool { return s.now.Sub(n.StartedAt) < unreadableAfter })
}

// unfit are the nodes that say that they are.
func (s situation) unfit() (all []alarm) {
	fit := slices.ContainsFunc(s.nodes, func(n futurejobs.Node) bool { return n.Unfit == "" })
	for _, n := range s.nodes {
		if n.Unfit == "" {
			continue
		}
		r := alerts.SystemAlert{Topic: "node/" + n.Name, Step: unfitStep, Status: alerts.Firing, Severity: alerts.Warning, Since: s.now, Labels: map[string]string{"node": n.Name}}
		r.Text = fmt.Sprintf("node %s is unfit and hands its shards over: %s", n.Name, n.Unfit)
		if !fit {
			r.Severity, r.Text = alerts.Error, fmt.Sprintf("node %s is unfit, and no other node is fit to take its shards: %s", n.Name, n.Unfit)
		}
		all = append(all, alarm{SystemAlert: r, raise: true})
	}
	return all
}

// unreadable are the versions of rules that a node cannot read and of which jobs are overdue.
func (s situation) unreadable() (all []alarm) {
	for made, c := range s.claims {
		late := s.late.of(made)
		if len(late.parts) == 0 && !s.late.more {
			continue
		}
		all = append(all, alarm{raise: len(late.parts) > 0 && s.now.Sub(late.oldest()) > unreadableAfter, SystemAlert: alerts.SystemAlert{
			Topic: versionTopic(c.Rule, made.Version), Step: unreadableStep, Status: alerts.Firing, Severity: c.Severity, Since: s.now, Count: late.jobs(),
			Text: fmt.Sprintf("version %d of rule %s cannot be read by node %s; %s of it wait, the oldest since %s: %.500s",
				made.Version, c.Rule, c.node, late.count(), late.oldest().UTC().Format(time.RFC3339), c.Reason),
			Labels: map[string]string{"rule": c.Rule},
		}})
	}
	return all
}

// overdueJobs is that jobs are overdue and no other alert explains why. It is raised late and ends early, so that one
// that passes by is no alert.
func (s situation) overdueJobs(after time.Duration) []alarm {
	late := s.late.without(func(e futurejobs.VersionRef) bool {
		_, claimed := s.claims[e]
		return claimed || s.explained[e.RuleID]
	})
	if len(late.parts) == 0 || s.blind {
		return nil
	}
	oldest := late.oldest()
	return []alarm{{raise: s.now.Sub(oldest) > after, SystemAlert: alerts.SystemAlert{
		Topic: sweepTopic, Step: overdueStep, Status: alerts.Firing, Severity: alerts.Error, Since: s.now, Count: late.jobs(),
		Text: fmt.Sprintf("%s are not decided, the oldest since %s, for %s; in %s", late.count(), oldest.UTC().Format(time.RFC3339),
			s.now.Sub(oldest).Round(time.Second), where(late.shards(), s.leases, s.nodes)),
	}}}
}

func versionTopic(rule string, version int32) string { return fmt.Sprintf("rule/%s/%d", rule, version) }

func cutVersion(topic string) (rule, version string) {
	at := strings.LastIndexByte(topic, '/')
	return strings.TrimPrefix(topic[:at], "rule/"), topic[at+1:]
}

// claim is that a node cannot read a version of a rule, as its row in the database has it.
type claim struct {
	RuleID   int32           `json:"rule_id"`
	Version  int32           `json:"version"`
	Rule     string          `json:"rule"`
	Severity alerts.Severity `json:"severity"` // the loudest that the rule is known to have
	Reason   string          `json:"reason"`

	node string
}

// claimsOf are the versions that nodes cannot read, each as the first of the nodes has it. What another version of
// deadman wrote otherwise is nothing.
func claimsOf(nodes []futurejobs.Node) map[futurejobs.VersionRef]claim {
	all := make(map[futurejobs.VersionRef]claim)
	for _, n := range nodes {
		var claims []claim
		if n.Unreadable == "" || json.Unmarshal([]byte(n.Unreadable), &claims) != nil {
			continue
		}
		for _, c := range claims {
			made := futurejobs.VersionRef{RuleID: c.RuleID, Version: c.Version}
			if _, known := all[made]; !known {
				c.node = n.Name
				all[made] = c
			}
		}
	}
	return all
}

// unreadable describes the versions that this node cannot read, for its row in the database.
func (n *node) unreadable(ctx context.Context) string {
	found := n.sweeper.Unreadable()
	if len(found) == 0 {
		return ""
	}
	claims := make([]claim, len(found))
	for i, u := range found {
		name, severity := n.book.About(ctx, u.RuleID, u.Version)
		claims[i] = claim{RuleID: u.RuleID, Version: u.Version, Rule: name, Severity: severity, Reason: fmt.Sprintf("%.500s", u.Reason)}
	}
	text, err := json.Marshal(claims)
	if err != nil {
		return "" // unreachable: numbers and strings
	}
	return string(text)
}

// names are the versions that claims are about, in order.
func names(claims map[futurejobs.VersionRef]claim) []string {
	var all []string
	for made, c := range claims {
		all = append(all, fmt.Sprintf("version %d of rule %s", made.Version, c.Rule))
	}
	slices.Sort(all)
	return all
}
