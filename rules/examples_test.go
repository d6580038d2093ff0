package rules_test

import (
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"deadman/rules"
)

var fence = regexp.MustCompile("(?s)\n```yaml\n(.*?)\n```")

// TestPagesParse keeps the pages correct: every rule that one shows is a rule.
func TestPagesParse(t *testing.T) {
	for page, least := range map[string]int{"../docs/rules.md": 30, "../examples/orders/README.md": 1} {
		text, err := os.ReadFile(page)
		if err != nil {
			t.Fatal(err)
		}
		found := fence.FindAllStringSubmatch(string(text), -1)
		if len(found) < least {
			t.Errorf("%s shows %d rules, expected %d or more", page, len(found), least)
		}
		for _, block := range found {
			if _, err := rules.Parse([]byte(whole(block[1]+"\n")), page); err != nil {
				t.Errorf("%v\n%s", err, block[1])
			}
		}
	}
}

// whole makes a rule of a block that shows some fields of one.
func whole(block string) string {
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
