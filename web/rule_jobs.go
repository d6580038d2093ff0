package web

import (
	"context"
	"time"

	futurejobs "deadman/future_jobs"
	"deadman/rules"
	"deadman/rules/document"
)

// RuleJobs counts a rule's jobs, as the API returns it.
type RuleJobs struct {
	Pending      int64     `json:"pending" doc:"Number of pending jobs."`
	OpenAlerts   int64     `json:"open_alerts" doc:"Number of pending jobs with an open alert."`
	Undetermined int64     `json:"undetermined" doc:"Number of pending jobs whose last check failed to get an answer."`
	GaveUp       int64     `json:"gave_up" doc:"Number of jobs that a guard ended in the last 24 hours. They are not pending."`
	NextCheckAt  time.Time `json:"next_check_at,omitzero" doc:"Slot of the next check of any job. Absent if there is none."`
	CountedAt    time.Time `json:"counted_at" doc:"Time of the count. Counts are refreshed every two seconds while they are requested, or less often if counting takes long."`
}

// ruleJobCounts counts the pending jobs of rules.
type ruleJobCounts struct {
	catalog LoadedRules
	counts  *cachedCount[countedRules]
	now     func() time.Time
}

// countedRules has the counts of all rules, by id.
type countedRules struct {
	jobs          map[int32]futurejobs.RuleJobs
	neverReported map[int32]bool
	rules         []rules.ListedRule
	known         map[int32]bool // the ids of the rules
	day           futurejobs.LastDay
}

func newRuleJobCounts(o Options) *ruleJobCounts {
	c := &ruleCounter{rules: o.Rules, lists: o.Lists, reported: make(map[int32]bool)}
	return &ruleJobCounts{o.Catalog, &cachedCount[countedRules]{what: "jobs by rule", count: c.count, now: o.Now, log: o.Log}, o.Now}
}

// ruleCounter counts the jobs of rules. Its counts run one at a time.
type ruleCounter struct {
	rules    Rules
	lists    Reader
	reported map[int32]bool // rules with heartbeats that had a job
}

// maxHistorySearches bounds the searches of one count in history. Further rules without a pending job count as never
// reported, since they watch nothing either.
const maxHistorySearches = 200

// count counts the pending jobs, and finds the heartbeats without keys that never had a job.
func (c *ruleCounter) count(ctx context.Context) (out countedRules, err error) {
	if out.jobs, err = c.lists.RuleJobs(ctx); err != nil {
		return out, err
	}
	if out.day, err = c.lists.LastDay(ctx); err != nil {
		return out, err
	}
	all, err := c.rules.List(ctx)
	if err != nil {
		return out, err
	}
	out.rules = all
	out.neverReported, out.known = make(map[int32]bool), make(map[int32]bool)
	searched := 0
	for _, l := range all {
		out.known[l.RuleID] = true
		if !startsUnwatched(l.Document) || c.reported[l.RuleID] {
			continue
		}
		reported := out.jobs[l.RuleID].Pending > 0
		if !reported && searched < maxHistorySearches {
			searched++
			ended, err := c.lists.History(ctx, futurejobs.Filter{Rule: l.Name, Limit: 1})
			if err != nil {
				return out, err
			}
			reported = len(ended.Items) > 0
		}
		if reported {
			c.reported[l.RuleID] = true
		} else {
			out.neverReported[l.RuleID] = true
		}
	}
	return out, nil
}

// startsUnwatched reports whether a rule has a heartbeat without keys: its first job starts with its first signal.
func startsUnwatched(d document.Document) bool {
	return d.Trigger.Heartbeat != nil && len(d.Trigger.Heartbeat.Keys) == 0
}

// lastRuleCounts are the counts of the last count.
type lastRuleCounts struct {
	*ruleJobCounts
	countedAt[countedRules]
	known bool // false before the first count
}

// last returns the counts of the last count.
func (a *ruleJobCounts) last(ctx context.Context) lastRuleCounts {
	last, known := a.counts.newest(ctx)
	return lastRuleCounts{a, last, known}
}

// pendingOf returns the number of pending jobs of the rules of a filter that the visitor sees; nil: unknown.
func (a *ruleJobCounts) pendingOf(ctx context.Context, f futurejobs.Filter) *int64 {
	last, known := a.counts.newest(ctx)
	if !known {
		return nil
	}
	total := int64(0)
	for _, l := range last.What.rules {
		if (f.Rule == "" || f.Rule == l.Name) && (f.Entity == "" || f.Entity == l.Entity) && principalOf(ctx).canSee(l.Name) {
			total += last.What.jobs[l.RuleID].Pending
		}
	}
	return &total
}

// add adds the counts of a rule to it. It adds nothing before the first count.
func (c lastRuleCounts) add(r Rule, of rules.ListedRule) Rule {
	if !c.known {
		return r
	}
	n := c.What.jobs[of.RuleID]
	if n.Open == n.Pending && heldForGood(c.catalog, of.Name, n.NextCheckAt, c.now()) {
		n.NextCheckAt = time.Time{}
	}
	r.Jobs = &RuleJobs{n.Pending, n.Open, n.Undetermined, n.GaveUp, n.NextCheckAt, c.At.UTC()}
	r.LastDay = newRuleDay(c.What.day, of.RuleID)
	r.NeverReported = c.isNeverReported(of)
	return r
}

// isNeverReported reports whether nothing ever reported to a heartbeat without keys. A rule saved after the count has no
// job yet.
func (c lastRuleCounts) isNeverReported(of rules.ListedRule) bool {
	return c.What.neverReported[of.RuleID] || c.known && !c.What.known[of.RuleID] && startsUnwatched(of.Document)
}
