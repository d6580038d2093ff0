package main

import (
	"cmp"
	"fmt"
	"strings"

	"deadman/web"
)

// pastJobs counts the jobs of past events.
type pastJobs struct {
	Past    int `json:"backfilled_jobs,omitempty"` // created
	Skipped int `json:"jobs_with_skipped_steps,omitempty"`
	Over    int `json:"over_jobs,omitempty"` // that would have ended by now
	Alerts  int `json:"alerts_at_once,omitempty"`
	Unknown int `json:"unknown_at_once,omitempty"` // jobs that are checked at once, with unknown alerts
}

// plus returns the sum of two counts.
func (p pastJobs) plus(q pastJobs) pastJobs {
	return pastJobs{p.Past + q.Past, p.Skipped + q.Skipped, p.Over + q.Over, p.Alerts + q.Alerts, p.Unknown + q.Unknown}
}

// describe describes the jobs. raise means that their past steps raise alerts.
func (p pastJobs) describe(raise bool) string {
	text := number(p.Past, "job") + " from past events"
	if p.Skipped > 0 {
		text += fmt.Sprintf(", %d of them %s steps that were due before", p.Skipped, skip(p.Skipped))
	}
	switch {
	case raise && p.Alerts == 1:
		text += ", 1 alert is raised at once"
	case raise:
		text += fmt.Sprintf(", %d alerts are raised at once", p.Alerts)
	}
	if p.Unknown > 0 {
		text += fmt.Sprintf(", %d checked at once with unknown alerts", p.Unknown)
	}
	if p.Over > 0 {
		text += fmt.Sprintf("; %d not created, all of their steps were due before", p.Over)
	}
	return text
}

func skip(jobs int) string {
	if jobs == 1 {
		return "skips"
	}
	return "skip"
}

// action is the result for a rule.
type action string

const (
	created   action = "created"
	changed   action = "changed"
	unchanged action = "unchanged"
	deleted   action = "deleted"
)

// applied is the result of applying a rule, or of a dry run.
type applied struct {
	Name    string `json:"name"`
	File    string `json:"file,omitempty"`
	Bundle  string `json:"bundle,omitempty"`
	Action  action `json:"action"`
	Version int32  `json:"version,omitempty"`    // of a dry run the saved one; 0: there is none
	Moved   int    `json:"moved_jobs,omitempty"` // pending jobs moved to the version
	pastJobs
	PrunedJobs   int64  `json:"pruned_jobs,omitempty"` // of a dry run: deleted by retention within a minute
	PrunedAlerts int64  `json:"pruned_alerts,omitempty"`
	Diff         string `json:"diff,omitempty"`

	TextChanged bool `json:"text_changed,omitempty"` // comments or layout only

	Partly        []web.PartialSubject `json:"partial_subjects,omitempty"`
	MissingEvents []string             `json:"missing_events,omitempty"` // warnings
	Warnings      []string             `json:"warnings,omitempty"`       // skipped verifications, with reasons
}

func appliedBy(c web.RuleChange, from ruleFile) applied {
	does := unchanged
	switch {
	case c.Created:
		does = created
	case c.Changed:
		does = changed
	}
	return applied{
		Name: c.Rule.Name, File: from.name(), Bundle: from.bundle, Action: does,
		Version: c.Rule.Version, Moved: c.MovedJobs, Diff: c.Diff, TextChanged: c.TextChanged, Partly: c.PartialSubjects,
		PrunedJobs: c.PrunedJobs, PrunedAlerts: c.PrunedAlerts,
		pastJobs:      pastJobs{c.BackfilledJobs, c.SkippedSteps, c.OverJobs, c.AlertsAtOnce, c.UnknownAtOnce},
		MissingEvents: c.MissingEvents, Warnings: c.Warnings,
	}
}

func namesOf(rules []applied) string {
	names := make([]string, len(rules))
	for i, r := range rules {
		names[i] = r.Name
	}
	return strings.Join(names, ", ")
}

// printApplied prints the result for each rule.
func printApplied(a *applyRun, all []applied) error {
	if a.io.output == asJSON {
		if all == nil {
			all = []applied{}
		}
		return writeValue(a.io.out, map[string]any{"dry_run": a.dryRun, "rules": all})
	}
	counts, width := make(map[action]int), 0
	for _, r := range all {
		width = max(width, len(r.Name)) // names are ASCII
	}
	for _, r := range all {
		counts[r.Action]++
		if err := printAppliedRule(a, r, width); err != nil {
			return err
		}
	}
	var parts []string
	for _, does := range []action{created, changed, unchanged, deleted} {
		if counts[does] > 0 {
			parts = append(parts, fmt.Sprintf("%d %s", counts[does], does))
		}
	}
	end := ""
	if a.dryRun {
		end = " (dry run, no changes made)"
	}
	_, err := fmt.Fprintf(a.io.out, "%s: %s%s\n", number(len(all), "rule"), strings.Join(parts, ", "), end)
	return err
}

var actionColours = map[action]colour{created: green, changed: yellow, unchanged: dim, deleted: red}

func printAppliedRule(a *applyRun, r applied, width int) error {
	io, about := a.io, ""
	if r.Version > 0 && !(a.dryRun && r.Action == changed) { // the version of the change is not known yet
		about = fmt.Sprintf("  version %d", r.Version)
	}
	if r.TextChanged {
		about += "  only comments or layout changed"
	}
	if r.Moved > 0 {
		about += "  " + number(r.Moved, "pending job") + " moved"
	}
	if a.since != "" && r.Action != deleted {
		about += "  " + r.describe(a.raisePast)
	}
	if r.PrunedJobs+r.PrunedAlerts > 0 {
		about += "  deletes " + number(int(r.PrunedJobs), "ended job") + " and " + number(int(r.PrunedAlerts), "alert") + " within a minute"
	}
	_, err := fmt.Fprintf(io.out, "%s  %s%s%s\n", io.palette.paint(actionColours[r.Action], fmt.Sprintf("%-9s", r.Action)),
		io.palette.paint(bold, fmt.Sprintf("%-*s", width, sanitize(r.Name))), about, io.palette.paint(dim, "  "+sanitize(cmp.Or(r.File, r.Bundle))))
	for _, warning := range r.Warnings {
		if err == nil {
			_, err = fmt.Fprintf(io.out, "    %s %s\n", io.palette.paint(yellow, "warning:"), sanitize(warning))
		}
	}
	if err == nil && r.Action == changed {
		err = printDiff(io, r.Diff, "    ")
	}
	for _, s := range r.Partly {
		if err == nil {
			_, err = fmt.Fprintf(io.out, "    %s streams cover only part of subject %s: %s; to receive the rest, add it to a stream\n",
				io.palette.paint(yellow, "note:"), sanitize(s.Subject), sanitize(strings.Join(s.Covered, ", ")))
		}
	}
	return err
}
