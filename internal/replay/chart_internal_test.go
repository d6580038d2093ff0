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
