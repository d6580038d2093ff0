package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"net/url"
	"slices"
	"strings"
	"time"

	"deadman/rules/document"

	"github.com/spf13/cobra"

	"deadman/web"
)

func newRuleApplyCmd(io *cli) *cobra.Command {
	a := &applyRun{io: io}
	cmd := &cobra.Command{
		Use: "apply FILE|DIR|-...", Short: "Apply rule files to the node and show the changes",
		Long: `Applies rule files to a node. Changed rules are saved as new versions and shown. All rules are
validated first; if one is invalid, no rule is changed.

The rules of a folder and its subfolders form a bundle, named after the folder. Rules of a bundle
can be changed by files only. --prune deletes the rules of the bundle that are on the node but in
none of the files. The rules of a single file are in no bundle, unless --bundle names one or they
belong to the bundle of its folder already.`,
		Example: `  deadman rule apply -f rules/ --dry-run
  deadman rule apply -f rules/ --prune
  deadman rule apply -f order-unshipped.yaml --apply-to pending`,
		ValidArgsFunction: completeFiles(ruleEndings...),
		RunE: func(cmd *cobra.Command, args []string) error {
			a.paths = append(a.paths, args...)
			return a.run(cmd.Context())
		},
	}
	flags := cmd.Flags()
	flags.StringArrayVarP(&a.paths, "file", "f", nil, "file or folder of rules, like an argument; can be repeated")
	flags.BoolVar(&a.dryRun, "dry-run", false, "show the changes without applying them")
	flags.BoolVar(&a.prune, "prune", false, "delete rules of the bundle that are in none of the files")
	flags.BoolVar(&a.adopt, "adopt", false, "move rules of other bundles to this bundle")
	flags.StringVar(&a.bundle, "bundle", "", "name of the bundle (default: name of the folder; none for a single file)")
	flags.StringVar(&a.to, "apply-to", applyToNew, "jobs that a new version applies to: new, or pending for new and pending jobs")
	textFlagVar(flags, &a.since, "backfill", "time", "", "also process stored stream events since this time, such as 7d (7 days ago) or 2026-01-31; steps that were due before are skipped")
	flags.BoolVar(&a.raisePast, "raise-past", false, "with --backfill: raise the alerts of steps that were due before")
	a.yes = addYes(flags)
	complete(cmd, "file", completeFiles(ruleEndings...))
	complete(cmd, "apply-to", completeWords(applyToNew, applyToPending))
	return cmd
}

// Jobs that a new version of a rule applies to.
const (
	applyToNew     = "new"
	applyToPending = "pending"
)

// applyRun is one run of rule apply.
type applyRun struct {
	io                   *cli
	c                    *client
	paths                []string
	bundle, to, since    string
	past                 time.Time // since as a time
	dryRun, prune, adopt bool
	raisePast            bool
	yes                  *bool
}

// run applies the files:
//
// 1. parse all files, and show errors without a request to the node
// 2. request the changes of each rule from the node; if one is invalid, nothing is changed
// 3. find the rules of the bundles that no file contains, and ask for confirmation to delete them
// 4. save the changes, then delete
func (a *applyRun) run(ctx context.Context) (err error) {
	if err := a.check(); err != nil {
		return err
	}
	all, files, err := a.parse()
	if err != nil {
		return err
	}
	if a.c, err = a.io.client(); err != nil {
		return err
	}
	if err := a.leaveBundles(ctx, all); err != nil {
		return err
	}
	plan, err := a.planChanges(ctx, all, files)
	if err != nil {
		return err
	}
	a.warnMissing(plan)
	gone, err := a.deletedRules(ctx, all)
	if err != nil {
		return err
	}
	if a.dryRun {
		return printApplied(a, slices.Concat(plan, gone))
	}
	if err := a.confirmBackfill(plan); err != nil {
		return err
	}
	if len(gone) > 0 {
		if !*a.yes && !isTerminal(a.io.in) {
			return usage("--prune would delete %s (%s) and end their jobs; no changes made. Confirm with --yes", number(len(gone), "rule"), namesOf(gone))
		}
		if err := a.io.confirm(*a.yes, fmt.Sprintf("Delete %s not in the files (%s) and end their jobs?", number(len(gone), "rule"), namesOf(gone))); err != nil {
			return err
		}
	}
	done, err := a.execute(ctx, all, plan, gone)
	return errors.Join(printApplied(a, done), err)
}

