package ui_test

import (
	"flag"
	"go/ast"
	"go/parser"
	"go/token"
	"os"
	"strings"
	"testing"
)

// sample has the tests that run if DEADMAN_TEST_SAMPLE is set, as in make test: those of what a page must never get wrong.
// make test/ui runs all.
const sample = "TestStorm TestLostNode TestInbox TestAlertPage TestOnCallActions TestLostDataStaysOpen TestPageActions " +
	"TestNeverReported TestHealth TestOverviewShowsPausesAndGaps TestHostileTexts TestLoggedIn TestTokenBoundsAreShown " +
	"TestEditor TestPreview TestHeartbeatPage TestOddKeysInForms TestStories TestMissingEventsOfJob TestSample"

// selectSample limits the run to the sample, unless -run selects tests.
func selectSample() error {
	flag.Parse()
	selected := flag.Lookup("test.run").Value
	if os.Getenv("DEADMAN_TEST_SAMPLE") == "" || selected.String() != "" {
		return nil
	}
	return selected.Set("^(" + strings.ReplaceAll(sample, " ", "|") + ")$")
}

// A test of the sample that has another name now would no longer run in make test.
func TestSample(t *testing.T) {
	t.Parallel()
	declared := map[string]bool{}
	files, err := os.ReadDir(".")
	if err != nil {
		t.Fatal(err)
	}
	for _, f := range files {
		if !strings.HasSuffix(f.Name(), "_test.go") {
			continue
		}
		parsed, err := parser.ParseFile(token.NewFileSet(), f.Name(), nil, parser.SkipObjectResolution)
		if err != nil {
			t.Fatal(err)
		}
		for _, d := range parsed.Decls {
			if f, ok := d.(*ast.FuncDecl); ok {
				declared[f.Name.Name] = true
			}
		}
	}
	for name := range strings.FieldsSeq(sample) {
		if !declared[name] {
			t.Errorf("the sample has %s, and no such test is declared", name)
		}
	}
}
