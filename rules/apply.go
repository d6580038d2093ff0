package rules

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"
)

// Report is what applying a folder of rules came to.
type Report struct {
	Saved     []string // rules that have a new version
	Unchanged []string
	Problems  Problems // of files and rules that were left out
	Refused   int      // rules that were left out; a file that cannot be taken apart counts as one
	// Others are the rules in force that no file of the folder has, by name. Where a file cannot
	// be taken apart nobody knows, and there are none.
	Others []string
}

// ApplyDir applies the rule files of a folder and of those in it: *.yaml, *.yml and *.json, in the order
// of their paths. What is wrong with a file is in the report, and the others are applied all the
// same. Only what changed is saved. The error is of the store, the binder or the folder;
// what was saved until then stays.
func (r *Registry) ApplyDir(ctx context.Context, dir string) (Report, error) {
	files, err := ruleFiles(dir)
	if err != nil {
		return Report{}, wrapErr("rules folder", err)
	}
	before, err := r.List(ctx)
	if err != nil {
		return Report{}, wrapErr("apply rules", err)
	}
	a := bundleApply{
		Registry: r, bundle: BundleOf(dir), before: make(map[string]*ListedRule),
		from: make(map[string]string), refused: make(map[string]bool),
	}
	if r.As != nil {
		ctx = r.As(ctx, a.bundle)
	}
	for i := range before {
		a.before[before[i].Name] = &before[i]
	}
	for _, file := range files {
		if err := a.file(ctx, file); err != nil {
			return a.report, wrapErr("apply "+file, err)
		}
	}
	a.report.Others = a.others()
	return a.report, nil
}

// others are the rules that were in force before and are in none of the files, not even in
// one that is refused.
func (a *bundleApply) others() []string {
	if a.unread {
		return nil
	}
	var names []string
	for name := range a.before {
		if _, here := a.from[name]; !here && !a.refused[name] {
			names = append(names, name)
		}
	}
	slices.Sort(names)
	return names
}

// FilePrefix is what the names of sets of files begin with.
const FilePrefix = "file:"

// BundleOf names the set of files that a folder, or a file, is.
func BundleOf(dir string) string {
	if abs, err := filepath.Abs(dir); err == nil {
		dir = abs
	}
	return FilePrefix + filepath.Base(dir)
}

// ruleFiles returns the paths of rule files, sorted. What begins with a dot is left out.
func ruleFiles(dir string) ([]string, error) {
	var files []string
	err := filepath.WalkDir(dir, func(path string, d fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		hidden := path != dir && strings.HasPrefix(d.Name(), ".")
		switch {
		case d.IsDir() && hidden:
			return filepath.SkipDir
		case d.IsDir() || hidden:
			return nil
		}
		if slices.Contains([]string{".yaml", ".yml", ".json"}, strings.ToLower(filepath.Ext(path))) {
			files = append(files, path)
		}
		return nil
	})
	slices.Sort(files)
	return files, err
}

func newestOf(saved []RuleVersion) map[string]RuleVersion {
	newest := make(map[string]RuleVersion)
	for _, s := range saved {
		if s.Version > newest[s.Name].Version {
			newest[s.Name] = s
		}
	}
	return newest
}

// bundleApply is one folder being applied.
type bundleApply struct {
	*Registry
	bundle string
	before map[string]*ListedRule
	from   map[string]string // the file of each rule so far
	report Report

	refused map[string]bool // rules of files that are refused
	unread  bool            // there is a file of which nobody knows what rules it has
}

func (a *bundleApply) file(ctx context.Context, file string) error {
	documents, err := a.parseFile(ctx, file)
	var problems Problems
	if errors.As(err, &problems) {
		a.refuseFile(documents, problems)
		return nil
	}
	if err != nil {
		return err
	}
	for _, d := range documents {
		if err := a.document(ctx, file, d); err != nil {
			return err
		}
	}
	return nil
}

// parseFile parses a file. What is wrong with it is Problems, also that it can't be read.
func (r *Registry) parseFile(ctx context.Context, path string) ([]parsedDocument, error) {
	f, err := os.Open(path)
	if err != nil {
		return nil, Problems{{File: path, Message: err.Error()}}
	}
	defer f.Close()
	// No more than a text of rules may hold, and one byte to tell.
	data, err := io.ReadAll(io.LimitReader(f, MaxSize+1))
	if err != nil {
		return nil, Problems{{File: path, Message: err.Error()}}
	}
	return r.parse(ctx, data, path)
}

// document saves the rule if it changed.
func (a *bundleApply) document(ctx context.Context, file string, d parsedDocument) error {
	if other, taken := a.from[d.Name]; taken {
		a.refuse(d.problem(file, "/name", fmt.Sprintf("the name is taken by the rule in %s; names are unique", other)))
		return nil
	}
	a.from[d.Name] = file
	c, err := a.save(ctx, d, a.before[d.Name], SaveOptions{Version: AnyVersion, Bundle: a.bundle, Adopt: true, Folder: a.As != nil})
	var problems Problems
	for _, warning := range c.Warnings {
		a.Log.Warn("rule not checked in full", "rule", d.Name, "file", file, "warning", warning)
	}
	switch {
	case errors.As(err, &problems):
		for _, p := range problems {
			p.File = file
			a.refuse(p)
		}
	case errors.Is(err, ErrConflict): // another node applies the same files
		a.report.Unchanged = append(a.report.Unchanged, d.Name)
	case err != nil:
		return err
	case c.Changed:
		a.report.Saved = append(a.report.Saved, d.Name)
		a.Log.Info("rule saved", "rule", d.Name, "version", c.After.Version, "file", file)
	default:
		a.report.Unchanged = append(a.report.Unchanged, d.Name)
	}
	return nil
}

// refuseFile leaves out a file with all rules that it has, as far as they can be told apart.
func (a *bundleApply) refuseFile(documents []parsedDocument, problems Problems) {
	for _, d := range documents {
		a.refused[d.Name] = true
	}
	a.unread = a.unread || len(documents) == 0
	a.report.Refused += max(1, len(documents))
	a.say(problems...)
}

// refuse leaves out one rule.
func (a *bundleApply) refuse(p Problem) {
	a.report.Refused++
	a.say(p)
}

func (a *bundleApply) say(problems ...Problem) {
	a.report.Problems = append(a.report.Problems, problems...)
	for _, p := range problems {
		a.Log.Error("rule refused", "problem", p.Error())
	}
}

// problem is what is wrong with a field of the document.
func (d parsedDocument) problem(file, pointer, message string) Problem {
	at := d.places[pointer]
	return Problem{File: file, Line: at.line, Column: at.column, Pointer: pointer, Rule: d.Name, Message: message}
}

// same reports whether saving t after s would change nothing. Which streams the subjects are read from does not count:
// Rebind follows them, and misses nothing, where a version that is saved hears what comes after the save alone.
func (s RuleVersion) same(t RuleVersion) bool {
	return s.Bundle == t.Bundle && s.Bounds.Equal(t.Bounds) && bytes.Equal(s.Document, t.Document) && slices.Equal(subjectsOf(s.Reads), subjectsOf(t.Reads))
}

// subjectsOf are the subjects of reads, sorted.
func subjectsOf(reads []StreamBinding) []string {
	all := make([]string, len(reads))
	for i, r := range reads {
		all[i] = r.Subject
	}
	slices.Sort(all)
	return slices.Compact(all)
}
