package web

import (
	"context"
	"time"

	futurejobs "deadman/future_jobs"
	"deadman/internal/access"
)

// The range and the limits of counting outcomes.
const (
	endsDays    = 14               // whole days before today
	endsSettle  = 5 * time.Minute  // after its end, a day's count is final: its last transactions have committed by then
	endsBudget  = 10 * time.Second // for the days of one count; the others follow with the next
	slowestMost = 100              // jobs of all rules with the slowest checks
	slowestFor  = futurejobs.Day
)

// OutcomeReader counts outcomes over time. The store implements it. Implementations are safe for concurrent use.
type OutcomeReader interface {
	// OutcomeCounts counts the jobs that ended in [from, until), by hour, rule and outcome. It reads all of them.
	OutcomeCounts(ctx context.Context, from, until time.Time) ([]futurejobs.OutcomeCount, error)
	// Slowest returns the jobs with the slowest checks that ended since from, slowest first. It reads all of them.
	Slowest(ctx context.Context, from time.Time, limit int) ([]futurejobs.EndedJob, error)
}

// Outcomes is the outcomes over a time, one item for each bucket.
type Outcomes struct {
	From          time.Time       `json:"from" doc:"Start of the first bucket."`
	To            time.Time       `json:"to" doc:"End of the last bucket, exclusive."`
	Bucket        float64         `json:"bucket_seconds" doc:"Width of a bucket, in seconds."`
	CountedAt     time.Time       `json:"counted_at,omitzero" doc:"Time of the count. Jobs that ended later are not included. Absent during the first count."`
	CountedFrom   time.Time       `json:"counted_from,omitzero" doc:"Jobs that ended before this time are not counted yet."`
	Items         []OutcomeBucket `json:"items" nullable:"false" doc:"Buckets, in the order of time."`
	SlowestChecks []SlowestCheck  `json:"slowest_checks" nullable:"false" doc:"Up to 10 jobs of the last day with the longest checks, among the 100 longest of all rules."`
}

// OutcomeBucket is the outcomes of one bucket.
type OutcomeBucket struct {
	From     time.Time        `json:"from" doc:"Start of the bucket."`
	Outcomes map[string]int64 `json:"outcomes" nullable:"false" doc:"Number of ended jobs by outcome."`
	Late     map[string]int64 `json:"late" nullable:"false" doc:"Number of these jobs that were resolved or cleared after their first step, by outcome."`
}

// add adds the jobs of an hour.
func (b *OutcomeBucket) add(e futurejobs.OutcomeCount) {
	b.Outcomes[string(e.Outcome)] += e.Jobs
	if kind, counted := futurejobs.KindOf(e.Outcome, 1); e.AfterStep > 0 && counted && kind == futurejobs.Late {
		b.Late[string(e.Outcome)] += e.AfterStep
	}
}

// SlowestCheck is an ended job with a slow check.
type SlowestCheck struct {
	Rule    string    `json:"rule" doc:"Name of the rule."`
	Entity  string    `json:"entity" doc:"Entity type."`
	Key     string    `json:"key" doc:"Key of the entity."`
	EndedAt time.Time `json:"ended_at" doc:"Time at which the job ended."`
	Checks  int       `json:"checks" doc:"Number of checks of the job."`
	Seconds float64   `json:"seconds" doc:"Duration of its longest check, in seconds."`
}

// outcomesIn has the filters of the outcomes.
type outcomesIn struct {
	Rule   identifier `query:"rule" doc:"Filter by rule." example:"order-unshipped"`
	Entity identifier `query:"entity" doc:"Filter by entity type." example:"order"`
	Bucket string     `query:"bucket" enum:"1h,1d" default:"1h" doc:"1h: the last 24 hours, by hour. 1d: the last 14 days, by day in UTC."`
}

// outcomeAPI has the operation that counts how jobs ended.
type outcomeAPI struct {
	ended *cachedCount[outcomeCounts]
	now   func() time.Time
}

