package docs_test

import (
	"io/fs"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"deadman/internal/access"
	"deadman/rules"
)

var (
	link      = regexp.MustCompile(`\]\(([^)#\s]+)[^)]*\)`)
	yamlBlock = regexp.MustCompile("(?s)```yaml\n(.*?)```")
)

func TestLinksBetweenTextsResolve(t *testing.T) {
	found := 0
	err := filepath.WalkDir("..", func(path string, d fs.DirEntry, err error) error {
		if err == nil && d.IsDir() && (d.Name() == "node_modules" || d.Name() == "bin" || d.Name() == ".git") {
			return filepath.SkipDir
		}
		if err != nil || filepath.Ext(path) != ".md" {
			return err
		}
		for _, m := range link.FindAllStringSubmatch(read(t, path), -1) {
			if strings.Contains(m[1], "://") {
				continue
			}
			found++
			if _, err := os.Stat(filepath.Join(filepath.Dir(path), m[1])); err != nil {
				t.Errorf("%s links to %s: %v", path, m[1], err)
			}
		}
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
	if found == 0 {
		t.Error("no link found in any text")
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
			t.Errorf("SECURITY.md says nothing of %q", part)
		}
	}
}

func TestReadmeRuleIsAccepted(t *testing.T) {
	blocks := yamlBlock.FindAllStringSubmatch(read(t, "../README.md"), -1)
	if len(blocks) == 0 {
		t.Fatal("the README shows no rule")
	}
	for _, b := range blocks {
		if _, err := rules.Parse([]byte(b[1]), "README.md"); err != nil {
			t.Errorf("the README shows a rule that is refused: %v\n%s", err, b[1])
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
