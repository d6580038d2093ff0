package docs_test

import (
	"io/fs"
	"os"
	"path/filepath"
	"regexp"
	"strconv"
	"strings"
	"testing"
)

// reliability.md names tests that exist, and the number of bugs that are planted against each promise.
func TestReliabilityIsAsTested(t *testing.T) {
	page, err := os.ReadFile("reliability.md")
	if err != nil {
		t.Fatal(err)
	}
	tests, bugs := testsAndBugs(t)
	for _, name := range regexp.MustCompile("`(Test\\w+)`").FindAllStringSubmatch(string(page), -1) {
		if !tests[name[1]] {
			t.Errorf("reliability.md names %s, which does not exist", name[1])
		}
	}
	rows := regexp.MustCompile(`(?m)^\| (P\d+) \|.*\| (\d*) ?\|$`).FindAllStringSubmatch(string(page), -1)
	if len(rows) != 15 {
		t.Errorf("reliability.md has %d promises, want 15", len(rows))
	}
	for _, row := range rows {
		want := ""
		if n := bugs[row[1]]; n > 0 {
			want = strconv.Itoa(n)
		}
		if row[2] != want {
			t.Errorf("%s has %q bugs, and internal/tools/mutations has %q", row[1], row[2], want)
		}
	}
}

// testsAndBugs returns the tests of the project, and the numbers of planted bugs by promise.
func testsAndBugs(t *testing.T) (tests map[string]bool, bugs map[string]int) {
	t.Helper()
	tests, bugs = make(map[string]bool), make(map[string]int)
	test, promise := regexp.MustCompile(`(?m)^func (Test\w+)\(`), regexp.MustCompile(`(?m)^  promise: (P\d+)$`)
	err := filepath.WalkDir("..", func(path string, d fs.DirEntry, err error) error {
		isTest, isBug := strings.HasSuffix(path, "_test.go"), strings.Contains(path, filepath.Join("mutations", "bugs"))
		if err != nil || d.IsDir() || !isTest && !isBug {
			return err
		}
		text, err := os.ReadFile(path)
		if err != nil {
			return err
		}
		for _, m := range test.FindAllSubmatch(text, -1) {
			tests[string(m[1])] = true
		}
		if isBug {
			for _, m := range promise.FindAllSubmatch(text, -1) {
				bugs[string(m[1])]++
			}
		}
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
	return tests, bugs
}
