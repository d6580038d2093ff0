package store

import (
	"slices"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"deadman/alerts"
)

// TestRowsThatArePutBackAreSorted checks that the ids of a row are sorted, since marking compares rows with sorted ids:
// no decision of a row has a lesser id than the one before.
func TestRowsThatArePutBackAreSorted(t *testing.T) {
	var all []decided
	begin := time.Unix(0, 0)
	for i := range 2*rowMost + 10 {
		d := decided{at: begin.Add(time.Duration(i) * time.Second), id: alerts.ID{0: byte(i), 1: 1}}
		if i%50 == 40 {
			d.id = alerts.ID{} // decided about an old slot
		}
		all = append(all, d)
	}
	var got, want []alerts.ID
	for _, d := range all {
		want = append(want, d.id)
	}
	before := begin.Add(-time.Second)
	for _, r := range rowsInOrder(7, all) {
		if !slices.IsSortedFunc(r.ids, alertOrder) || len(r.ids) > rowMost || r.ids[0] != r.place.First || r.shard != 7 || !r.place.At.After(before) {
			t.Errorf("a row of %d ids at %s", len(r.ids), r.place.At)
		}
		before, got = r.place.At, append(got, r.ids...)
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
}