// confirmBackfill asks for confirmation before past events create jobs.
func (a *applyRun) confirmBackfill(plan []applied) error {
	var all pastJobs
	for _, r := range plan {
		all = all.plus(r.pastJobs)
	}
	if all.Past == 0 {
		return nil
	}
	return a.io.confirm(*a.yes, "Create "+all.describe(a.raisePast)+"?")
}

// warnMissing prints the warnings of events that streams have deleted.
func (a *applyRun) warnMissing(plan []applied) {
	for _, r := range plan {
		for _, missing := range r.MissingEvents {
			fmt.Fprintf(a.io.err, "warning: rule %s: %s\n", sanitize(r.Name), sanitize(missing))
		}
	}
}

func (a *applyRun) check() (err error) {
	if a.raisePast && a.since == "" {
		return usage("--raise-past needs --backfill, such as --backfill 7d")
	}
	if a.since != "" {
		if a.past, err = a.io.ago("backfill", a.since); err != nil {
			return err
		}
	}
	folders := true
	for _, path := range a.paths {
		folders = folders && isFolder(path)
	}
	switch {
	case len(a.paths) == 0:
		return usage("rule apply requires a file, a folder, or - for standard input")
	case a.to != applyToNew && a.to != applyToPending:
		return usage("--apply-to is %q; it must be %s or %s", a.to, applyToNew, applyToPending)
	case a.prune && !folders && a.bundle == "":
		return usage("--prune requires folders, because a single file may not be the whole bundle; give the folder with -f, or the name of the bundle that the files make up with --bundle")
	}
	return nil
}

func (a *applyRun) parse() ([]fileRule, int, error) {
	files, err := ruleFiles(a.paths)
	if err != nil {
		return nil, 0, err
	}
	all, found, err := parseFiles(a.io, files, nil)
	if err != nil {
		return nil, 0, err
	}
	for i := range all {
		if a.bundle != "" {
			all[i].bundle = a.bundle
		}
	}
	if len(found) > 0 {
		return nil, 0, errors.Join(printProblems(a.io, found, len(all), len(files)), unmetRules.err())
	}
	return all, len(files), nil
}

// planChanges requests a dry run of each rule. It prints all errors together.
func (a *applyRun) planChanges(ctx context.Context, all []fileRule, files int) ([]applied, error) {
	var plan []applied
	found, failure := document.Problems{}, unmetRules.err()
	for _, r := range all {
		would, err := a.put(ctx, r, true)
		var refused refusal
		switch {
		case errors.As(err, &refused) && refused.Status < http.StatusInternalServerError && refused.Status != http.StatusUnauthorized:
			found = append(found, problemsOf(r, refused)...)
			if refused.Status != http.StatusUnprocessableEntity {
				failure = silentError{exitFailure}
			}
		case err != nil:
			return nil, err
		}
		plan = append(plan, would)
	}
	if len(found) > 0 {
		return nil, errors.Join(printProblems(a.io, found, len(all), files), failure)
	}
	return plan, nil
}

// problemsOf returns the node's errors about a rule, at their places in its file.
func problemsOf(r fileRule, refused refusal) (found document.Problems) {
	for _, d := range refused.Errors {
		found = append(found, document.Problem{File: r.name(), Rule: r.Name, Pointer: d.Pointer, Message: d.Message})
	}
	if len(found) == 0 {
		found = document.Problems{{File: r.name(), Rule: r.Name, Message: refused.Detail}}
	}
	return found
}

