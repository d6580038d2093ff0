package docs_test

import (
	"io/fs"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	"deadman/checks"
	"deadman/internal/access"
	"deadman/internal/calendars"
	"deadman/internal/replay"
	"deadman/internal/ruletest"
	"deadman/rules"
)

var (
	link      = regexp.MustCompile(`\]\(([^)#\s]*)(?:#([^)\s]*))?[^)]*\)`)
	heading   = regexp.MustCompile(`(?m)^#+ (.*)$`)
	marks     = regexp.MustCompile(`[^\p{L}\p{N}_ -]`)
	fenced    = regexp.MustCompile("(?ms)^ *```.*?^ *```$")           //nolint:gocritic // ^ is the start of a line
	yamlBlock = regexp.MustCompile("(?ms)^( *)```yaml\n(.*?)^ *```$") //nolint:gocritic // likewise
)

// longestPage is the largest number of lines of a page.
const longestPage = 400

// TestLinksBetweenTextsResolve checks that each linked file exists, and each linked heading of a page.
func TestLinksBetweenTextsResolve(t *testing.T) {
	found := 0
	for _, path := range texts(t) {
		for _, m := range link.FindAllStringSubmatch(read(t, path), -1) {
			if strings.Contains(m[1], "://") {
				continue
			}
			found++
			file := path
			if m[1] != "" {
				file = filepath.Join(filepath.Dir(path), m[1])
			}
			if _, err := os.Stat(file); err != nil {
				t.Errorf("%s links to %s: %v", path, m[1], err)
			} else if m[2] != "" && filepath.Ext(file) == ".md" && !slices.Contains(anchors(t, file), m[2]) {
				t.Errorf("%s links to %s#%s, and there is no such heading", path, m[1], m[2])
			}
		}
	}
	if found == 0 {
		t.Error("no link found in any text")
	}
}

