package web

import (
	"context"
	"maps"
	"net/http"
	"slices"
	"time"

	futurejobs "deadman/future_jobs"
	"deadman/internal/access"
)

// StatisticsReader counts the jobs of rules. The store implements it. Implementations are safe for concurrent use.
type StatisticsReader interface {
	// RuleJobs counts pending jobs, by the id of the rule. It reads all of them.
	RuleJobs(ctx context.Context) (map[int32]futurejobs.RuleJobs, error)
	// Statistics returns the counts of rules in the window that ends with the last counted hour; nil: of all rules.
	Statistics(ctx context.Context, rules []int32, window time.Duration) (futurejobs.Statistics, error)
	// LastDay returns the counts of all rules in the day that ends with the last counted hour.
	LastDay(ctx context.Context) (futurejobs.LastDay, error)
}

// CountDelay is the time after the end of an hour at which its jobs are counted, approximately.
const CountDelay = 5 * time.Minute

// RuleStatistics are the statistics of a rule.
type RuleStatistics struct {
	Rule string `json:"rule" doc:"Name of the rule." example:"order-unshipped"`
	Statistics
}

// Statistics tells how many jobs were resolved in time, late or never, as the API returns it.
type Statistics struct {
	Window      string             `json:"window" enum:"day,week,month" doc:"Width of the window: 24 hours, 7 days or 30 days."`
	From        time.Time          `json:"from,omitzero" doc:"Start of the window. Absent if no hour is counted yet."`
	To          time.Time          `json:"to,omitzero" doc:"End of the last counted hour: jobs that ended later are not counted yet. An hour is counted about five minutes after its end. Absent if no hour is counted yet."`
	CountedFrom time.Time          `json:"counted_from,omitzero" doc:"Start of the first counted hour, if it is after from: it is unknown how jobs ended before. Absent if the whole window is counted, or nothing."`
	InTime      int64              `json:"in_time" doc:"Number of jobs that were resolved or cleared before their first step."`
	Late        int64              `json:"late" doc:"Number of jobs that were resolved or cleared after their first step."`
	Never       int64              `json:"never" doc:"Number of jobs that ended in another way: exhausted, expired, undetermined or by a guard. Cancelled and restarted jobs, and jobs of a deleted rule, are not counted."`
	P50         *float64           `json:"p50_seconds,omitempty" doc:"Half of the jobs in in_time and late took at most this time from their start to their end, in seconds, rounded down by at most a tenth. Absent if there are none."`
	P95         *float64           `json:"p95_seconds,omitempty" doc:"Like p50_seconds, for 95 % of the jobs."`
	Bucket      float64            `json:"bucket_seconds" doc:"Width of a bucket, in seconds."`
	Items       []StatisticsBucket `json:"items" nullable:"false" doc:"Buckets, in the order of time."`
}

// StatisticsBucket counts the jobs that ended in one bucket.
type StatisticsBucket struct {
	From   time.Time `json:"from" doc:"Start of the bucket."`
	InTime int64     `json:"in_time" doc:"Number of jobs that were resolved or cleared before their first step."`
	Late   int64     `json:"late" doc:"Number of jobs that were resolved or cleared after their first step."`
	Never  int64     `json:"never" doc:"Number of jobs that ended in another way."`
}

// RuleDay counts the ended jobs of a rule by hour, as the API returns it in lists.
type RuleDay struct {
	To     time.Time `json:"to" doc:"End of the day and of the last counted hour."`
	InTime []int64   `json:"in_time" nullable:"false" doc:"Numbers of jobs that were resolved or cleared before their first step, for each of the 24 hours before to."`
	Late   []int64   `json:"late" nullable:"false" doc:"Numbers of jobs that were resolved or cleared after their first step."`
	Never  []int64   `json:"never" nullable:"false" doc:"Numbers of jobs that ended in another way."`
}

// newRuleDay returns the day of a rule; nil: none of its jobs ended.
func newRuleDay(day futurejobs.LastDay, rule int32) *RuleDay {
	o := day.Rules[rule]
	if o == nil {
		return nil
	}
	return &RuleDay{day.Until, o[futurejobs.InTime][:], o[futurejobs.Late][:], o[futurejobs.Never][:]}
}

// statisticsWindow is the buckets of a window.
type statisticsWindow struct {
	bucket  time.Duration
	buckets int
}

func (w statisticsWindow) span() time.Duration { return w.bucket * time.Duration(w.buckets) }

// statisticsWindows are the windows by name.
var statisticsWindows = map[string]statisticsWindow{"day": {time.Hour, 24}, "week": {futurejobs.Day, 7}, "month": {futurejobs.Day, 30}}

// StatisticsWindow selects the window of statistics.
type StatisticsWindow struct {
	Window string `query:"window" enum:"day,week,month" default:"day" doc:"day: the 24 hours up to the current one, by hour. week: 7 days, month: 30 days, both by day in UTC up to today. Buckets after to are not counted yet."`
}

type ruleStatisticsIn struct {
	RuleName
	StatisticsWindow
}