// put saves a rule, or requests a dry run of it.
func (a *applyRun) put(ctx context.Context, r fileRule, dryRun bool) (applied, error) {
	query := url.Values{"apply_to": {a.to}}
	for name, given := range map[string]bool{"dry_run": dryRun, "adopt": a.adopt, "raise_past": a.raisePast} {
		if given {
			query.Set(name, "true")
		}
	}
	if r.bundle != "" {
		query.Set("bundle", r.bundle)
	}
	if !a.past.IsZero() {
		query.Set("since", a.past.Format(time.RFC3339))
	}
	change, err := a.send(ctx, r, query)
	if err != nil {
		return applied{}, err
	}
	return appliedBy(change, r.ruleFile), nil
}

// send requests the save of a rule: as its author wrote it, or as JSON if the file is JSON.
func (a *applyRun) send(ctx context.Context, r fileRule, query url.Values) (change web.RuleChange, err error) {
	if r.Text == "" {
		change, _, err = call[web.RuleChange](ctx, a.c, http.MethodPut, rulePath(r.Name), query, r.Document)
		return change, err
	}
	raw, err := a.c.request(ctx, http.MethodPut, rulePath(r.Name), query, []byte(r.Text), http.Header{"Content-Type": {"application/yaml"}})
	if err != nil {
		return change, err
	}
	if err := json.Unmarshal(raw, &change); err != nil {
		return change, a.c.unreadable(err)
	}
	return change, nil
}

// leaveBundles removes the bundle of rules of single files, unless they belong to it already.
func (a *applyRun) leaveBundles(ctx context.Context, all []fileRule) error {
	members := make(map[string]map[string]bool) // by bundle
	for i := range all {
		r := &all[i]
		if !r.single || a.bundle != "" {
			continue
		}
		if members[r.bundle] == nil {
			there, err := getAllPages[web.Rule](ctx, a.c, "/rules", url.Values{"bundle": {r.bundle}})
			if err != nil {
				return err
			}
			members[r.bundle] = make(map[string]bool)
			for _, rule := range there {
				members[r.bundle][rule.Name] = true
			}
		}
		if !members[r.bundle][r.Name] {
			r.bundle = ""
		}
	}
	return nil
}

// deletedRules returns the rules of the files' bundles that no file contains, if pruning is on.
func (a *applyRun) deletedRules(ctx context.Context, all []fileRule) (deletedRules []applied, err error) {
	if !a.prune {
		return nil, nil
	}
	kept, bundles := make(map[string]bool), make(map[string]bool)
	for _, r := range all {
		kept[r.Name] = true
		bundles[r.bundle] = true
	}
	for bundle := range bundles {
		there, err := getAllPages[web.Rule](ctx, a.c, "/rules", url.Values{"bundle": {bundle}})
		if err != nil {
			return nil, err
		}
		for _, r := range there {
			if !kept[r.Name] {
				deletedRules = append(deletedRules, applied{Name: r.Name, Bundle: bundle, Action: deleted, Version: r.Version})
			}
		}
	}
	slices.SortFunc(deletedRules, func(a, b applied) int { return strings.Compare(a.Name, b.Name) })
	return deletedRules, nil
}

// execute executes the plan and returns the changes made before any error.
func (a *applyRun) execute(ctx context.Context, all []fileRule, plan, gone []applied) (done []applied, err error) {
	for i, r := range all {
		did := plan[i]
		if did.Action != unchanged || did.TextChanged || a.to == applyToPending || did.Past > 0 {
			if did, err = a.put(ctx, r, false); err != nil {
				return done, fmt.Errorf("rule %s of %s and the rules after it were not applied: %w", r.Name, r.name(), err)
			}
		}
		done = append(done, did)
	}
	for _, g := range gone {
		if err := deleteRule(ctx, a.c, g.Name, g.Bundle); err != nil {
			return done, fmt.Errorf("rule %s was not deleted: %w", g.Name, err)
		}
		done = append(done, g)
	}
	return done, nil
}

func deleteRule(ctx context.Context, c *client, name, bundle string) error {
	query := url.Values{}
	if bundle != "" {
		query.Set("bundle", bundle)
	}
	_, err := c.request(ctx, http.MethodDelete, rulePath(name), query, nil, nil)
	return err
}
