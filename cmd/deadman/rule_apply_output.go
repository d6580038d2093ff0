package main

import (
	"cmp"
	"fmt"
	"strings"

	"deadman/web"
)

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
	Version int32  `json:"version,omitempty"` // 0: a dry run of a new rule
	Moved   int    `json:"moved,omitempty"`   // pending jobs moved to the version
	Past    int    `json:"past,omitempty"`    // jobs created from past events
	Diff    string `json:"diff,omitempty"`

	Partly   []web.PartialSubject `json:"partly_heard,omitempty"`
	Warnings []string             `json:"warnings,omitempty"` // skipped verifications, with reasons
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
		Version: c.Rule.Version, Moved: c.Moved, Past: c.Past, Diff: c.Diff, Partly: c.Partly, Warnings: c.Warnings,
	}
}

// pastOf counts the jobs created from past events.
func pastOf(plan []applied) (n int) {
	for _, r := range plan {
		n += r.Past
	}
	return n
}

func namesOf(rules []applied) string {
	names := make([]string, len(rules))
	for i, r := range rules {
		names[i] = r.Name
	}
	return strings.Join(names, ", ")
}

// show prints the result for each rule.
func (a *applying) show(all []applied) error {
	if a.p.output == asJSON {
		if all == nil {
			all = []applied{}
		}
		return writeValue(a.p.out, map[string]any{"dry_run": a.dryRun, "rules": all})
	}
	counts, width := make(map[action]int), 0
	for _, r := range all {
		width = max(width, len(r.Name)) // names are ASCII
	}
	for _, r := range all {
		counts[r.Action]++
		if err := a.p.showApplied(r, width); err != nil {
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
		end = "; a dry run, nothing was changed"
	}
	_, err := fmt.Fprintf(a.p.out, "%s: %s%s\n", number(len(all), "rule"), strings.Join(parts, ", "), end)
	return err
}

var actionColours = map[action]colour{created: green, changed: yellow, unchanged: dim, deleted: red}

func (p *cli) showApplied(r applied, width int) error {
	about := ""
	if r.Version > 0 {
		about = fmt.Sprintf("  version %d", r.Version)
	}
	if r.Moved > 0 {
		about += "  " + number(r.Moved, "pending job") + " moved to it"
	}
	if r.Past > 0 {
		about += "  " + number(r.Past, "wait") + " because of what was before"
	}
	_, err := fmt.Fprintf(p.out, "%s  %s%s%s\n", p.palette.paint(actionColours[r.Action], fmt.Sprintf("%-9s", r.Action)),
		p.palette.paint(bold, fmt.Sprintf("%-*s", width, sanitize(r.Name))), about, p.palette.paint(dim, "  "+sanitize(cmp.Or(r.File, r.Bundle))))
	for _, warning := range r.Warnings {
		if err == nil {
			_, err = fmt.Fprintf(p.out, "    %s %s\n", p.palette.paint(yellow, "warning:"), sanitize(warning))
		}
	}
	if err == nil && r.Action == changed {
		err = p.showDiff(r.Diff, "    ")
	}
	for _, s := range r.Partly {
		if err == nil {
			_, err = fmt.Fprintf(p.out, "    %s %s is heard only as far as streams take it in, on %s; to hear the rest, add it to a stream\n",
				p.palette.paint(yellow, "note:"), sanitize(s.Subject), sanitize(strings.Join(s.Heard, ", ")))
		}
	}
	return err
}

// showDiff prints a unified diff, indented.
func (p *cli) showDiff(diff, indent string) error {
	for line := range strings.Lines(diff) {
		line = sanitize(strings.TrimSuffix(line, "\n"))
		if _, err := fmt.Fprintf(p.out, "%s%s\n", indent, p.palette.paint(diffColour(line), line)); err != nil {
			return err
		}
	}
	return nil
}

// diffColour returns the color of a line of a unified diff.
func diffColour(line string) colour {
	switch {
	case strings.HasPrefix(line, "--- "), strings.HasPrefix(line, "+++ "):
		return bold
	case strings.HasPrefix(line, "@@"):
		return blue
	case strings.HasPrefix(line, "-"):
		return red
	case strings.HasPrefix(line, "+"):
		return green
	}
	return dim
}
