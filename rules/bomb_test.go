package rules_test

import (
	"fmt"
	"strings"
	"testing"

	"deadman/rules"
)

// Texts of the largest size that took a reader long; that the tests end is what they show.
func TestTextsThatWouldTakeLong(t *testing.T) {
	var different strings.Builder
	for i := 0; different.Len() < rules.MaxSize-20; i++ {
		fmt.Fprintf(&different, "k%d: 1\n", i)
	}
	for name, c := range map[string]struct{ text, want string }{
		"carriage returns": {"name: |\n " + strings.Repeat("\r", rules.MaxSize-20), "2:2: a carriage return without"},
		"documents":        {strings.Repeat("--- a\n", rules.MaxSize/6), "holds more; split it"},
		"fields":           {different.String(), "1:1: "},
		"the same field":   {strings.Repeat("a: 1\n", rules.MaxSize/5), "already defined"},
		"items":            {"escalate:\n" + strings.Repeat("- 1\n", rules.MaxSize/5), "escalate"},
		"flow items":       {"escalate: [" + strings.Repeat("1,", rules.MaxSize/3) + "]", "escalate"},
		"question marks":   {strings.Repeat("? a\n", rules.MaxSize/4), "already defined"},
	} {
		t.Run(name, func(t *testing.T) {
			_, err := rules.Parse([]byte(c.text), "")
			if err == nil || !strings.Contains(err.Error(), c.want) {
				t.Errorf("%.300v", err)
			}
		})
	}
}
