package web

import (
	"context"
	"time"

	futurejobs "deadman/future_jobs"
	"deadman/rules"
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
	counts  *cachedCount[map[int32]futurejobs.RuleJobs]
	now     func() time.Time
}

func newRuleJobCounts(o Options) *ruleJobCounts {
	count := func(ctx context.Context) (map[int32]futurejobs.RuleJobs, error) { return o.Lists.RuleJobs(ctx) }
	return &ruleJobCounts{o.Catalog, &cachedCount[map[int32]futurejobs.RuleJobs]{what: "jobs by rule", count: count, now: o.Now, log: o.Log}, o.Now}
}

// ofRules returns a function that counts a rule's jobs; it returns nil before the first count.
func (a *ruleJobCounts) ofRules(ctx context.Context) func(rules.ListedRule) *RuleJobs {
	last, ok := a.counts.newest(ctx)
	return func(of rules.ListedRule) *RuleJobs {
		if !ok {
			return nil
		}
		n := last.What[of.RuleID]
		if n.Open == n.Pending && heldForGood(a.catalog, of.Name, n.NextCheckAt, a.now()) {
			n.NextCheckAt = time.Time{}
		}
		return &RuleJobs{n.Pending, n.Open, n.Undetermined, n.GaveUp, n.NextCheckAt, last.At.UTC()}
	}
}
