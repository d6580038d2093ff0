package server

import (
	"fmt"
	"slices"
	"strings"
	"time"

	"deadman/alerts"
	futurejobs "deadman/future_jobs"
	"deadman/internal/access"
	"deadman/rules"
)

// situation is the state of all nodes and shards in the database at one time.
type situation struct {
	now          time.Time
	nodes        []futurejobs.Node // live ones
	leases       []futurejobs.Lease
	overdueAfter time.Duration                   // age at which a due job is overdue
	overdue      backlog                         // at overdueAfter
	claims       map[futurejobs.VersionRef]claim // of the live nodes: versions that are unreadable or put off
	delayed      backlog                         // overdue because their checks are put off
	explained    map[int32]bool                  // rules with delayed jobs that another alert explains
	halted       []rules.Costly                  // rules paused because their expressions cost too much
	refusals     map[string][]access.LimitUse    // of quotas, by prefix
	sweepStalled bool                            // the sweep has stalled: another alert reports all late jobs
}

// isYoung reports whether a node started so recently that it may not have reported its unreadable versions yet.
func (s situation) isYoung() bool {
	return slices.ContainsFunc(s.nodes, func(n futurejobs.Node) bool { return s.now.Sub(n.StartedAt) < s.overdueAfter })
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

// unreadable returns alarms for the rule versions that a node cannot read and that have overdue jobs. Younger jobs raise
// none: while nodes are being replaced, the outgoing node may be the only one that can read the version.
func (s situation) unreadable() (all []alarm) {
	for ref, c := range s.claims {
		overdueJobs := s.overdue.of(ref)
		if c.PutOff || len(overdueJobs.parts) == 0 && !s.overdue.more {
			continue
		}
		all = append(all, alarm{raise: len(overdueJobs.parts) > 0 && s.now.Sub(overdueJobs.oldest()) > s.overdueAfter, SystemAlert: alerts.SystemAlert{
			Topic: versionTopic(c.Rule, ref.Version), Step: unreadableStep, Status: alerts.Firing, Severity: c.Severity, Since: s.now, Count: overdueJobs.jobs(),
			Text: fmt.Sprintf("version %d of rule %s cannot be read by node %s; %s of it wait, the oldest since %s: %.500s",
				ref.Version, c.Rule, c.node, overdueJobs.count(), overdueJobs.oldest().UTC().Format(time.RFC3339), c.Reason),
			Labels: map[string]string{"rule": c.Rule},
		}})
	}
	return all
}

// putOff returns an alarm for each rule with overdue jobs whose checks are put off.
func (s situation) putOff() (all []alarm) {
	rules := make(map[string]bool)
	for _, part := range s.delayed.parts {
		c := s.claims[part.VersionRef]
		if rules[c.Rule] {
			continue
		}
		rules[c.Rule] = true
		overdueJobs := s.delayed.without(func(e futurejobs.VersionRef) bool { return e.RuleID != part.RuleID })
		all = append(all, alarm{raise: true, SystemAlert: alerts.SystemAlert{
			Topic: "rule/" + c.Rule, Step: putOffStep, Status: alerts.Firing, Severity: c.Severity, Since: s.now, Count: overdueJobs.jobs(),
			Text: fmt.Sprintf("rule %s: %s of it wait, the oldest since %s: %s. They are checked as the allowance grows; make the conditions simpler",
				c.Rule, overdueJobs.count(), overdueJobs.oldest().UTC().Format(time.RFC3339), c.Reason),
			Labels: map[string]string{"rule": c.Rule},
		}})
	}
	return all
}

// overdueJobs returns an alarm if jobs are overdue without another explanation. The alert is raised late and resolved
// early, so that brief delays raise none.
func (s situation) overdueJobs(after time.Duration) []alarm {
	overdueJobs := s.overdue.without(func(e futurejobs.VersionRef) bool {
		_, claimed := s.claims[e] // unreadable: put-off jobs are not in overdue
		return claimed || s.explained[e.RuleID]
	})
	if len(overdueJobs.parts) == 0 || s.sweepStalled {
		return nil
	}
	oldest := overdueJobs.oldest()
	return []alarm{{raise: s.now.Sub(oldest) > after, SystemAlert: alerts.SystemAlert{
		Topic: sweepTopic, Step: overdueStep, Status: alerts.Firing, Severity: alerts.Error, Since: s.now, Count: overdueJobs.jobs(),
		Text: fmt.Sprintf("%s are not decided, the oldest since %s, for %s; in %s", overdueJobs.count(), oldest.UTC().Format(time.RFC3339),
			s.now.Sub(oldest).Round(time.Second), where(overdueJobs.shards(), s.leases, s.nodes)),
	}}}
}

// costly returns alarms for rules that are paused because their expressions cost too much. An alert stays open until
// its rule is resumed.
func (s situation) costly() (all []alarm) {
	for _, c := range s.halted {
		all = append(all, alarm{raise: true, SystemAlert: alerts.SystemAlert{
			Topic: "rule/" + c.Rule, Step: costlyStep, Status: alerts.Firing, Severity: c.Severity, Since: s.now,
			Text: fmt.Sprintf("rule %s is paused: its expressions or effects cost too much on several events. Its events are kept as dead letters. "+
				"Make them simpler or fewer, resume the rule, then retry its dead letters", c.Rule),
			Labels: map[string]string{"rule": c.Rule},
		}})
	}
	return all
}

// overQuota returns alarms for the limits with recent refusals on any node. A refused rule is reported only to the
// client.
func (s situation) overQuota(known []access.QuotaUse) (all []alarm) {
	for _, q := range known {
		for _, use := range q.Use {
			refusal := s.refusal(q.Prefix, use.Limited)
			if use.Limited == access.LimitRules || refusal.RefusedAt.IsZero() || s.now.Sub(refusal.RefusedAt) > quotaRemarked {
				continue
			}
			severity := alerts.Error
			if use.Limited == access.LimitEvents || use.Limited == access.LimitEventBytes {
				severity = alerts.Warning
			}
			all = append(all, alarm{raise: true, SystemAlert: alerts.SystemAlert{
				Topic: quotaTopic(q.Prefix, use.Limited), Step: quotaStep, Status: alerts.Firing, Severity: severity, Since: s.now,
				Text:   q.Exceeded(use.Limited, use.Most).Error(),
				Labels: map[string]string{"prefix": q.Prefix, "quota": string(use.Limited)},
			}})
		}
	}
	return all
}

// refusal returns the number and the last time of refusals by a limit of a prefix.
func (s situation) refusal(prefix string, what access.Limited) access.LimitUse {
	for _, use := range s.refusals[prefix] {
		if use.Limited == what {
			return use
		}
	}
	return access.LimitUse{}
}

// quotaStep is the step of the alerts about quotas.
const quotaStep = "quota"

func quotaTopic(prefix string, what access.Limited) string {
	return fmt.Sprintf("quota/%s*/%s", prefix, what)
}

// quotaOver returns the text of the alert that resolves a quota alert.
func quotaOver(topic string) string {
	prefix, what, _ := strings.Cut(strings.TrimPrefix(topic, "quota/"), "/")
	return fmt.Sprintf("the quota of %s of the rules %s refused nothing for %s", what, prefix, quotaRemarked)
}