// texts returns the Markdown files of the repository.
func texts(t *testing.T) (paths []string) {
	t.Helper()
	err := filepath.WalkDir("..", func(path string, d fs.DirEntry, err error) error {
		if err == nil && d.IsDir() && (d.Name() == "node_modules" || d.Name() == "bin" || d.Name() == ".git") {
			return filepath.SkipDir
		}
		if err == nil && filepath.Ext(path) == ".md" {
			paths = append(paths, path)
		}
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
	return paths
}

// anchors returns the anchors of the headings of a page, as GitHub makes them.
func anchors(t *testing.T, page string) (all []string) {
	t.Helper()
	for _, m := range heading.FindAllStringSubmatch(fenced.ReplaceAllString(read(t, page), ""), -1) {
		all = append(all, strings.ReplaceAll(marks.ReplaceAllString(strings.ToLower(strings.TrimSpace(m[1])), ""), " ", "-"))
	}
	return all
}

// TestPagesAreShortAndListed checks that a page has at most longestPage lines, and that the map of the documentation links to it.
func TestPagesAreShortAndListed(t *testing.T) {
	index, pages := read(t, "README.md"), 0
	for _, path := range texts(t) {
		page, err := filepath.Rel(filepath.Join("..", "docs"), path)
		if err != nil || strings.HasPrefix(page, "..") || strings.HasPrefix(page, "adr") || page == "README.md" {
			continue
		}
		pages++
		if lines := strings.Count(read(t, path), "\n"); lines > longestPage {
			t.Errorf("%s has %d lines, over %d", path, lines, longestPage)
		}
		if !strings.Contains(index, "("+filepath.ToSlash(page)+")") {
			t.Errorf("README.md does not link to %s", page)
		}
	}
	if pages == 0 {
		t.Error("no page found")
	}
}

// The threat model says of each scope what a token with it is trusted with.
func TestThreatModelHasEachScope(t *testing.T) {
	model := read(t, "SECURITY.md")
	for _, scope := range access.Scopes {
		if !strings.Contains(model, "| `"+string(scope)+"` token") {
			t.Errorf("SECURITY.md has no row for tokens with the scope %s", scope)
		}
	}
	for _, part := range []string{"## Reporting a vulnerability", "## What is defended", "## What is not defended", "with a prefix", "sender of a ping", "the broker", "the database"} {
		if !strings.Contains(model, part) {
			t.Errorf("SECURITY.md does not name %q", part)
		}
	}
}

// TestReferenceListsOutcomes checks that the table of outcomes has each of them, and the page of the guards those of the
// guards.
func TestReferenceListsOutcomes(t *testing.T) {
	rulesPage, guardsPage := read(t, "reference/rules.md"), read(t, "reference/rule-checks.md")
	_, table, _ := strings.Cut(rulesPage, "\n## Outcomes\n")
	table, _, _ = strings.Cut(table, "\n## ")
	for _, o := range checks.Outcomes() {
		if !strings.Contains(table, "`"+string(o)+"`") {
			t.Errorf("the table of outcomes in reference/rules.md has no row for %s", o)
		}
		if o.IsGuard() && !strings.Contains(guardsPage, "`"+string(o)+"`") {
			t.Errorf("reference/rule-checks.md does not name the outcome %s of a guard", o)
		}
	}
}

func TestReadmeRuleIsAccepted(t *testing.T) {
	blocks := yamlBlock.FindAllStringSubmatch(read(t, "../README.md"), -1)
	if len(blocks) == 0 {
		t.Fatal("the README shows no rule")
	}
	for _, b := range blocks {
		if _, err := rules.Parse([]byte(b[2]), "README.md"); err != nil {
			t.Errorf("the README shows a rule that is refused: %v\n%s", err, b[2])
		}
	}
}

// TestShownRulesAndCalendarsAreAccepted checks the complete rules and the calendars of all pages outside of the reference,
// which has tests of its own.
func TestShownRulesAndCalendarsAreAccepted(t *testing.T) {
	shown := make(map[string]int) // rules, by page
	for _, path := range texts(t) {
		if strings.Contains(filepath.ToSlash(path), "/reference/") {
			continue
		}
		rule := ""
		for _, m := range yamlBlock.FindAllStringSubmatch(read(t, path), -1) {
			block := strings.ReplaceAll("\n"+m[2], "\n"+m[1], "\n")[1:]
			var err error
			switch {
			case strings.HasPrefix(block, "tests:"):
				shown[path+testsOf]++
				runTests(t, path, block, rule)
			case strings.HasPrefix(block, "name:"):
				rule = block
				shown[path]++
				_, err = rules.Parse([]byte(block), path)
			case strings.HasPrefix(block, "calendars:"):
				_, err = calendars.Parse([]byte(block), path)
			case strings.HasPrefix(block, "sources:") && strings.Contains(block, "answers:"):
				_, err = replay.ParseLookups([]byte(block), path)
			}
			if err != nil {
				t.Errorf("%s shows a block that is refused: %v\n%s", path, err, block)
			}
		}
	}
	for _, page := range []string{"../README.md", "../docs/getting-started.md", "../docs/concepts.md", "../docs/how-to/late-order.md", "../docs/how-to/test-a-rule.md" + testsOf} {
		if shown[filepath.FromSlash(page)] == 0 {
			t.Errorf("%s shows no rule", page)
		}
	}
}

// testsOf marks the tests that a page shows.
const testsOf = " (tests)"

// runTests runs shown tests against the rule above them.
func runTests(t *testing.T, page, tests, rule string) {
	t.Helper()
	files := map[string]string{"shown.test.yaml": tests, "shown.yaml": rule}
	s, err := ruletest.Load("shown.test.yaml", nil, func(path string) ([]byte, error) { return []byte(files[path]), nil })
	if err != nil {
		t.Errorf("%s: %v", page, err)
		return
	}
	for i := range s.Tests {
		failures, err := s.Run(t.Context(), &s.Tests[i], rules.NewCoverage())
		if err != nil || len(failures) > 0 {
			t.Errorf("%s: the test %s fails: %v %v", page, s.Tests[i].Name, err, failures)
		}
	}
}

func read(t *testing.T, path string) string {
	t.Helper()
	text, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	return string(text)
}
