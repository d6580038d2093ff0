package replay

import (
	"fmt"
	"maps"
	"math"
	"slices"
	"strings"
	"time"

	"deadman/alerts"
	"deadman/checks"
	futurejobs "deadman/future_jobs"
	"deadman/internal/subjects"
	"deadman/rules/document"
)

// Summary counts the results of a replay by rule.
type Summary struct {
	Events  int64         `json:"events"`
	From    time.Time     `json:"from,omitzero"`  // of the first event
	Until   time.Time     `json:"until,omitzero"` // end of the replay
	Rules   []*RuleResult `json:"rules"`
	Unruled []Refusal     `json:"refused,omitempty"` // refused events that no rule caused
	Unread  *Unread       `json:"unread,omitempty"`  // nil: the rules read all subjects

	Against     *Difference  `json:"against,omitempty"` // to the alerts of other rules; nil: there is no comparison
	Suggestions []Suggestion `json:"suggestions,omitempty"`

	absent []subscription          // without an event so far
	days   map[int64]*dayAlerts    // firing alerts by day
	lives  map[int32][]observation // ended jobs by rule; nil: they are not recorded
}

// RuleResult has the results of one rule.
type RuleResult struct {
	Name         string           `json:"rule" doc:"Name of the rule."`
	Started      int64            `json:"started" doc:"Jobs that started."`
	InTime       int64            `json:"in_time" doc:"Jobs that were resolved or cleared before their first step."`
	Late         int64            `json:"late" doc:"Jobs that were resolved or cleared after a step."`
	Never        int64            `json:"never" doc:"Jobs that ended in another way: exhausted, expired, undetermined or by a guard."`
	Pending      int64            `json:"pending" doc:"Jobs that are pending at the end of the replay."`
	Outcomes     map[string]int64 `json:"outcomes" doc:"Ended jobs by outcome."`
	Alerts       map[string]int64 `json:"alerts" doc:"Firing alerts by step."`
	Undetermined int64            `json:"undetermined" doc:"Alerts about undetermined checks."`
	Guards       map[string]int64 `json:"guards" doc:"Jobs that a guard ended, by guard; attempts: jobs that used up their attempts."`
	Took         Took             `json:"took" doc:"Quantiles of the time from the start of a job to its resolution."`
	Refusals     []Refusal        `json:"refused,omitempty" doc:"Events that a node would store as dead letters, by reason."`
	Absent       []string         `json:"absent,omitempty" doc:"Subjects that the rule subscribes to and that no event has, if the rule started jobs."`

	durations durations
	stepTimes map[string]durations // of firing alerts, from the start of the job to the slot, by step
}

// Took has quantiles of the time from the start of a job to its resolution, in seconds, over the jobs of InTime and Late. They
// are rounded down by less than 0.1 %. All are nil without such a job.
type Took struct {
	P50 *float64 `json:"p50" doc:"Median, in seconds; null: no job was resolved."`
	P95 *float64 `json:"p95" doc:"95th percentile, in seconds; null: no job was resolved."`
	P99 *float64 `json:"p99" doc:"99th percentile, in seconds; null: no job was resolved."`
}

// Refusal counts the events that a node would store as dead letters for one reason.
type Refusal struct {
	Reason  string    `json:"reason" doc:"Reason of the refusal."`
	Events  int64     `json:"events" doc:"Refused events."`
	First   time.Time `json:"first" doc:"Time of the first refused event."`
	Subject string    `json:"subject" doc:"Subject of the first refused event."`
}

// Unread counts the events on subjects that neither a rule nor a lookup reads.
type Unread struct {
	Events   int64    `json:"events"`
	Subjects []string `json:"subjects"` // the first ones
}

// AllUnread reports whether the rules read none of the events.
func (s *Summary) AllUnread() bool { return s.Unread != nil && s.Unread.Events == s.Events }

// unreadSubjects is the number of subjects that Unread names.
const unreadSubjects = 3

func (s *Summary) unread(subject string) {
	if s.Unread == nil {
		s.Unread = new(Unread)
	}
	s.Unread.Events++
	if len(s.Unread.Subjects) < unreadSubjects && !slices.Contains(s.Unread.Subjects, subject) {
		s.Unread.Subjects = append(s.Unread.Subjects, subject)
	}
}

// AlertCount returns the number of firing alerts.
func (s *Summary) AlertCount() (n int64) {
	for _, rule := range s.Rules {
		for _, of := range rule.Alerts {
			n += of
		}
	}
	return n
}

// mostReasons bounds the reasons of a rule; further refusals are counted under otherReasons.
const (
	mostReasons  = 20
	otherReasons = "other reasons"
)

// subscription is a subject of a rule, which may have wildcards.
type subscription struct {
	subject string
	rule    *RuleResult
}

// newSummary returns the summary of rules. The id of a rule is its place, from 1.
func newSummary(documents []document.Document) *Summary {
	s := &Summary{Rules: make([]*RuleResult, len(documents)), days: make(map[int64]*dayAlerts)}
	for i, d := range documents {
		s.Rules[i] = &RuleResult{Name: d.Name, Outcomes: make(map[string]int64), Alerts: make(map[string]int64), Guards: make(map[string]int64), durations: make(durations), stepTimes: make(map[string]durations)}
		for _, subject := range d.Subjects() {
			s.absent = append(s.absent, subscription{subject, s.Rules[i]})
		}
	}
	return s
}

