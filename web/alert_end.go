package web

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"deadman/alerts"
	"deadman/checks"
	futurejobs "deadman/future_jobs"
	"deadman/rules/document"
)

// AlertEnd is the end of an alert: of its job, of its outage or condition, or by a person who closed it.
type AlertEnd struct {
	At      time.Time      `json:"at,omitzero" doc:"Time of the end. Absent if the history no longer has the alert's job."`
	Outcome checks.Outcome `json:"outcome" doc:"Outcome of the alert's job. resolved if an outage or a condition is over, cancelled if a person closed an alert about lost data, unknown if the history no longer has the job." example:"exhausted"`
	By      string         `json:"by,omitempty" doc:"Actor who closed the alert or cancelled its job." example:"ci"`
	Reason  string         `json:"reason,omitempty" doc:"Reason of the actor, explanation of the outcome, or the events that never came." example:"orders.shipped never came"`
}

// unknownEnd is the outcome of an ended job that the history no longer has.
const unknownEnd checks.Outcome = "unknown"

// maxEnds is the largest number of listed alerts whose ends are read.
const maxEnds = 100

// addEnds adds the ends of listed alerts that are not open. The jobs of a key are read once.
func (a *alertAPI) addEnds(ctx context.Context, page []Alert) error {
	type key struct{ rule, entity, key string }
	since, ends := make(map[key]time.Time), make(map[key]map[alerts.ID]*AlertEnd)
	for _, of := range page {
		k := key{of.Rule, of.Entity, of.Key}
		if at, known := since[k]; !known || of.Since.Before(at) {
			since[k] = of.Since
		}
	}
	for i := range page {
		r := page[i].Record()
		k := key{r.Rule, r.Entity, r.Key}
		if r.Status == alerts.Resolved {
			continue
		}
		var err error
		if r.Rule == alerts.SystemRule || futurejobs.IsOutage(r) {
			page[i].Ended, err = a.endOfCondition(ctx, r)
		} else {
			if ends[k] == nil {
				ends[k], err = a.endsOfKey(ctx, futurejobs.Filter{Rule: r.Rule, Entity: r.Entity, Key: r.Key, After: since[k], Limit: futurejobs.MaxLimit})
			}
			page[i].Ended = ends[k][r.ID]
		}
		if err != nil {
			return err
		}
	}
	return nil
}

// endsOfKey returns the ends of the alerts of the ended jobs of a key.
func (a *alertAPI) endsOfKey(ctx context.Context, f futurejobs.Filter) (map[alerts.ID]*AlertEnd, error) {
	page, err := a.lists.History(ctx, f)
	if err != nil {
		return nil, err
	}
	ends := make(map[alerts.ID]*AlertEnd)
	for _, e := range page.Items {
		end := a.endOfJob(e)
		for _, id := range e.Alerts {
			ends[id] = end
		}
	}
	return ends, nil
}

// endOf returns the end of an alert whose job is not pending; nil: it is open, or it is the end of other alerts.
func (a *alertAPI) endOf(ctx context.Context, of alerts.Alert) (*AlertEnd, error) {
	if of.Status == alerts.Resolved {
		return nil, nil
	}
	if of.Rule == alerts.SystemRule || futurejobs.IsOutage(of) {
		return a.endOfCondition(ctx, of)
	}
	page, err := a.lists.History(ctx, futurejobs.Filter{Rule: of.Rule, Entity: of.Entity, Key: of.Key, After: of.Since, Limit: futurejobs.MaxLimit})
	if err != nil {
		return nil, err
	}
	for _, e := range page.Items {
		if slices.Contains(e.Alerts, of.ID) {
			return a.endOfJob(e), nil
		}
	}
	return &AlertEnd{Outcome: unknownEnd}, nil
}

// endOfJob returns the end of the alerts of an ended job.
func (a *alertAPI) endOfJob(e futurejobs.EndedJob) *AlertEnd {
	end := &AlertEnd{At: e.EndedAt, Outcome: e.Outcome, Reason: e.Reason}
	if e.Outcome == checks.Cancelled {
		end.By, end.Reason, _ = futurejobs.CancelledBy(e.Reason)
	}
	if newest, err := a.view.catalog.Newest(e.Rule); err == nil && e.Outcome == checks.Exhausted && end.Reason == "" {
		end.Reason = neverCame(newest.Document())
	}
	return end
}

// endOfCondition returns the end of an alert about no job, from the alert that resolves it; nil: none does.
func (a *alertAPI) endOfCondition(ctx context.Context, of alerts.Alert) (*AlertEnd, error) {
	step := of.Step
	if of.Rule != alerts.SystemRule {
		step = of.Rule // the ids of the alerts of an outage have it
	}
	r, err := a.lists.Alert(ctx, alerts.ResolvingID(of.Key, step, of.Since))
	if errors.Is(err, futurejobs.ErrNotFound) {
		return nil, nil
	}
	if err != nil {
		return nil, err
	}
	end := &AlertEnd{At: r.DecidedAt, Outcome: checks.Resolved, Reason: r.Text}
	if by, is := strings.CutPrefix(r.Text, "closed by "); is && r.Rule == alerts.SystemRule {
		end.Outcome = checks.Cancelled
		end.By, end.Reason, _ = strings.Cut(by, ": ")
	}
	return end, nil
}

// namedEvents is the largest number of events that the end of an alert names.
const namedEvents = 3

// neverCame names what a rule expected until its last step; empty: a handler decided.
func neverCame(d document.Document) string {
	var events []string
	partly := ""
	for _, r := range d.Resolve {
		switch {
		case r.Distinct != "":
			partly = "not all "
		case r.If != "" && partly == "":
			partly = "no matching "
		}
		if !slices.Contains(events, r.Event) {
			events = append(events, r.Event)
		}
	}
	switch {
	case d.Trigger.Heartbeat != nil:
		return "no heartbeat came"
	case len(events) > namedEvents:
		return fmt.Sprintf("none of %d resolving events came", len(events))
	case partly != "":
		return partly + strings.Join(events, " or ") + " came"
	case len(events) > 0:
		return strings.Join(events, " or ") + " never came"
	case d.While != "":
		return "its condition still held"
	}
	return ""
}
