package rules_test

import (
	"strings"
	"testing"
	"time"

	"deadman/rules"
)

// TestPreviewFoldsUndeterminedChecks checks that a check that fails for the same reason is shown a few times, and counted after.
func TestPreviewFoldsUndeterminedChecks(t *testing.T) {
	rule := compileRule(t, joinLines(`while: event.absent == "x"`, `escalate: [{after: 1h}]`))
	preview, err := rule.Preview(t.Context(), []rules.PreviewEvent{{At: tenOClock, Data: []byte(itBegins)}}, tenOClock.Add(9*time.Hour))
	if err != nil {
		t.Fatal(err)
	}
	var kinds []string
	for _, l := range preview.Lines {
		kinds = append(kinds, string(l.Kind))
	}
	if got := strings.Join(kinds, " "); got != "starts check check alert check check check check" {
		t.Fatalf("the lines are %s", got)
	}
	last := preview.Lines[len(preview.Lines)-1]
	if last.More < 10 || last.Last.Before(tenOClock.Add(8*time.Hour)) || !last.Next.After(last.Last) || last.Next.Sub(last.Last) > 15*time.Minute {
		t.Errorf("the last line stands for %d more, until %s, then %s", last.More, last.Last, last.Next)
	}

	preview, err = rule.Preview(t.Context(), []rules.PreviewEvent{{At: tenOClock, Data: []byte(itBegins)}}, time.Time{})
	if err != nil || preview.Reason != "the preview ends here: its last 1000 lines repeat" {
		t.Errorf("without an end: %s, %v", preview.Reason, err)
	}
}
