package replay

import "testing"

// A histogram has labels at its ends if its range has fewer than two round times.
func TestHistogramHasLabels(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		from, to    float64
		first, last string
	}{
		{2, 3, "2s", "3s"},
		{1, 86400, "1s", "1d"},
	} {
		h := &Histogram{Bins: []Bin{{From: c.from, To: c.to, Jobs: 1}}}
		labels := h.Chart("parcel-late", "").Labels
		if len(labels) < 2 || labels[0].Text != c.first || labels[len(labels)-1].Text != c.last {
			t.Errorf("from %v s to %v s: %+v", c.from, c.to, labels)
		}
	}
}

// The title of a bar names the durations that it counts: those below a second are in the first one, and a narrow bin has one.
func TestTitlesOfBars(t *testing.T) {
	t.Parallel()
	h := &Histogram{Bins: []Bin{{1, 1.2, 1}, {1.2, 1.4, 2}, {1.4, 3700, 1000}}, Steps: []StepTime{{Step: "late", At: 3600, Alerts: 1, Share: 0.001}}}
	c := h.Chart("parcel-late", "")
	for i, want := range []string{"up to 1s: 1 job", "about 1s: 2 jobs", "1s to 1h2m: 1,000 jobs"} {
		if got := c.Bars[i].Title; got != want {
			t.Errorf("bar %d is %q, want %q", i, got, want)
		}
	}
	if got := c.Steps[0].Text; got != "late, median 1h: 1 alert, 0.1 % of jobs" {
		t.Error(got)
	}
}
