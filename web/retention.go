package web

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"reflect"
	"time"

	"deadman/internal/access"
	"deadman/rules"
	"deadman/rules/document"
)

// RetentionReader counts the rows that retention will delete. Implementations are safe for concurrent use.
type RetentionReader interface {
	// Retention counts the rows that retention deletes at a time, and deletes nothing.
	Retention(ctx context.Context, q RetentionQuery) (RetentionReport, error)
}

// RetentionQuery asks for the rows that retention deletes, with other settings or periods of rules than now.
type RetentionQuery struct {
	At                           time.Time
	History, Alerts, DeadLetters time.Duration                  // 0: as the settings of the node say
	Rules                        map[string]*document.Retention // by the names of rules; nil: as they are saved

	Rule        string                 // of the shortest periods; empty: all that match
	Matches     func(rule string) bool // the same; nil: all
	PeriodsOnly bool                   // no rows are counted
}

// RetentionReport has the rows that retention deletes at a time.
type RetentionReport struct {
	At              time.Time        `json:"at" doc:"Time of the deletion. Rows that do not exist yet are not counted."`
	KeepHistory     float64          `json:"keep_history_seconds" doc:"Period of history, of rules without their own."`
	KeepAlerts      float64          `json:"keep_alerts_seconds" doc:"Period of alerts, of rules without their own."`
	KeepDeadLetters float64          `json:"keep_dead_letters_seconds" doc:"Period of dead letters."`
	ShortestHistory float64          `json:"shortest_history_seconds" doc:"Shortest period of history of the rules that match, by all outcomes. 0: forever."`
	ShortestAlerts  float64          `json:"shortest_alerts_seconds" doc:"Shortest period of alerts of the rules that match. 0: forever."`
	HistoryDeleted  *bool            `json:"history_deleted,omitempty" doc:"Whether retention has deleted ended jobs so far, of any rule. Absent for a token with a prefix."`
	AlertsDeleted   *bool            `json:"alerts_deleted,omitempty" doc:"Whether retention has deleted alerts so far, of any rule. Absent for a token with a prefix."`
	History         int64            `json:"history" doc:"Ended jobs that are deleted."`
	Alerts          int64            `json:"alerts" doc:"Alerts that are deleted."`
	DeadLetters     int64            `json:"dead_letters" doc:"Dead letters that are deleted."`
	Ticks           int64            `json:"ticks" doc:"Applied ticks of schedules that are deleted."`
	Items           []RetentionCount `json:"items" nullable:"false" doc:"Numbers by rule, kind and outcome."`
}

// RetentionCount is the number of rows of a rule that retention deletes.
type RetentionCount struct {
	Rule    string    `json:"rule" doc:"Name of the rule. Empty: none, of a dead letter."`
	Kind    string    `json:"kind" enum:"history,ticks,alerts,dead_letters" doc:"Kind of the rows."`
	Outcome string    `json:"outcome,omitempty" doc:"Outcome of the ended jobs."`
	Rows    int64     `json:"rows" doc:"Number of rows."`
	Oldest  time.Time `json:"oldest" doc:"Time of the oldest of them."`
}

// only returns the report of the rules that match, with their sums.
func (r RetentionReport) only(matches func(rule string) bool) RetentionReport {
	items := r.Items
	r.History, r.Ticks, r.Alerts, r.DeadLetters, r.Items = 0, 0, 0, 0, []RetentionCount{}
	for _, c := range items {
		if !matches(c.Rule) {
			continue
		}
		r.Items = append(r.Items, c)
		switch c.Kind {
		case "history":
			r.History += c.Rows
		case "ticks":
			r.Ticks += c.Rows
		case "alerts":
			r.Alerts += c.Rows
		default:
			r.DeadLetters += c.Rows
		}
	}
	return r
}

// retentionIn asks for the rows that retention deletes.
type retentionIn struct {
	At              time.Time  `query:"at" doc:"Time of the deletion. Default: now." example:"2026-01-31T15:04:05Z"`
	Rule            identifier `query:"rule" doc:"Filter by rule." example:"order-unshipped"`
	KeepHistory     string     `query:"keep_history" doc:"Period in place of the setting keep_history." example:"30d"`
	KeepAlerts      string     `query:"keep_alerts" doc:"Period in place of the setting keep_alerts." example:"30d"`
	KeepDeadLetters string     `query:"keep_dead_letters" doc:"Period in place of the setting keep_dead_letters." example:"7d"`
	PeriodsOnly     bool       `query:"periods_only" doc:"Return the periods, and count no rows." example:"true"`
}

