package web

import (
	"cmp"
	"fmt"
	"net/http"
	"time"

	"deadman/rules"
)

// SaveRuleInput is the text of a rule, with the options of saving it.
type SaveRuleInput struct {
	DryRun  bool       `query:"dry_run" doc:"Return the changes without saving them."`
	ApplyTo string     `query:"apply_to" enum:"new,pending" default:"new" doc:"Jobs that the new version applies to. new: new jobs. pending: new and pending jobs."`
	Bundle  identifier `query:"bundle" doc:"Bundle of files that the rule belongs to. The bundle of the node's rules folder is refused (409)." example:"file:orders"`
	Adopt   bool       `query:"adopt" doc:"Move a rule of another bundle to this one. A rule of the node's rules folder requires the scope admin."`
	Since   time.Time  `query:"since" doc:"Also process stored stream events since this time, which is not in the future. Steps that were due before the save are skipped." example:"2026-01-31T15:04:05Z"`
	Raise   bool       `query:"raise_past" doc:"With since: raise the alerts of steps that were due before the save."`
	RawBody []byte     `contentType:"application/yaml"`
}

// options returns the options of the save. A since after now is refused.
func (in *SaveRuleInput) options(version int32, now time.Time) (rules.SaveOptions, error) {
	if in.Since.After(now) {
		return rules.SaveOptions{}, problemOfDetails(kindOf(http.StatusUnprocessableEntity), http.StatusUnprocessableEntity, []ProblemDetail{{
			Location: "query.since", Message: fmt.Sprintf("%s is in the future, after now, %s; use a time in the past, or leave since out",
				in.Since.UTC().Format(time.RFC3339), now.UTC().Format(time.RFC3339)),
		}})
	}
	return rules.SaveOptions{
		Version: version, Bundle: string(in.Bundle), Adopt: in.Adopt, DryRun: in.DryRun,
		Pending: in.ApplyTo == "pending", Since: in.Since.UTC(), RaisePast: in.Raise,
	}, nil
}

// RuleChange is the result of saving a rule, or of a dry run.
type RuleChange struct {
	Rule           Rule   `json:"rule" doc:"Rule after the change."`
	Created        bool   `json:"created" doc:"Whether the rule is new."`
	Changed        bool   `json:"changed" doc:"Whether a new version was saved. false if the document is unchanged."`
	TextChanged    bool   `json:"text_changed,omitempty" doc:"Whether only comments or the layout of the YAML changed. They are saved with the newest version."`
	DryRun         bool   `json:"dry_run,omitempty" doc:"Whether this is a dry run, which saves nothing."`
	MovedJobs      int    `json:"moved_jobs" doc:"Number of pending jobs that were moved to the new version."`
	BackfilledJobs int    `json:"backfilled_jobs" doc:"Number of jobs that were created from past events because of since."`
	SkippedSteps   int    `json:"jobs_with_skipped_steps,omitempty" doc:"Number of backfilled jobs with steps that were due before the save and raise no alert."`
	OverJobs       int    `json:"over_jobs,omitempty" doc:"Number of jobs of past events that were not created, because all of their steps were due before the save."`
	AlertsAtOnce   int    `json:"alerts_at_once,omitempty" doc:"With raise_past: number of alerts that the backfilled jobs raise at once, because their steps were due before the save."`
	UnknownAtOnce  int    `json:"unknown_at_once,omitempty" doc:"With raise_past: number of backfilled jobs that are checked at once and whose alerts are unknown before: a lookup or a handler decides, heartbeats were missed in a monitoring gap, or the conditions of all jobs cost too much."`
	PrunedJobs     int64  `json:"pruned_jobs,omitempty" doc:"In a dry run: number of ended jobs that retention deletes within a minute because of the new keep."`
	PrunedAlerts   int64  `json:"pruned_alerts,omitempty" doc:"In a dry run: number of alerts that retention deletes within a minute because of the new keep."`
	Diff           string `json:"diff,omitempty" doc:"Unified diff of the rule as YAML."`

	PingsPath       string           `json:"pings_path,omitempty" doc:"Path of the operation that creates ping URLs of the rule, with POST and a body such as {\"key\": \"crm\"}. Absent if the rule has no heartbeat, and in a dry run." example:"/api/v1/rules/backup/pings"`
	PartialSubjects []PartialSubject `json:"partial_subjects,omitempty" doc:"Subscribed subjects that streams cover only in part."`
	MissingEvents   []string         `json:"missing_events,omitempty" nullable:"false" doc:"With since: warnings of events of the range that the streams have deleted. Jobs of these events are missing."`
	Warnings        []string         `json:"warnings,omitempty" nullable:"false" doc:"Warnings, such as checks that could not be made, or a schedule that has ended."`
}

// PartialSubject is a subject with wildcards that streams take in only in part.
type PartialSubject struct {
	Subject string   `json:"subject" doc:"Subscribed subject." example:"orders.>"`
	Covered []string `json:"covered" nullable:"false" doc:"Parts of the subject that streams cover. Add the missing parts to a stream to receive them." example:"[\"orders.eu.>\"]"`
}

// changeOut is the response to a saved rule.
type changeOut struct {
	Status   int
	ETag     string `header:"ETag" doc:"Version of the rule, in quotes."`
	Location string `header:"Location" doc:"Path of the created rule."`
	Body     RuleChange
}

func newChange(c rules.Change, dryRun bool, now time.Time) *changeOut {
	startedAt := cmp.Or(c.After.SavedAt, now)
	if c.Before != nil {
		startedAt = c.Before.BeganAt
	}
	if c.Before != nil && dryRun {
		c.After.Version, c.After.SavedAt, c.After.SavedBy = c.Before.Version, c.Before.SavedAt, c.Before.SavedBy
	}
	out := &changeOut{Status: http.StatusOK, Body: RuleChange{
		Rule:    newRule(rules.ListedRule{RuleVersion: c.After, Document: c.Document, BeganAt: startedAt}, now),
		Created: c.Before == nil, Changed: c.Changed, TextChanged: c.TextChanged, DryRun: dryRun, MovedJobs: c.Moved, BackfilledJobs: c.Backfilled,
		SkippedSteps: c.SkippedSteps, OverJobs: c.Over, AlertsAtOnce: c.AlertsAtOnce, UnknownAtOnce: c.UnknownAtOnce, Diff: c.Diff,
		MissingEvents: c.MissingEvents, Warnings: c.Warnings,
	}}
	for _, route := range c.PartialRoutes {
		out.Body.PartialSubjects = append(out.Body.PartialSubjects, PartialSubject{Subject: route.Subject, Covered: route.Takes})
	}
	if dryRun {
		return out
	}
	if c.Document.Trigger.Heartbeat != nil {
		out.Body.PingsPath = apiPath + "/rules/" + c.After.Name + "/pings"
	}
	out.ETag = etag(c.After.Version)
	if c.Before == nil {
		out.Status, out.Location = http.StatusCreated, apiPath+"/rules/"+c.After.Name
	}
	return out
}
