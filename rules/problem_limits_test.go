package rules_test

import (
	"errors"
	"fmt"
	"strings"
	"testing"

	"deadman/rules/document"

	"deadman/rules"
)

// Of very many problems only the first are listed, with a note that others were left out.
func TestManyProblemsAreBounded(t *testing.T) {
	var labels strings.Builder
	for i := range 200 {
		fmt.Fprintf(&labels, "  _%d: '{{ unknown }}'\n", i)
	}
	for name, text := range map[string]string{
		"of a document":  "{" + strings.Repeat(`"a": 1, "b": 1, `, 5000) + `"c": 1}`,
		"of many":        strings.Repeat("---\nname: _\n", 1000),
		"of expressions": "name: a\nentity: b\ntrigger: {event: c, key: event.id}\nescalate:\n- after: 1h\n  text: '" + strings.Repeat("{{ no }}", 60) + "'\nlabels:\n" + labels.String(),
	} {
		t.Run(name, func(t *testing.T) {
			_, err := rules.Parse([]byte(text), "a.yaml")
			var ps document.Problems
			if !errors.As(err, &ps) || len(ps) != 101 || !strings.Contains(ps[100].Message, "more problems follow") || ps[100].Line < ps[99].Line || ps[100].File != "a.yaml" {
				t.Errorf("%d problems, of which the last is %+v", len(ps), ps[max(0, len(ps)-1):])
			}
		})
	}
}

// Texts of the largest size that took a reader long; the test passes if it ends.
func TestExpensiveTextsAreBounded(t *testing.T) {
	var different strings.Builder
	for i := 0; different.Len() < document.MaxSize-20; i++ {
		fmt.Fprintf(&different, "k%d: 1\n", i)
	}
	for name, c := range map[string]struct{ text, want string }{
		"carriage returns": {"name: |\n " + strings.Repeat("\r", document.MaxSize-20), "2:2: a carriage return without"},
		"documents":        {strings.Repeat("--- a\n", document.MaxSize/6), "holds more; split it"},
		"fields":           {different.String(), "4001:1: the mapping has more than 4000 fields"},
		"JSON on one line": {`{"name":"a","calendars":[` + strings.Repeat("1,", document.MaxSize/2-50) + `1]}`, "1:1: "},
		"JSON fields":      {"{" + strings.Repeat(`"a":1,`, document.MaxSize/6-10) + `"b":1}`, "1:2: "},
		"the same field":   {strings.Repeat("a: 1\n", document.MaxSize/5), "4001:1: the mapping has more than"},
		"items":            {"escalate:\n" + strings.Repeat("- 1\n", document.MaxSize/5), "escalate"},
		"flow items":       {"escalate: [" + strings.Repeat("1,", document.MaxSize/3) + "]", "escalate"},
		"question marks":   {strings.Repeat("? a\n", document.MaxSize/4), "4001:1: the mapping has more than"},
	} {
		t.Run(name, func(t *testing.T) {
			_, err := rules.Parse([]byte(c.text), "")
			if err == nil || !strings.Contains(err.Error(), c.want) {
				t.Errorf("%.300v", err)
			}
		})
	}
}
