package web

import (
	"context"
	"net/http"
	"time"

	"deadman/alerts"
	futurejobs "deadman/future_jobs"
	"deadman/internal/access"
)

// JobName names a pending job.
type JobName struct{ Rule, Key string }

// SnoozedJobs counts the jobs of a snooze by its effect. Jobs that have ended are in neither number.
type SnoozedJobs struct {
	Snoozed       int64 `json:"snoozed" doc:"Number of jobs whose next check is not before the end of the snooze."`
	Ineffective   int64 `json:"ineffective" doc:"Number of jobs in snoozed whose next check was later anyway. Their snooze delays no check."`
	Paused        int64 `json:"paused" doc:"Number of paused jobs. They are not snoozed."`
	BeyondHorizon int64 `json:"beyond_horizon" doc:"Number of jobs whose rule has a horizon before the end of the snooze. They are not snoozed."`
}

// SnoozeAllRequest is the body of a request that snoozes the jobs of alerts by their fields.
type SnoozeAllRequest struct {
	SnoozeRequest
	Match   OpenAlertMatch `json:"match" doc:"The alerts whose jobs to snooze."`
	Through alerts.ID      `json:"through,omitzero" format:"uuid" doc:"Only alerts up to this ID, in order of time: those that the sender has seen."`
	Cursor  string         `json:"cursor,omitempty" doc:"Value of next in the previous result. Omit it for the first request."`
}

// SnoozeAllResult is the result of snoozing the jobs of alerts by their fields.
type SnoozeAllResult struct {
	SnoozedJobs
	Before    int64  `json:"acknowledged_before" doc:"Number of matching alerts that are acknowledged. Their jobs are not snoozed. 0 with a cursor."`
	Ended     int64  `json:"ended" doc:"Number of alerts whose jobs ended or changed meanwhile. They are not snoozed."`
	Outages   int64  `json:"outages" doc:"Number of matching alerts that are about outages. They are not snoozed."`
	Losses    int64  `json:"losses" doc:"Number of matching alerts about lost data. They are not snoozed: close them."`
	Remaining int64  `json:"remaining" doc:"At most this number of matching alerts was not reached in the time of the request. Repeat it with next as cursor."`
	Next      string `json:"next,omitempty" doc:"Cursor of the next request. Absent at the end."`
}

// JobMatch selects pending jobs in the body of a request. Jobs match all of its fields.
type JobMatch struct {
	Rule      identifier `json:"rule,omitempty" doc:"Only jobs of this rule." example:"order-unshipped"`
	Entity    identifier `json:"entity,omitempty" doc:"Only jobs of this entity type." example:"order"`
	Key       identifier `json:"key,omitempty" doc:"Only jobs of this key." example:"1234"`
	KeyPrefix identifier `json:"key_prefix,omitempty" doc:"Only jobs of keys with this prefix." example:"12"`
	All       bool       `json:"all,omitempty" doc:"All pending jobs. Required if no other field selects jobs."`
}

// filter returns the filter of the jobs. The error is for the client.
func (m JobMatch) filter() (futurejobs.Filter, error) {
	f := futurejobs.Filter{Rule: string(m.Rule), Entity: string(m.Entity), Key: string(m.Key), KeyPrefix: string(m.KeyPrefix)}
	selects := f.Rule != "" || f.Entity != "" || f.Key != "" || f.KeyPrefix != ""
	switch {
	case !selects && !m.All:
		return f, refused("body.match", "it selects no jobs; set rule, entity, key or key_prefix, or all to cancel every pending job")
	case selects && m.All:
		return f, refused("body.match.all", "it cannot be combined with other fields; leave it out")
	}
	return f, nil
}

// CancelAllRequest is the body of a request that cancels jobs by their fields.
type CancelAllRequest struct {
	Match  JobMatch `json:"match" doc:"The jobs to cancel."`
	DryRun bool     `json:"dry_run,omitempty" doc:"Count the jobs without cancelling them."`
	Reason string   `json:"reason,omitempty" maxLength:"500" doc:"Reason, kept in the history and the audit log; up to 500 bytes." example:"shipped by hand"`
}

// CancelAllResult is the result of cancelling jobs by their fields.
type CancelAllResult struct {
	Matched   int64 `json:"matched" doc:"Number of matching jobs that this request reached."`
	Cancelled int64 `json:"cancelled" doc:"Number of jobs that this request cancelled."`
	Ended     int64 `json:"ended" doc:"Number of jobs that ended or changed meanwhile. They are not cancelled."`
	More      bool  `json:"more" doc:"Whether the time of the request ended before it reached all matching jobs. Repeat it."`
}

// filterActionAPI has the operations on jobs that a filter selects, whatever their number.
type filterActionAPI struct {
	lists interface {
		AlertReader
		JobReader
	}
	actions JobActions
	now     func() time.Time
}

func (a *filterActionAPI) register(all *operations) {
	register(all, operation{
		ID: "snooze-alerts", Tag: tagAlerts, Method: "POST", Path: "/alerts/snooze", Summary: "snooze the jobs of all open alerts that match",
		Description: "Postpones the next checks of the jobs of unacknowledged open alerts that match, whatever their number. They are snoozed in batches; what a " +
			"failed request snoozed stays snoozed.",
		Scope: access.OnCall, Reach: reachFiltered, Status: http.StatusOK,
	}, withBody(a.snooze))
	register(all, operation{
		ID: "cancel-jobs", Tag: tagJobs, Method: "POST", Path: "/jobs/cancel", Summary: "cancel all pending jobs that match",
		Description: "Cancels the pending jobs that match, whatever their number. Their open alerts are resolved. They are cancelled in batches; what a failed " +
			"request cancelled stays cancelled.",
		Scope: access.Rules, Reach: reachFiltered, Status: http.StatusOK,
	}, withBody(a.cancel))
}

