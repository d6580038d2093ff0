package ruletest_test

import (
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"deadman/internal/ruletest"
	"deadman/rules"
)

// TestExamples runs the tests of all example rules. Each rule without a handler has some, and they use every step, event and
// branch.
func TestExamples(t *testing.T) {
	tested := make(map[string]bool)
	var untested []string
	err := filepath.WalkDir("../../examples", func(path string, d fs.DirEntry, err error) error {
		switch {
		case err != nil || d.IsDir():
		case rules.IsTestFile(path):
			t.Run(filepath.Base(path), func(t *testing.T) { runExample(t, path, tested) })
		case rules.IsRuleFile(path) && !strings.Contains(path, "handler-") && filepath.Ext(path) == ".yaml":
			untested = append(untested, path)
		}
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
	if len(untested) < 10 {
		t.Errorf("found only %d rules", len(untested))
	}
	for _, path := range untested {
		if !tested[path] {
			t.Errorf("%s has no test", path)
		}
	}
}

func runExample(t *testing.T, path string, tested map[string]bool) {
	t.Helper()
	s, err := ruletest.Load(path, nil, os.ReadFile)
	if err != nil {
		t.Fatal(err)
	}
	for _, file := range s.Rules {
		tested[file] = true
	}
	used := rules.NewCoverage()
	for i := range s.Tests {
		failures, err := s.Run(t.Context(), &s.Tests[i], used)
		if err != nil {
			t.Fatal(err)
		}
		for _, f := range failures {
			t.Errorf("%s:%d: %s: %s", path, f.Line, s.Tests[i].Name, strings.Join(f.Lines(), "\n"))
		}
	}
	for _, r := range ruletest.Cover(used).Rules {
		for _, line := range r.Missing() {
			t.Errorf("%s: %s", r.Rule, line)
		}
	}
}