// arrived records that an event on a subject exists.
func (s *Summary) arrived(subject string) {
	s.absent = slices.DeleteFunc(s.absent, func(a subscription) bool { return subjects.Covers(a.subject, subject) })
}

// rule returns the results of a rule by its id.
func (s *Summary) rule(id int32) *RuleResult { return s.Rules[id-1] }

// started counts a new job.
func (s *Summary) started(j futurejobs.Job) {
	r := s.rule(j.RuleID)
	r.Started++
	r.Pending++
}

// raised counts an alert.
func (s *Summary) raised(a alerts.Alert) {
	r := s.rule(a.RuleID)
	switch a.Status {
	case alerts.Firing:
		r.Alerts[a.Step]++
		times := r.stepTimes[a.Step]
		if times == nil {
			times = make(durations)
			r.stepTimes[a.Step] = times
		}
		times.add(a.Slot.Sub(a.Since))
		day := s.days[dayOf(a.Slot)]
		if day == nil {
			day = &dayAlerts{}
			s.days[dayOf(a.Slot)] = day
		}
		day[slices.Index(severities, a.Severity)]++
	case alerts.Undetermined:
		r.Undetermined++
	}
}

// Counts returns counts as texts, such as "late 2", by name.
func Counts(by map[string]int64) (texts []string) {
	for _, name := range slices.Sorted(maps.Keys(by)) {
		texts = append(texts, fmt.Sprintf("%s %d", name, by[name]))
	}
	return texts
}

// checked counts the guards that a check of a job met.
func (s *Summary) checked(rule *futurejobs.Rule, before futurejobs.Job, d futurejobs.Decision) {
	if n := d.Job.UndeterminedChecks; n > before.UndeterminedChecks && rule.Limits.Spent(n) && !rule.Limits.Spent(n-1) {
		s.rule(before.RuleID).Guards["attempts"]++
	}
	if d.Outcome.IsGuard() {
		s.rule(before.RuleID).Guards[strings.TrimPrefix(string(d.Outcome), "guard_")]++
	}
}

// ended counts the end of a job.
func (s *Summary) ended(j futurejobs.Job, o checks.Outcome, at time.Time) {
	r := s.rule(j.RuleID)
	r.Pending--
	r.Outcomes[string(o)]++
	kind, counted := futurejobs.KindOf(o, j.Step)
	if s.lives != nil {
		s.lives[j.RuleID] = append(s.lives[j.RuleID], newObservation(j, at, !counted || kind != futurejobs.Never))
	}
	switch {
	case !counted:
		return
	case kind == futurejobs.Never:
		r.Never++
		return
	case kind == futurejobs.Late:
		r.Late++
	default:
		r.InTime++
	}
	r.durations.add(at.Sub(j.Since))
}

// refused counts a refused event; rule is empty if no rule caused it.
func (s *Summary) refused(e futurejobs.Event, rule, reason string) {
	list := &s.Unruled
	if i := slices.IndexFunc(s.Rules, func(r *RuleResult) bool { return r.Name == rule }); i >= 0 {
		list = &s.Rules[i].Refusals
	}
	i := slices.IndexFunc(*list, func(f Refusal) bool { return f.Reason == reason })
	if i < 0 && len(*list) >= mostReasons {
		reason = otherReasons
		i = slices.IndexFunc(*list, func(f Refusal) bool { return f.Reason == reason })
	}
	if i < 0 {
		*list = append(*list, Refusal{Reason: reason, First: e.At, Subject: e.Subject})
		i = len(*list) - 1
	}
	(*list)[i].Events++
}

// close computes the quantiles, and ends the counts at a time.
func (s *Summary) close(until time.Time) {
	s.Until = until
	for _, r := range s.Rules {
		r.Took = Took{r.durations.quantile(0.50), r.durations.quantile(0.95), r.durations.quantile(0.99)}
	}
	for _, a := range s.absent {
		if a.rule.Started > 0 {
			a.rule.Absent = append(a.rule.Absent, a.subject)
		}
	}
}

// durations counts durations in classes less than 0.1 % wide, so that its size does not grow with the number of jobs.
type durations map[uint64]int64

// classBits is the number of bits of a float64 that a class leaves out: all but ten of its fraction.
const classBits = 52 - 10

func (d durations) add(t time.Duration) { d[math.Float64bits(max(0, t.Seconds()))>>classBits]++ }

// secondsOf returns the lower end of a class, in seconds.
func secondsOf(class uint64) float64 { return math.Float64frombits(class << classBits) }

// quantile returns the lower end of the class of a quantile, in seconds; nil without a duration.
func (d durations) quantile(q float64) *float64 {
	var total, seen int64
	classes := make([]uint64, 0, len(d))
	for class, n := range d {
		classes, total = append(classes, class), total+n
	}
	slices.Sort(classes)
	for _, class := range classes {
		if seen += d[class]; float64(seen) >= q*float64(total) {
			least := secondsOf(class)
			return &least
		}
	}
	return nil
}
