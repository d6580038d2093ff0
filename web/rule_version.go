package web

import (
	"cmp"
	"context"
	"fmt"
	"net/http"
	"slices"
	"time"

	futurejobs "deadman/future_jobs"
	"deadman/internal/access"
	"deadman/rules"
)

// RuleVersion is one version of a rule, as the API returns it without its document.
type RuleVersion struct {
	Version int32     `json:"version" doc:"Version number."`
	SavedAt time.Time `json:"saved_at" doc:"Time at which the version was saved."`
	SavedBy string    `json:"saved_by,omitempty" doc:"Actor who saved the version."`
	Bundle  string    `json:"bundle,omitempty" doc:"Bundle that the version was saved from."`

	DeletedAt time.Time `json:"deleted_at,omitzero" doc:"Time at which the rule was deleted; the same for all versions."`
}

func newRuleVersion(s rules.RuleVersion) RuleVersion {
	return RuleVersion{Version: s.Version, SavedAt: s.SavedAt, SavedBy: s.SavedBy, Bundle: s.Bundle, DeletedAt: s.DeletedAt}
}

// ruleVersionAPI has the operations on versions of a rule.
type ruleVersionAPI struct {
	rules Rules
}

func (a *ruleVersionAPI) register(all *operations) {
	register(all, operation{
		ID: "list-rule-versions", Tag: tagRules, Method: "GET", Path: "/rules/{name}/versions", Summary: "list the versions of a rule, newest first, including deleted rules",
		Scope: access.Read, Reach: reachRule, Errors: []int{http.StatusNotFound},
	}, withBody(a.list))
	register(all, operation{
		ID: "get-rule-version", Tag: tagRules, Method: "GET", Path: "/rules/{name}/versions/{version}", Summary: "get the document of a version, as JSON or YAML",
		Scope: access.Read, Reach: reachRule, Errors: []int{http.StatusNotFound}, Responses: documentAnswer(),
	}, a.version)
	register(all, operation{
		ID: "diff-rule", Tag: tagRules, Method: "GET", Path: "/rules/{name}/diff", Summary: "compare two versions of a rule",
		Scope: access.Read, Reach: reachRule, Errors: []int{http.StatusNotFound},
	}, withBody(a.diff))
}

// versionsIn selects a page of a rule's versions.
type versionsIn struct {
	RuleName
	Limit  int   `query:"limit" minimum:"1" maximum:"500" default:"50" doc:"Maximum number of items on the page."`
	Before int32 `query:"cursor" minimum:"1" doc:"Value of next on the previous page. Omit it for the first page."`
}

func (a *ruleVersionAPI) list(ctx context.Context, in *versionsIn) (Page[RuleVersion], error) {
	all, err := a.rules.Versions(ctx, string(in.Name))
	if err != nil {
		return Page[RuleVersion]{}, err
	}
	if in.Before > 0 {
		all = slices.DeleteFunc(all, func(s rules.RuleVersion) bool { return s.Version >= in.Before })
	}
	return pageFrom(all, in.Limit, newRuleVersion, func(s rules.RuleVersion) string { return fmt.Sprint(s.Version) }), nil
}

// ruleVersionIn is a version, with the media type of its document.
type ruleVersionIn struct {
	RuleName
	Version int32  `path:"version" minimum:"1" maximum:"2147483647" doc:"Version number." example:"3"`
	Accept  string `header:"Accept" hidden:"true"`
}

func (a *ruleVersionAPI) version(ctx context.Context, in *ruleVersionIn) (*ruleOut, error) {
	all, err := a.rules.Versions(ctx, string(in.Name))
	if err != nil {
		return nil, err
	}
	at := slices.IndexFunc(all, func(s rules.RuleVersion) bool { return s.Version == in.Version })
	if at < 0 {
		return nil, fmt.Errorf("rule %s has no version %d: %w", in.Name, in.Version, futurejobs.ErrNotFound)
	}
	return documentOut(ctx, a.rules, all[at], in.Accept)
}

// RuleDiff is the difference between two versions.
type RuleDiff struct {
	From int32  `json:"from" doc:"Older version."`
	To   int32  `json:"to" doc:"Newer version."`
	Diff string `json:"diff" doc:"Unified diff of the rule as YAML; empty if nothing changed."`
}

// diffIn selects two versions of a rule.
type diffIn struct {
	RuleName
	From int32 `query:"from" minimum:"1" maximum:"2147483647" doc:"Older version. Default: the next lower version than to that exists; to itself if none does."`
	To   int32 `query:"to" minimum:"1" maximum:"2147483647" doc:"Newer version. Default: the newest."`
}

func (a *ruleVersionAPI) diff(ctx context.Context, in *diffIn) (RuleDiff, error) {
	all, err := a.rules.Versions(ctx, string(in.Name))
	if err != nil {
		return RuleDiff{}, err
	}
	d := RuleDiff{From: in.From, To: cmp.Or(in.To, all[0].Version)}
	if d.From == 0 {
		d.From = versionBefore(all, d.To)
	}
	d.Diff, err = a.rules.Diff(ctx, string(in.Name), d.From, d.To)
	return d, err
}

// versionBefore returns the next lower version that exists: older ones may have been pruned. The first one is its own base.
func versionBefore(all []rules.RuleVersion, to int32) (before int32) {
	for _, s := range all {
		if s.Version < to {
			before = max(before, s.Version)
		}
	}
	return cmp.Or(before, to)
}