// The bounds of the settings of retention.
const (
	leastKept = time.Hour
	mostKept  = 100 * 365 * 24 * time.Hour
)

// query returns the query, or an error that names each period that a setting may not have.
func (in *retentionIn) query(now time.Time) (RetentionQuery, error) {
	q := RetentionQuery{At: now, Rule: string(in.Rule), PeriodsOnly: in.PeriodsOnly}
	if !in.At.IsZero() {
		q.At = in.At.UTC()
	}
	var wrong []ProblemDetail
	for _, p := range []struct {
		name, text string
		to         *time.Duration
	}{{"keep_history", in.KeepHistory, &q.History}, {"keep_alerts", in.KeepAlerts, &q.Alerts}, {"keep_dead_letters", in.KeepDeadLetters, &q.DeadLetters}} {
		if p.text == "" {
			continue
		}
		d, err := document.ParseDuration(p.text)
		if err != nil || time.Duration(d) < leastKept || time.Duration(d) > mostKept {
			wrong = append(wrong, ProblemDetail{Location: "query." + p.name, Message: fmt.Sprintf("%q is not a duration from 1h to 100y; write one such as 30d", p.text)})
		}
		*p.to = time.Duration(d)
	}
	if wrong != nil {
		return q, problemOfDetails(BadRequest, http.StatusBadRequest, wrong)
	}
	return q, nil
}

// retentionAPI has the operation that counts the rows to be deleted.
type retentionAPI struct {
	retention RetentionReader // nil: the node has none
	now       func() time.Time
}

func (a *retentionAPI) register(all *operations) {
	if a.retention == nil {
		return
	}
	register(all, operation{
		ID: "get-retention", Tag: tagNode, Method: "GET", Path: "/retention", Summary: "count what retention will delete",
		Description: "Counts the ended jobs, applied ticks, alerts and dead letters that retention deletes at a time, by rule and outcome, with the settings and " +
			"rules as they are, or with other settings. Deletes nothing. Reads the days that retention has not deleted yet.",
		Scope: access.Read, Reach: reachFiltered,
	}, withBody(func(ctx context.Context, in *retentionIn) (RetentionReport, error) {
		q, err := in.query(a.now())
		if err != nil {
			return RetentionReport{}, err
		}
		v := principalOf(ctx)
		q.Matches = v.canSee
		report, err := a.retention.Retention(ctx, q)
		if v.requireUnrestricted() != nil {
			report.HistoryDeleted, report.AlertsDeleted = nil, nil
		}
		return report.only(func(rule string) bool {
			return (in.Rule == "" || rule == string(in.Rule)) && v.canSee(rule)
		}), err
	}))
}

// dueByChange returns how many ended jobs and alerts of a rule retention deletes within a minute because of its new periods.
func (a *retentionAPI) dueByChange(ctx context.Context, c rules.Change) (jobs, alerts int64, err error) {
	if a.retention == nil || c.Before == nil || reflect.DeepEqual(c.Before.Document.Keep, c.Document.Keep) {
		return 0, 0, nil
	}
	count := func(keep *document.Retention) RetentionReport {
		report, failure := a.retention.Retention(ctx, RetentionQuery{At: a.now().Add(time.Minute), Rules: map[string]*document.Retention{c.After.Name: keep}})
		err = errors.Join(err, failure)
		return report.only(func(rule string) bool { return rule == c.After.Name })
	}
	before, after := count(c.Before.Document.Keep), count(c.Document.Keep)
	return max(after.History-before.History, 0), max(after.Alerts-before.Alerts, 0), err
}

// change is newChange, in a dry run with the rows that the change makes retention delete.
func (a *retentionAPI) change(ctx context.Context, c rules.Change, dryRun bool) (*changeOut, error) {
	out := newChange(c, dryRun, a.now())
	if !dryRun {
		return out, nil
	}
	var err error
	out.Body.PrunedJobs, out.Body.PrunedAlerts, err = a.dueByChange(ctx, c)
	return out, err
}