// statisticsIn has the filters of the statistics.
type statisticsIn struct {
	Rule   identifier `query:"rule" doc:"Filter by rule." example:"order-unshipped"`
	Entity identifier `query:"entity" doc:"Filter by entity type." example:"order"`
	StatisticsWindow
}

// statisticsAPI has the operations that count ended jobs.
type statisticsAPI struct {
	versions RuleVersions
	rules    Rules
	counts   StatisticsReader
	now      func() time.Time
}

func (a *statisticsAPI) register(all *operations) {
	register(all, operation{
		ID: "get-rule-statistics", Tag: tagRules, Method: "GET", Path: "/rules/{name}/statistics", Summary: "count jobs resolved in time, late or never",
		Scope: access.Read, Reach: reachRule, Errors: []int{http.StatusNotFound},
	}, withBody(a.get))
	register(all, operation{
		ID: "get-statistics", Tag: tagJobs, Method: "GET", Path: "/history/statistics", Summary: "count jobs of several rules resolved in time, late or never",
		Description: "Jobs of deleted rules are counted only without a filter, and not for tokens with a prefix.",
		Scope:       access.Read, Reach: reachFiltered,
	}, withBody(a.filtered))
}

func (a *statisticsAPI) get(ctx context.Context, in *ruleStatisticsIn) (RuleStatistics, error) {
	l, err := a.versions.Get(ctx, string(in.Name))
	if err != nil {
		return RuleStatistics{}, err
	}
	counted, err := a.count(ctx, []int32{l.RuleID}, in.Window)
	return RuleStatistics{l.Name, counted}, err
}

// filtered counts the jobs of the rules of a filter that the visitor sees.
func (a *statisticsAPI) filtered(ctx context.Context, in *statisticsIn) (Statistics, error) {
	v := principalOf(ctx)
	if in.Rule == "" && in.Entity == "" && v.requireUnrestricted() == nil {
		return a.count(ctx, nil, in.Window)
	}
	all, err := a.rules.List(ctx)
	if err != nil {
		return Statistics{}, err
	}
	ids := []int32{}
	for _, l := range all {
		if (in.Rule == "" || l.Name == string(in.Rule)) && (in.Entity == "" || l.Entity == string(in.Entity)) && v.canSee(l.Name) {
			ids = append(ids, l.RuleID)
		}
	}
	return a.count(ctx, ids, in.Window)
}

// count counts the jobs of rules; nil: of all rules.
func (a *statisticsAPI) count(ctx context.Context, rules []int32, name string) (Statistics, error) {
	window := statisticsWindows[name]
	counted, err := a.counts.Statistics(ctx, rules, window.span())
	if err != nil {
		return Statistics{}, err
	}
	out := Statistics{Window: name, Bucket: window.bucket.Seconds(), Items: []StatisticsBucket{}}
	if !counted.Until.IsZero() {
		out.add(counted, window, a.now())
	}
	return out, nil
}

// end returns the end of the bucket of a time, exclusive.
func (w statisticsWindow) end(at time.Time) time.Time {
	return at.UTC().Truncate(w.bucket).Add(w.bucket)
}

// add adds the counts of a window, as of now, to its buckets and sums. The buckets are those of the outcomes.
func (s *Statistics) add(counted futurejobs.Statistics, window statisticsWindow, now time.Time) {
	end := later(window.end(now), window.end(counted.Until.Add(-1)))
	s.From, s.To = end.Add(-window.span()), counted.Until
	if counted.Since.After(s.From) {
		s.CountedFrom = counted.Since
	}
	for i := range window.buckets {
		s.Items = append(s.Items, StatisticsBucket{From: s.From.Add(time.Duration(i) * window.bucket)})
	}
	var resolved tookCounts
	for _, h := range counted.Hours {
		if h.Hour.Before(s.From) {
			continue
		}
		b := &s.Items[h.Hour.Sub(s.From)/window.bucket]
		switch h.Kind {
		case futurejobs.InTime:
			b.InTime, s.InTime = b.InTime+h.Jobs, s.InTime+h.Jobs
			resolved.add(h)
		case futurejobs.Late:
			b.Late, s.Late = b.Late+h.Jobs, s.Late+h.Jobs
			resolved.add(h)
		case futurejobs.Never:
			b.Never, s.Never = b.Never+h.Jobs, s.Never+h.Jobs
		}
	}
	s.P50, s.P95 = resolved.percentile(50), resolved.percentile(95)
}

// tookCounts counts jobs by the time from their start to their end.
type tookCounts struct {
	jobs map[time.Duration]int64
	sum  int64
}

func (c *tookCounts) add(h futurejobs.OutcomeHour) {
	if c.jobs == nil {
		c.jobs = make(map[time.Duration]int64)
	}
	c.jobs[h.Took] += h.Jobs
	c.sum += h.Jobs
}

// percentile returns the shortest time, in seconds, that at least p percent of the jobs did not exceed; nil without jobs.
func (c *tookCounts) percentile(p int64) *float64 {
	within := int64(0)
	for _, took := range slices.Sorted(maps.Keys(c.jobs)) {
		if within += c.jobs[took]; within*100 >= p*c.sum {
			seconds := took.Seconds()
			return &seconds
		}
	}
	return nil
}
