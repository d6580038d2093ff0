package rules_test

import (
	"fmt"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"deadman/rules"
)

// The ticks of a preview show each step once, regardless of its repetitions, and at the slot of its check: at the tick
// itself no job is pending yet.
func TestPreviewOfTicks(t *testing.T) {
	p, err := (&rules.Registry{}).Preview(t.Context(), rules.PreviewRequest{
		Text: []byte(`name: import-missing
entity: import
trigger: {schedule: "30 1 * * *", zone: Europe/Berlin, keys: [customers]}
resolve: {event: imports.finished, key: event.source}
escalate:
  - {at: "01:30", step: now}
  - {at: "06:00", step: late}
  - {every: 30m, times: 2, step: later}
  - {every: 30m, until: acknowledged, step: nag}
`), Events: []rules.PreviewEvent{{At: clockTime(12, 0)}},
	})
	if err != nil {
		t.Fatal(err)
	}
	var got []string
	for _, tick := range p.Ticks[:1] {
		for _, s := range tick.Steps {
			got = append(got, fmt.Sprint(s.Step, " ", s.At.Format("15:04")))
		}
	}
	if diff := cmp.Diff([]string{"now 00:31", "late 05:00", "later 05:30", "nag 06:30"}, got); diff != "" {
		t.Errorf("steps after the next tick (-want +got):\n%s", strings.TrimSpace(diff))
	}
}
