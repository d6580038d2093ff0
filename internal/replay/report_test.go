package replay_test

import (
	"bytes"
	"regexp"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"deadman/internal/replay"
)

// The report has the alerts over time and the steps of each rule, needs no other file, and is the same for the same input.
func TestReport(t *testing.T) {
	report := func() string {
		r := replayOf(t, oneStep, nil, time.Time{})
		s := play(t, r, replay.NewSorted(replay.NewJSONLines(bytes.NewReader(orderLines(500))), time.Minute))
		var b bytes.Buffer
		if err := s.WriteReport(&b); err != nil {
			t.Fatal(err)
		}
		return b.String()
	}
	got := report()
	for _, want := range []string{
		"<h1>50 alerts of 1,000 events</h1>", "order-unshipped<td>500<td>450<td>50<td>0<td>0<td>1h<td>4h<td>4h",
		"500 of 500 jobs were resolved, 450 of them before the first step.", "late, median 3h: 50 alerts, 10.0 % of jobs",
		"<title>day from 2026-01-01: 50 warning</title>", ": 450 jobs</title>",
	} {
		if !strings.Contains(got, want) {
			t.Errorf("the report does not contain %s", want)
		}
	}
	if outside := regexp.MustCompile(`(?i)(src|href)=|url\(|@import|http`).FindString(got); outside != "" {
		t.Errorf("the report needs another file: %s", outside)
	}
	if diff := cmp.Diff(got, report()); diff != "" {
		t.Error(diff)
	}
}

// A report without a resolved job and without an alert has no chart.
func TestReportWithoutAlerts(t *testing.T) {
	_, s := played(t, oneStep, `{"subject": "orders.created", "time": "2026-03-02T10:00:00Z", "data": {"id": "1"}}`, start)
	var b bytes.Buffer
	if err := s.WriteReport(&b); err != nil {
		t.Fatal(err)
	}
	if got := b.String(); strings.Contains(got, "<figure>") || !strings.Contains(got, "0 of 1 jobs were resolved") || !strings.Contains(got, "<h1>0 alerts of 1 events</h1>") {
		t.Errorf("the report is\n%s", got)
	}
}