func newOutcomeAPI(o Options) *outcomeAPI {
	counter := &outcomeCounter{OutcomeReader: o.Lists, now: o.Now, past: make(map[time.Time][]futurejobs.OutcomeCount)}
	return &outcomeAPI{&cachedCount[outcomeCounts]{what: "how jobs ended", count: counter.count, now: o.Now, log: o.Log}, o.Now}
}

func (a *outcomeAPI) register(all *operations) {
	register(all, operation{
		ID: "list-outcomes", Tag: tagJobs, Method: "GET", Path: "/history/outcomes", Summary: "count outcomes over time, with the slowest checks",
		Description: "Counts are computed in the background, as of counted_at.",
		Scope:       access.Read, Reach: reachFiltered,
	}, withBody(a.list))
}

func (a *outcomeAPI) list(ctx context.Context, in *outcomesIn) (Outcomes, error) {
	now, width, parts := a.now().UTC(), time.Hour, 24
	if in.Bucket == "1d" {
		width, parts = futurejobs.Day, endsDays
	}
	out := Outcomes{To: now.Truncate(width).Add(width), Bucket: width.Seconds(), Items: make([]OutcomeBucket, parts), SlowestChecks: []SlowestCheck{}}
	out.From = out.To.Add(-time.Duration(parts) * width)
	for i := range out.Items {
		out.Items[i] = OutcomeBucket{From: out.From.Add(time.Duration(i) * width), Outcomes: map[string]int64{}, Late: map[string]int64{}}
	}
	last, ok := a.ended.newest(ctx)
	if !ok {
		return out, nil
	}
	out.CountedAt, out.CountedFrom = last.At.UTC(), last.What.from
	meant := func(rule, entity string) bool {
		return (in.Rule == "" || rule == string(in.Rule)) && (in.Entity == "" || entity == string(in.Entity)) && principalOf(ctx).canSee(rule)
	}
	for _, e := range last.What.hours {
		if e.Hour.Before(out.From) || !e.Hour.Before(out.To) || !meant(e.Rule, e.Entity) {
			continue
		}
		out.Items[e.Hour.Sub(out.From)/width].add(e)
	}
	for _, e := range last.What.slowest {
		if len(out.SlowestChecks) < 10 && meant(e.Rule, e.Entity) {
			out.SlowestChecks = append(out.SlowestChecks, SlowestCheck{e.Rule, e.Entity, e.Key, e.EndedAt.UTC(), e.CheckAttempts, e.CheckSlowest.Seconds()})
		}
	}
	return out, nil
}

// outcomeCounts is the result of counting the history.
type outcomeCounts struct {
	from    time.Time // jobs that ended before are not counted
	hours   []futurejobs.OutcomeCount
	slowest []futurejobs.EndedJob
}

// outcomeCounter counts outcomes. It caches the counts of past days. Only one count runs at a time.
type outcomeCounter struct {
	OutcomeReader
	now func() time.Time

	past map[time.Time][]futurejobs.OutcomeCount // by day
}

// count counts today, and as many days before as the budget permits, newest first.
func (t *outcomeCounter) count(ctx context.Context) (e outcomeCounts, err error) {
	startedAt, now := time.Now(), t.now().UTC()
	day := now.Add(-endsSettle).Truncate(futurejobs.Day)
	if e.hours, err = t.OutcomeReader.OutcomeCounts(ctx, day, now.Add(futurejobs.Day)); err != nil {
		return e, err
	}
	if e.slowest, err = t.Slowest(ctx, now.Add(-slowestFor), slowestMost); err != nil {
		return e, err
	}
	oldest := day.AddDate(0, 0, -endsDays)
	for e.from = day; e.from.After(oldest); e.from = e.from.AddDate(0, 0, -1) {
		before := e.from.AddDate(0, 0, -1)
		counted, known := t.past[before]
		if !known && time.Since(startedAt) > endsBudget {
			break
		}
		if !known {
			if counted, err = t.OutcomeReader.OutcomeCounts(ctx, before, e.from); err != nil {
				return e, err
			}
			t.past[before] = counted
		}
		e.hours = append(e.hours, counted...)
	}
	for d := range t.past {
		if d.Before(oldest) {
			delete(t.past, d)
		}
	}
	return e, nil
}
