package web

import (
	"cmp"
	"net/http"
	"time"

	"deadman/rules"
)

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
	Diff           string `json:"diff,omitempty" doc:"Unified diff of the rule as YAML."`

	PartialSubjects []PartialSubject `json:"partial_subjects,omitempty" doc:"Subscribed subjects that streams cover only in part."`
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
	out := &changeOut{Status: http.StatusOK, Body: RuleChange{
		Rule:    newRule(rules.ListedRule{RuleVersion: c.After, Document: c.Document, BeganAt: startedAt}, now),
		Created: c.Before == nil, Changed: c.Changed, TextChanged: c.TextChanged, DryRun: dryRun, MovedJobs: c.Moved, BackfilledJobs: c.Backfilled,
		SkippedSteps: c.SkippedSteps, OverJobs: c.Over, Diff: c.Diff, Warnings: c.Warnings,
	}}
	for _, route := range c.PartialRoutes {
		out.Body.PartialSubjects = append(out.Body.PartialSubjects, PartialSubject{Subject: route.Subject, Covered: route.Takes})
	}
	if dryRun {
		return out
	}
	out.ETag = etag(c.After.Version)
	if c.Before == nil {
		out.Status, out.Location = http.StatusCreated, apiPath+"/rules/"+c.After.Name
	}
	return out
}
