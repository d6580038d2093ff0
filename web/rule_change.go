package web

import (
	"cmp"
	"net/http"
	"time"

	"deadman/rules"
)

// RuleChange is the result of saving a rule, or of a dry run.
type RuleChange struct {
	Rule    Rule   `json:"rule"`
	Created bool   `json:"created" doc:"There was no such rule."`
	Changed bool   `json:"changed" doc:"There is a new version; false: it was so already."`
	DryRun  bool   `json:"dry_run,omitempty" doc:"Nothing was written."`
	Moved   int    `json:"moved" doc:"How many pending jobs went on with the new version."`
	Past    int    `json:"past" doc:"How many waits began because of events before the save, with since."`
	Diff    string `json:"diff,omitempty" doc:"What changed, as a unified diff of the rule as YAML."`

	Partly   []PartialSubject `json:"partly_heard,omitempty" doc:"Subjects of which streams take in only a part. The rest is not heard."`
	Warnings []string         `json:"warnings,omitempty" nullable:"false" doc:"What could not be checked, and why; and that a schedule is over."`
}

// PartialSubject is a subject with wildcards that streams take in only in part.
type PartialSubject struct {
	Subject string   `json:"subject" example:"orders.>"`
	Heard   []string `json:"heard" nullable:"false" doc:"What streams take in of it. To hear more, add that to a stream." example:"[\"orders.eu.>\"]"`
}

// changeOut is the response to a saved rule.
type changeOut struct {
	Status   int
	ETag     string `header:"ETag" doc:"The rule's version, in quotes."`
	Location string `header:"Location" doc:"Where the rule is that was created."`
	Body     RuleChange
}

func newChange(c rules.Change, dryRun bool, now time.Time) *changeOut {
	began := cmp.Or(c.After.SavedAt, now)
	if c.Before != nil {
		began = c.Before.BeganAt
	}
	out := &changeOut{Status: http.StatusOK, Body: RuleChange{
		Rule:    newRule(rules.ListedRule{RuleVersion: c.After, Document: c.Document, BeganAt: began}, now),
		Created: c.Before == nil, Changed: c.Changed, DryRun: dryRun, Moved: c.Moved, Past: c.Past, Diff: c.Diff, Warnings: c.Warnings,
	}}
	for _, road := range c.Partly {
		out.Body.Partly = append(out.Body.Partly, PartialSubject{Subject: road.Subject, Heard: road.Takes})
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
