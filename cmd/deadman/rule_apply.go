package main

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"net/url"
	"slices"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"deadman/rules"
	"deadman/web"
)

func (p *cli) applyCommand() *cobra.Command {
	a := &applying{p: p}
	cmd := &cobra.Command{
		Use: "apply -f FILE|DIR|-...", Short: "Make the node's rules those of files, and show what changed",
		Long: `Makes the rules of a node those of files. Only what changed is saved, as a new version, and
shown. Everything is looked at first: where one rule is refused, none is changed.

The rules of a folder, and of those in it, are one bundle, named after the folder; a file
alone is one of its folder's. The rules of a bundle are changed by files only. --prune
deletes those that the bundle has on the node and no file has any more.`,
		Example: `  deadman rule apply -f rules/ --dry-run
  deadman rule apply -f rules/ --prune
  deadman rule apply -f order-unshipped.yaml --apply-to pending`,
		Args: exactly(),
		RunE: func(cmd *cobra.Command, _ []string) error { return a.run(cmd.Context()) },
	}
	flags := cmd.Flags()
	flags.StringArrayVarP(&a.paths, "file", "f", nil, "a file or folder of rules, or - for the standard input; more than one may be given")
	flags.BoolVar(&a.dryRun, "dry-run", false, "say what would change, and change nothing")
	flags.BoolVar(&a.prune, "prune", false, "delete the rules of the bundle that no file has")
	flags.BoolVar(&a.adopt, "adopt", false, "take over rules that belong to another bundle")
	flags.StringVar(&a.bundle, "bundle", "", "the bundle's name, in place of the folder's")
	flags.StringVar(&a.to, "apply-to", applyToNew, "new: to waits that begin from now on; pending: also to those there are")
	flags.StringVar(&a.since, "since", "", "take in what streams still have of events since then, too, such as 24h or 2026-01-31")
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

// applying is one run of rule apply.
type applying struct {
	p                    *cli
	c                    *client
	paths                []string
	bundle, to, since    string
	past                 time.Time // since as a time
	dryRun, prune, adopt bool
	yes                  *bool
}

// run applies the files:
//
// 1. parse all files, and show errors without a request to the node
// 2. ask the node for the changes of each rule; if it refuses one, nothing is changed
// 3. find the rules of the bundles that no file contains, and ask for confirmation to delete them
// 4. save the changes, then delete
func (a *applying) run(ctx context.Context) (err error) {
	if err := a.check(); err != nil {
		return err
	}
	all, files, err := a.parse()
	if err != nil {
		return err
	}
	if a.c, err = a.p.client(); err != nil {
		return err
	}
	plan, err := a.rehearse(ctx, all, files)
	if err != nil {
		return err
	}
	gone, err := a.deletedRules(ctx, all)
	if err != nil {
		return err
	}
	if a.dryRun {
		return a.show(slices.Concat(plan, gone))
	}
	if begins := pastOf(plan); begins > 0 {
		if err := a.p.confirm(*a.yes, fmt.Sprintf("begin %s because of events since %s?", number(begins, "wait"), a.since)); err != nil {
			return err
		}
	}
	if len(gone) > 0 {
		if !*a.yes && !isTerminal(a.p.in) {
			return usage("--prune would delete %s that no file has (%s) and end their jobs; nothing was changed. Give --yes where nobody can be asked", number(len(gone), "rule"), namesOf(gone))
		}
		if err := a.p.confirm(*a.yes, fmt.Sprintf("delete %s that no file has (%s), and end their jobs?", number(len(gone), "rule"), namesOf(gone))); err != nil {
			return err
		}
	}
	done, err := a.carryOut(ctx, all, plan, gone)
	return errors.Join(a.show(done), err)
}

func (a *applying) check() (err error) {
	if d, none := rules.ParseDuration(a.since); none == nil {
		a.past = a.p.now().Add(-time.Duration(d)).UTC()
	} else if a.past, err = a.p.instantFlag("since", a.since, a.p.now()); err != nil {
		return err
	}
	folders := true
	for _, path := range a.paths {
		folders = folders && isFolder(path)
	}
	switch {
	case len(a.paths) == 0:
		return usage("deadman rule apply takes -f and a file, a folder, or - for the standard input")
	case a.to != applyToNew && a.to != applyToPending:
		return usage("--apply-to is %q; it takes %s or %s", a.to, applyToNew, applyToPending)
	case a.prune && !folders && a.bundle == "":
		return usage("--prune takes folders: a file alone does not say what else its bundle has; give -f the folder, or name the bundle that the files are all of with --bundle")
	}
	return nil
}

func (a *applying) parse() ([]fileRule, int, error) {
	files, err := ruleFiles(a.paths)
	if err != nil {
		return nil, 0, err
	}
	all, found, err := a.p.parseFiles(files, nil)
	if err != nil {
		return nil, 0, err
	}
	for i := range all {
		if a.bundle != "" {
			all[i].bundle = a.bundle
		}
	}
	if len(found) > 0 {
		return nil, 0, errors.Join(a.p.showProblems(found, len(all), len(files)), silentError{exitCondition})
	}
	return all, len(files), nil
}

// rehearse requests a dry run of each rule. It shows all refusals together.
func (a *applying) rehearse(ctx context.Context, all []fileRule, files int) ([]applied, error) {
	var plan []applied
	found, code := rules.Problems{}, exitCondition
	for _, r := range all {
		would, err := a.put(ctx, r, true)
		var no refusal
		switch {
		case errors.As(err, &no) && no.Status < http.StatusInternalServerError && no.Status != http.StatusUnauthorized:
			found = append(found, problemsOf(r, no)...)
			if no.Status != http.StatusUnprocessableEntity {
				code = exitFailure
			}
		case err != nil:
			return nil, err
		}
		plan = append(plan, would)
	}
	if len(found) > 0 {
		return nil, errors.Join(a.p.showProblems(found, len(all), files), silentError{code})
	}
	return plan, nil
}

// problemsOf returns the node's errors about a rule, at their places in its file.
func problemsOf(r fileRule, no refusal) (found rules.Problems) {
	for _, d := range no.Errors {
		found = append(found, rules.Problem{File: r.name(), Rule: r.Name, Pointer: d.Pointer, Message: d.Message})
	}
	if len(found) == 0 {
		found = rules.Problems{{File: r.name(), Rule: r.Name, Message: no.Detail}}
	}
	return found
}

// put saves a rule, or requests a dry run of it.
func (a *applying) put(ctx context.Context, r fileRule, dryRun bool) (applied, error) {
	query := url.Values{"apply_to": {a.to}}
	for name, given := range map[string]bool{"dry_run": dryRun, "adopt": a.adopt} {
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
	change, _, err := tell[web.RuleChange](ctx, a.c, http.MethodPut, rulePath(r.Name), query, r.Document)
	if err != nil {
		return applied{}, err
	}
	return appliedBy(change, r.ruleFile), nil
}

// deletedRules returns the rules of the files' bundles that no file contains, if pruning is on.
func (a *applying) deletedRules(ctx context.Context, all []fileRule) (deletedRules []applied, err error) {
	if !a.prune {
		return nil, nil
	}
	kept, bundles := make(map[string]bool), make(map[string]bool)
	for _, r := range all {
		kept[r.Name] = true
		bundles[r.bundle] = true
	}
	for bundle := range bundles {
		there, err := every[web.Rule](ctx, a.c, "/rules", url.Values{"bundle": {bundle}})
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

// carryOut executes the plan and returns the changes made before any error.
func (a *applying) carryOut(ctx context.Context, all []fileRule, plan, gone []applied) (done []applied, err error) {
	for i, r := range all {
		did := plan[i]
		if did.Action != unchanged || a.to == applyToPending || did.Past > 0 {
			if did, err = a.put(ctx, r, false); err != nil {
				return done, fmt.Errorf("rule %s of %s, and what comes after it, was not applied: %w", r.Name, r.name(), err)
			}
		}
		done = append(done, did)
	}
	for _, g := range gone {
		if err := a.c.deleteRule(ctx, g.Name, g.Bundle); err != nil {
			return done, fmt.Errorf("rule %s was not deleted: %w", g.Name, err)
		}
		done = append(done, g)
	}
	return done, nil
}

func (c *client) deleteRule(ctx context.Context, name, bundle string) error {
	query := url.Values{}
	if bundle != "" {
		query.Set("bundle", bundle)
	}
	_, err := c.ask(ctx, http.MethodDelete, rulePath(name), query, nil, nil)
	return err
}
