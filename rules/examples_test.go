package rules_test

import (
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	"deadman/rules"
)

var fence = regexp.MustCompile("(?s)\n```yaml\n(.*?)\n```")

// rulePages returns the texts of the reference about rules.
func rulePages(t *testing.T) (texts []string) {
	t.Helper()
	pages, err := filepath.Glob("../docs/reference/rule*.md")
	if err != nil || len(pages) == 0 {
		t.Fatalf("no pages about rules: %v", err)
	}
	for _, page := range pages {
		text, err := os.ReadFile(page)
		if err != nil {
			t.Fatal(err)
		}
		texts = append(texts, string(text))
	}
	return texts
}

// TestPagesParse keeps the pages correct: every rule that one shows is a rule.
func TestPagesParse(t *testing.T) {
	orders, err := os.ReadFile("../examples/orders/README.md")
	if err != nil {
		t.Fatal(err)
	}
	reference := strings.Join(rulePages(t), "\n")
	for page, shown := range map[string]struct {
		text  string
		least int
	}{"../docs/reference/rule*.md": {reference, 30}, "../examples/orders/README.md": {string(orders), 1}} {
		found, least := fence.FindAllStringSubmatch(shown.text, -1), shown.least
		if len(found) < least {
			t.Errorf("%s shows %d rules, expected %d or more", page, len(found), least)
		}
		for _, block := range found {
			if _, err := rules.Parse([]byte(completeRule(block[1]+"\n")), page); err != nil {
				t.Errorf("%v\n%s", err, block[1])
			}
		}
	}
}

// completeRule makes a rule of a block that shows some fields of one.
func completeRule(block string) string {
	for field, line := range map[string]string{
		"name": "name: shown", "entity": "entity: order",
		"trigger":  "trigger: {event: orders.created, key: event.id}",
		"resolve":  "resolve: {event: orders.shipped, key: event.id}",
		"escalate": "escalate: [{after: 3h}]",
	} {
		if field == "escalate" && strings.Contains(block, "\nhandler:") || field != "name" && strings.Contains(block, " emit: ") {
			continue // it replaces the steps, and a rule that emits has no jobs
		}
		if !strings.HasPrefix(block, field+":") && !strings.Contains(block, "\n"+field+":") {
			block = line + "\n" + block
		}
	}
	return block
}

func TestExamplesParse(t *testing.T) {
	files, err := filepath.Glob("../examples/*/*.yaml")
	files = slices.DeleteFunc(files, rules.IsTestFile)
	if err != nil || len(files) == 0 {
		t.Fatalf("no examples: %v", err)
	}
	for _, file := range files {
		text, err := os.ReadFile(file)
		if err != nil {
			t.Fatal(err)
		}
		if _, err := rules.Parse(text, file); err != nil {
			t.Error(err)
		}
	}
}
