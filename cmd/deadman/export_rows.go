package main

import (
	"context"
	"encoding/json"
	"strings"
	"time"

	"deadman/alerts"
	"deadman/web"
)

// endedRow is an ended job as the row of an export. Times are UTC.
type endedRow struct {
	EndedAt           time.Time `parquet:"ended_at,timestamp(microsecond)"`
	Rule              string    `parquet:"rule"`
	RuleVersion       int32     `parquet:"rule_version"`
	Entity            string    `parquet:"entity"`
	Key               string    `parquet:"key"`
	Outcome           string    `parquet:"outcome"`
	Reason            string    `parquet:"reason"`
	Since             time.Time `parquet:"since,timestamp(microsecond)"`
	CreatedAt         time.Time `parquet:"created_at,timestamp(microsecond)"`
	FirstCheckAt      time.Time `parquet:"first_check_at,timestamp(microsecond)"`
	CheckCount        int       `parquet:"check_count"`
	Step              int       `parquet:"step"`
	CheckAttempts     int       `parquet:"check_attempts"`
	CheckSecondsTotal float64   `parquet:"check_seconds_total"`
	CheckSecondsMax   float64   `parquet:"check_seconds_max"`
	Alerts            string    `parquet:"alerts"` // ids with spaces between
}

func newEndedRow(_ context.Context, _ *client, e web.EndedJob) (endedRow, error) {
	return endedRow{
		EndedAt: e.EndedAt, Rule: e.Rule, RuleVersion: e.RuleVersion, Entity: e.Entity, Key: e.Key, Outcome: string(e.Outcome), Reason: e.Reason,
		Since: e.Since, CreatedAt: e.CreatedAt, FirstCheckAt: e.FirstCheckAt, CheckCount: e.CheckCount, Step: e.Step, CheckAttempts: e.CheckAttempts,
		CheckSecondsTotal: e.CheckSecondsTotal, CheckSecondsMax: e.CheckSecondsMax, Alerts: joinIDs(e.Alerts),
	}, nil
}

// alertRow is an alert as the row of an export. Times are UTC.
type alertRow struct {
	DecidedAt   time.Time `parquet:"decided_at,timestamp(microsecond)"`
	ID          string    `parquet:"id"`
	Rule        string    `parquet:"rule"`
	RuleVersion int       `parquet:"rule_version"`
	Entity      string    `parquet:"entity"`
	Key         string    `parquet:"key"`
	Status      string    `parquet:"status"`
	Severity    string    `parquet:"severity"`
	Step        string    `parquet:"step"`
	Text        string    `parquet:"text"`
	Since       time.Time `parquet:"since,timestamp(microsecond)"`
	Slot        time.Time `parquet:"slot,timestamp(microsecond)"`
	CheckCount  int       `parquet:"check_count"`
	Closes      string    `parquet:"closes"` // ids with spaces between
	Labels      string    `parquet:"labels"` // JSON
	Event       string    `parquet:"event"`  // JSON
	State       string    `parquet:"state"`  // JSON
}

// newAlertRow reads an alert again if the list left out its bodies.
func newAlertRow(ctx context.Context, c *client, listed web.Alert) (alertRow, error) {
	a := listed.Record()
	if listed.BodiesOmitted {
		whole, _, err := get[web.Alert](ctx, c, "/alerts/"+a.ID.String(), nil)
		if err != nil {
			return alertRow{}, err
		}
		a = whole.Record()
	}
	labels := ""
	if len(a.Labels) > 0 {
		text, err := json.Marshal(a.Labels)
		if err != nil {
			return alertRow{}, err
		}
		labels = string(text)
	}
	return alertRow{
		DecidedAt: a.DecidedAt, ID: a.ID.String(), Rule: a.Rule, RuleVersion: a.RuleVersion, Entity: a.Entity, Key: a.Key,
		Status: string(a.Status), Severity: string(a.Severity), Step: a.Step, Text: a.Text, Since: a.Since, Slot: a.Slot, CheckCount: a.CheckCount,
		Closes: joinIDs(a.Closes), Labels: labels, Event: string(a.Event), State: string(a.State),
	}, nil
}

// keptHistory and keptAlerts implement export.kept.
func keptHistory(r web.RetentionReport) (float64, *bool) { return r.ShortestHistory, r.HistoryDeleted }

func keptAlerts(r web.RetentionReport) (float64, *bool) { return r.ShortestAlerts, r.AlertsDeleted }

func joinIDs(ids []alerts.ID) string {
	texts := make([]string, len(ids))
	for i, id := range ids {
		texts[i] = id.String()
	}
	return strings.Join(texts, " ")
}
