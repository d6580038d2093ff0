package web

import (
	"context"
	"time"

	futurejobs "deadman/future_jobs"
	"deadman/rules"
)

// RuleJobs counts a rule's jobs, as the API returns it.
type RuleJobs struct {
	Waiting      int64     `json:"waiting" doc:"Pending jobs."`
	Alerting     int64     `json:"alerting" doc:"About which something was said."`
	Undetermined int64     `json:"undetermined" doc:"Of which the last look could not find out."`
	GaveUp       int64     `json:"gave_up" doc:"Not pending: those that a guard ended and whose slot was in the last 24 hours."`
	NextCheckAt  time.Time `json:"next_check_at,omitzero" doc:"The slot of the next look at one of them; absent where there is none."`
	CountedAt    time.Time `json:"counted_at" doc:"It is counted while somebody asks, every two seconds, or less often where that takes long."`
}

// ruleJobCounts counts the pending jobs of rules.
type ruleJobCounts struct {
	book   Book
	counts *cachedCount[map[int32]futurejobs.RuleJobs]
	now    func() time.Time
}

func newRuleJobCounts(o Options) *ruleJobCounts {
	count := func(ctx context.Context) (map[int32]futurejobs.RuleJobs, error) { return o.Lists.RuleJobs(ctx) }
	return &ruleJobCounts{o.Book, &cachedCount[map[int32]futurejobs.RuleJobs]{what: "jobs by rule", count: count, now: o.Now, log: o.Log}, o.Now}
}

// ofRules returns a function that counts a rule's jobs; it returns nil before the first count.
func (a *ruleJobCounts) ofRules(ctx context.Context) func(rules.ListedRule) *RuleJobs {
	last, ok := a.counts.newest(ctx)
	return func(of rules.ListedRule) *RuleJobs {
		if !ok {
			return nil
		}
		n := last.What[of.RuleID]
		if n.Alerting == n.Waiting && heldForGood(a.book, of.Name, n.NextCheckAt, a.now()) {
			n.NextCheckAt = time.Time{}
		}
		return &RuleJobs{n.Waiting, n.Alerting, n.Undetermined, n.GaveUp, n.NextCheckAt, last.At.UTC()}
	}
}