func (a *filterActionAPI) snooze(ctx context.Context, in *struct{ Body SnoozeAllRequest }) (out SnoozeAllResult, err error) {
	f, err := in.Body.Match.filter()
	if err != nil {
		return out, err
	}
	until, err := in.Body.until(a.now())
	if err != nil {
		return out, err
	}
	f = filterVisible(ctx, f)
	f.Now, f.Through, f.Cursor, f.Limit = a.now(), in.Body.Through, in.Body.Cursor, futurejobs.MaxLimit
	if f.Cursor == "" {
		if out.Before, err = countAcknowledged(ctx, a.lists, f); err != nil {
			return out, err
		}
	}
	out.Next, err = eachPage(ctx, f, a.lists.Alerts, func(page []futurejobs.ListedAlert) error { return a.snoozePage(ctx, page, until.UTC(), &out) })
	if err == nil && out.Next != "" { // a snoozed job keeps its open alert
		out.Remaining, err = countRemaining(ctx, a.lists, f)
		out.Remaining = max(0, out.Remaining-out.Snoozed-out.Paused-out.BeyondHorizon)
	}
	return out, err
}

// snoozePage snoozes the jobs of a page of alerts, except those of outages and of lost data.
func (a *filterActionAPI) snoozePage(ctx context.Context, page []futurejobs.ListedAlert, until time.Time, out *SnoozeAllResult) error {
	ofJobs, outages, losses := alertsOfJobs(page)
	out.Outages += outages
	out.Losses += losses
	jobs := make([]JobName, len(ofJobs))
	for i, listed := range ofJobs {
		jobs[i] = JobName{listed.Rule, listed.Key}
	}
	did, err := a.actions.SnoozeAll(ctx, jobs, until)
	if err != nil {
		return err
	}
	out.Snoozed += did.Snoozed
	out.Ineffective += did.Ineffective
	out.Paused += did.Paused
	out.BeyondHorizon += did.BeyondHorizon
	out.Ended += int64(len(jobs)) - did.Snoozed - did.Paused - did.BeyondHorizon
	return nil
}

func (a *filterActionAPI) cancel(ctx context.Context, in *struct{ Body CancelAllRequest }) (out CancelAllResult, err error) {
	f, err := in.Body.Match.filter()
	if err != nil {
		return out, err
	}
	f = filterVisible(ctx, f)
	f.Limit = futurejobs.MaxLimit
	next, err := eachPage(ctx, f, a.lists.Jobs, func(page []futurejobs.ListedJob) error {
		out.Matched += int64(len(page))
		if in.Body.DryRun {
			return nil
		}
		jobs := make([]JobName, len(page))
		for i, j := range page {
			jobs[i] = JobName{j.Rule, j.Key}
		}
		n, err := a.actions.CancelAll(ctx, jobs, in.Body.Reason)
		out.Cancelled += int64(n)
		out.Ended += int64(len(jobs) - n)
		return err
	})
	out.More = next != ""
	return out, err
}

// filterActionTime bounds the work of a request on all that match a filter. A request is answered within 30 seconds.
const filterActionTime = 20 * time.Second

// eachPage calls do for the pages of a list until its end, or until the time of a request is over: next is the cursor of
// the rest then.
func eachPage[T any](ctx context.Context, f futurejobs.Filter, list func(context.Context, futurejobs.Filter) (futurejobs.Page[T], error), do func([]T) error) (next string, err error) {
	for end := time.Now().Add(filterActionTime); ; {
		page, err := list(ctx, f)
		if err != nil {
			return "", err
		}
		if err := do(page.Items); err != nil {
			return "", err
		}
		if f.Cursor = page.Next; f.Cursor == "" || time.Now().After(end) {
			return f.Cursor, nil
		}
	}
}

// alertsOfJobs returns the alerts that are about jobs, and the numbers of the others.
func alertsOfJobs(page []futurejobs.ListedAlert) (ofJobs []futurejobs.ListedAlert, outages, losses int64) {
	for _, listed := range page {
		switch {
		case futurejobs.IsOutage(listed.Alert):
			outages++
		case futurejobs.IsLoss(listed.Alert):
			losses++
		default:
			ofJobs = append(ofJobs, listed)
		}
	}
	return ofJobs, outages, losses
}

// countRemaining counts the alerts of jobs that match a filter.
func countRemaining(ctx context.Context, lists AlertReader, f futurejobs.Filter) (n int64, err error) {
	counts, err := lists.CountOpenAlerts(ctx, f, "")
	for _, c := range counts {
		if !c.Outage && !c.Loss {
			n += c.Count
		}
	}
	return n, err
}

// countAcknowledged counts the acknowledged alerts that match a filter of unacknowledged ones otherwise.
func countAcknowledged(ctx context.Context, lists AlertReader, f futurejobs.Filter) (int64, error) {
	yes := true
	f.Acknowledged = &yes
	return countRemaining(ctx, lists, f)
}
