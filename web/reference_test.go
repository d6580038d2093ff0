package web_test

import (
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
)

const (
	apiPage     = "../docs/reference/api.md"
	metricsPage = "../docs/reference/metrics.md"
)

// TestProblemsAreDocumented checks that the reference has every kind of problem.
func TestProblemsAreDocumented(t *testing.T) {
	page := readPage(t, apiPage)
	found := regexp.MustCompile(`Kind = "([a-z-]+)"`).FindAllStringSubmatch(readPage(t, "problem_kinds.go"), -1)
	if len(found) == 0 {
		t.Fatal("problem_kinds.go has no kinds")
	}
	for _, m := range found {
		if !strings.Contains(page, "\n| `"+m[1]+"` |") {
			t.Errorf("%s has no row for the problem %s", apiPage, m[1])
		}
	}
}

// TestMetricsAreDocumented checks that the reference has exactly the metrics of the code.
func TestMetricsAreDocumented(t *testing.T) {
	rows := make(map[string]bool)
	for _, m := range regexp.MustCompile("(?m)^\\| \\**`(deadman_[a-z_]+)").FindAllStringSubmatch(readPage(t, metricsPage), -1) {
		rows[m[1]] = true
	}
	files, err := filepath.Glob("*.go")
	failOn(t, err)
	for _, file := range files {
		if strings.HasSuffix(file, "_test.go") {
			continue
		}
		for _, m := range regexp.MustCompile(`(?:desc\(|Name: )"(deadman_[a-z_]+)", (?:Help: )?"`).FindAllStringSubmatch(readPage(t, file), -1) {
			if !rows[m[1]] {
				t.Errorf("%s has no row for %s", metricsPage, m[1])
			}
			delete(rows, m[1])
		}
	}
	for name := range rows {
		t.Errorf("%s has a row for %s, and the code has no such metric", metricsPage, name)
	}
}

func readPage(t *testing.T, path string) string {
	t.Helper()
	text, err := os.ReadFile(path)
	failOn(t, err)
	return string(text)
}
