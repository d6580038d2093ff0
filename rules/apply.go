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

	"deadman/rules/document"
)

// Report is the result of applying a folder of rules.
type Report struct {
	Saved     []string // rules with a new version
	Unchanged []string
	Problems  document.Problems // of files and rules that were left out
	Applied   []AppliedRule     // those that are saved or unchanged
	Refused   int               // rules that were left out; a file that cannot be parsed counts as one
	// Others are the names of the rules of the folder's bundle that no file of the folder has any more. If a file cannot be
	// parsed, its rules are unknown and Others is empty.
	Others []string
}

// AppliedRule is a rule of a folder that was applied.
type AppliedRule struct {
	Name, File, Bundle string
	Document           []byte // canonical
}

// IsReplacedBy reports whether a version is of the folder of another node, and not what the file says.
func (a AppliedRule) IsReplacedBy(s RuleVersion) bool {
	return s.IsOfFolder() && (s.Bundle != a.Bundle || !bytes.Equal(s.Document, a.Document))
}

// others returns the rules of the bundle that were in force before and are in none of the files, refused files included.
func (a *bundleApply) others() []string {
	if a.unread {
		return nil
	}
	var names []string
	for name, rule := range a.before {
		if _, here := a.from[name]; !here && !a.refused[name] && rule.Bundle == a.bundle {
			names = append(names, name)
		}
	}
	slices.Sort(names)
	return names
}

// FilePrefix is the prefix of the names of bundles of files.
const FilePrefix = "file:"

// BundleOf returns the name of the bundle for a folder or a file.
func BundleOf(dir string) string {
	if abs, err := filepath.Abs(dir); err == nil {
		dir = abs
	}
	return FilePrefix + filepath.Base(dir)
}

// TestSuffix is the end of the name of a file of tests, which is beside the file of its rules.
const TestSuffix = ".test.yaml"

// IsTestFile reports whether a file has tests of rules, by its name.
func IsTestFile(path string) bool { return strings.HasSuffix(strings.ToLower(path), TestSuffix) }

// IsRuleFile reports whether a file in a folder of rules has rules, by its name. A file of tests has none.
func IsRuleFile(path string) bool {
	return slices.Contains([]string{".yaml", ".yml", ".json"}, strings.ToLower(filepath.Ext(path))) && !IsTestFile(path)
}

// FilesIn returns the paths of the rule files in a folder and its subfolders, sorted. Names that begin with a dot are left out.
func FilesIn(dir string) ([]string, error) {
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
		if IsRuleFile(path) {
			files = append(files, path)
		}
		return nil
	})
	slices.Sort(files)
	return files, err
}

// bundleApply applies one folder.
type bundleApply struct {
	*Registry
	bundle string
	before map[string]*ListedRule
	from   map[string]string // the file of each rule so far
	report Report

	refused map[string]bool // rules of refused files
	unread  bool            // a file could not be parsed, so its rules are unknown
}

func (a *bundleApply) file(ctx context.Context, file string) error {
	documents, err := a.parseFile(ctx, file)
	var problems document.Problems
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

// ReadFile reads a file of rules, at most one byte more than the largest text of rules, which parsing then refuses.
func ReadFile(path string) ([]byte, error) {
	f, err := os.Open(path)
	if err != nil {
		return nil, err
	}
	defer f.Close()
	return io.ReadAll(io.LimitReader(f, document.MaxSize+1))
}

// parseFile parses a file. Its errors are Problems, also if the file cannot be read.
func (a *bundleApply) parseFile(ctx context.Context, path string) ([]parsedDocument, error) {
	data, err := ReadFile(path)
	if err != nil {
		return nil, document.Problems{{File: path, Message: err.Error()}}
	}
	return a.parse(ctx, data, path)
}

// document saves the rule if it changed.
func (a *bundleApply) document(ctx context.Context, file string, d parsedDocument) error {
	if other, taken := a.from[d.Name]; taken {
		a.refuse(d.Problem(file, "/name", fmt.Sprintf("the name is already used by the rule in %s; names are unique", other)))
		return nil
	}
	a.from[d.Name] = file
	o := SaveOptions{Version: AnyVersion, Bundle: a.bundle, Adopt: true, Folder: a.As != nil}
	if a.As != nil {
		ctx = a.As(ctx, a.bundle, file)
	}
	c, err := (&saving{Registry: a.Registry, document: d, before: a.before[d.Name], options: o}).run(ctx)
	var problems document.Problems
	for _, warning := range c.Warnings {
		a.Log.Warn("rule not checked in full", "rule", d.Name, "file", file, "warning", warning)
	}
	switch {
	case errors.As(err, &problems):
		for _, p := range problems {
			p.File = file
			a.refuse(p)
		}
		return nil
	case err != nil && !errors.Is(err, ErrConflict): // a conflict: another node applies its files at the same time
		return err
	case err == nil && c.Changed:
		a.report.Saved = append(a.report.Saved, d.Name)
		a.Log.Info("rule saved", "rule", d.Name, "version", c.After.Version, "file", file)
	default:
		a.report.Unchanged = append(a.report.Unchanged, d.Name)
	}
	canonical, err := d.Canonical()
	if err == nil { // it was saved
		a.report.Applied = append(a.report.Applied, AppliedRule{Name: d.Name, File: file, Bundle: a.bundle, Document: canonical})
	}
	return err
}

// refuseFile leaves out a file with all its rules, as far as they can be separated.
func (a *bundleApply) refuseFile(documents []parsedDocument, problems document.Problems) {
	for _, d := range documents {
		a.refused[d.Name] = true
	}
	a.unread = a.unread || len(documents) == 0
	a.report.Refused += max(1, len(documents))
	a.addProblems(problems...)
}

// refuse leaves out one rule.
func (a *bundleApply) refuse(p document.Problem) {
	a.report.Refused++
	a.addProblems(p)
}

func (a *bundleApply) addProblems(problems ...document.Problem) {
	a.report.Problems = append(a.report.Problems, problems...)
	for _, p := range problems {
		a.Log.Error("rule refused", "problem", p.Error())
	}
}

// subjectsOf returns the subjects of reads, sorted.
func subjectsOf(reads []StreamBinding) []string {
	all := make([]string, len(reads))
	for i, r := range reads {
		all[i] = r.Subject
	}
	slices.Sort(all)
	return slices.Compact(all)
}
