package server

import (
	"context"
	"encoding/json"
	"fmt"
	"log/slog"
	"maps"
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
	putOffStep     = "allowance"
)

// unreadableAfter is the time that a job must be due before an unreadable rule version raises an alert: while nodes
// are being replaced, the outgoing node may be the only one that can read the version.
const unreadableAfter = time.Minute

// alarms raises an alert for each condition that delays due jobs, and resolves it when the condition ends. Every node
// reads the state of all shards and nodes from the database, because a broken node may be unable to report itself.
// The database records the open alerts, so each is raised once.
type alarms struct {
	overdue *overdue
	quotas  *access.Quotas
	store   *store.Store
	after   time.Duration // age at which unexplained overdue jobs raise an alert; alerts that explain them are raised earlier
	remark  func(alerts.Alert, bool, error) error
	log     *slog.Logger
}

// alarm is a system alert for a condition. raise is false if an open alert must stay open but no new one is due.
type alarm struct {
	alerts.SystemAlert
	raise bool
}

// Run runs rounds until ctx ends.
func (a *alarms) Run(ctx context.Context) error {
	r := rounds{
		every: stallCheckInterval, do: a.round, log: a.log, level: slog.LevelWarn,
		failed: "overdue jobs, unfit nodes, unreadable and costly rules, and used-up quotas cannot be looked for",
		works:  "overdue jobs, unfit nodes, unreadable and costly rules, and used-up quotas are looked for again",
	}
	return r.Run(ctx)
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
	standing, err := a.store.Standing(ctx)
	if err != nil {
		return err
	}
	s, err := a.see(ctx)
	if err != nil {
		return err
	}
	found := slices.Concat(s.unfit(), s.unreadable(), s.putOff(), s.costly(), s.overQuota(a.quotas.Uses("")), s.overdueJobs(a.after))
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
		return strings.Replace(topic, "rule/", "rule ", 1) + ": no due check of it is put off any more"
	},
	quotaStep: quotaOver,
	overdueStep: func(string) string {
		return "no due job waits for longer than it may, but where another alert names the cause"
	},
}

// situation is the state of all nodes and shards in the database at one time.
type situation struct {
	now       time.Time
	nodes     []futurejobs.Node // live ones
	leases    []futurejobs.Lease
	late      backlog // at overdueAfter
	claims    map[futurejobs.VersionRef]claim
	delayed   backlog                      // overdue because their checks are put off
	explained map[int32]bool               // rules with delayed jobs that another alert explains
	halted    []rules.Costly               // rules paused because their expressions cost too much
	refusals  map[string][]access.LimitUse // of quotas, by prefix
	blind     bool                         // the sweep has stalled: another alert reports all late jobs
}

// see reads the situation.
func (a *alarms) see(ctx context.Context) (s situation, err error) {
	s.now = a.overdue.now()
	if s.nodes, err = a.liveNodes(ctx); err != nil {
		return s, err
	}
	s.claims = unreadableOf(claimsOf(s.nodes))
	if err := a.overdue.book.Refresh(ctx); err != nil {
		return s, err
	}
	s.halted = a.overdue.book.Halted()
	if s.refusals, err = a.store.Refusals(ctx); err != nil {
		return s, err
	}
	if s.late, s.delayed, err = a.overdue.lookApart(ctx); err != nil || len(s.late.parts) == 0 {
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

// liveNodes returns the nodes with unexpired rows.
func (a *alarms) liveNodes(ctx context.Context) ([]futurejobs.Node, error) {
	nodes, err := a.store.Nodes(ctx)
	now := a.overdue.now()
	return slices.DeleteFunc(nodes, func(n futurejobs.Node) bool { return !n.ExpiresAt.After(now) }), err
}

// isYoung reports whether a node started so recently that it may not have reported its unreadable versions yet.
func (s situation) isYoung() bool {
	return slices.ContainsFunc(s.nodes, func(n futurejobs.Node) bool { return s.now.Sub(n.StartedAt) < unreadableAfter })
}

// unfit returns an alarm for each node that reports itself unfit.
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

// unreadable returns alarms for the rule versions that a node cannot read and that have overdue jobs.
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

// putOff returns an alarm for each rule with overdue jobs whose checks are put off.
func (s situation) putOff() (all []alarm) {
	claims := claimsOf(s.nodes)
	rules := make(map[string]bool)
	for _, part := range s.delayed.parts {
		c := claims[part.VersionRef]
		if rules[c.Rule] {
			continue
		}
		rules[c.Rule] = true
		late := s.delayed.without(func(e futurejobs.VersionRef) bool { return e.RuleID != part.RuleID })
		all = append(all, alarm{raise: true, SystemAlert: alerts.SystemAlert{
			Topic: "rule/" + c.Rule, Step: putOffStep, Status: alerts.Firing, Severity: c.Severity, Since: s.now, Count: late.jobs(),
			Text: fmt.Sprintf("rule %s: %s of it wait, the oldest since %s: %s. They are checked as the allowance grows; make the conditions simpler",
				c.Rule, late.count(), late.oldest().UTC().Format(time.RFC3339), c.Reason),
			Labels: map[string]string{"rule": c.Rule},
		}})
	}
	return all
}

// overdueJobs returns an alarm if jobs are overdue without another explanation. The alert is raised late and resolved
// early, so that brief delays raise none.
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

// claim is a node's report, in its database row, that it cannot read a version of a rule, or puts its checks off.
type claim struct {
	RuleID   int32           `json:"rule_id"`
	Version  int32           `json:"version"`
	Rule     string          `json:"rule"`
	Severity alerts.Severity `json:"severity"` // highest known severity of the rule
	Reason   string          `json:"reason"`
	PutOff   bool            `json:"put_off,omitempty"` // the version can be read, and its checks are put off

	node string
}

// unreadableOf returns the claims about unreadable versions.
func unreadableOf(claims map[futurejobs.VersionRef]claim) map[futurejobs.VersionRef]claim {
	maps.DeleteFunc(claims, func(_ futurejobs.VersionRef, c claim) bool { return c.PutOff })
	return claims
}

// claimsOf returns the claimed versions, each with the claim of the first node that reports it. Rows in the format
// of another deadman version are ignored.
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

// reasonPutOff is why checks are put off.
const reasonPutOff = "the rules of its tenant used up what their conditions may cost on this node"

// unreadable encodes the versions that this node cannot read, and those whose checks it puts off, for its database row.
func (n *node) unreadable(ctx context.Context) string {
	var claims []claim
	for _, u := range n.sweeper.Unreadable() {
		name, severity := n.book.About(ctx, u.RuleID, u.Version)
		claims = append(claims, claim{RuleID: u.RuleID, Version: u.Version, Rule: name, Severity: severity, Reason: fmt.Sprintf("%.500s", u.Reason)})
	}
	for _, p := range n.sweeper.PutOff() {
		_, severity := n.book.About(ctx, p.RuleID, p.Version)
		claims = append(claims, claim{RuleID: p.RuleID, Version: p.Version, Rule: p.Rule, Severity: severity, Reason: reasonPutOff, PutOff: true})
	}
	if len(claims) == 0 {
		return ""
	}
	text, err := json.Marshal(claims)
	if err != nil {
		return "" // unreachable: numbers and strings
	}
	return string(text)
}

// names returns descriptions of the claimed versions, sorted.
func names(claims map[futurejobs.VersionRef]claim) []string {
	var all []string
	for made, c := range claims {
		all = append(all, fmt.Sprintf("version %d of rule %s", made.Version, c.Rule))
	}
	slices.Sort(all)
	return all
}
