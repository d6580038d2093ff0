package storetest

import (
	"fmt"
	"slices"
	"testing"
	"time"

	"deadman/alerts"
	futurejobs "deadman/future_jobs"
)

func outboxTakesTurns(t *testing.T, w *world) {
	slot := w.slot()
	var keys []string
	for i := range 50 {
		keys = append(keys, fmt.Sprintf("k%02d", i))
	}
	w.start(slot, keys...)
	for round := range 3 {
		var decisions []futurejobs.Decision
		for _, j := range w.all() {
			decisions = append(decisions, w.later(j, slot.Add(time.Duration(round+1)*time.Minute)))
		}
		w.settle(decisions...)
	}
	waiting := w.unpublished()
	if !slices.IsSortedFunc(waiting, byShardAndID) {
		t.Error("not oldest first within a shard")
	}
	shards := shardsOf(waiting)
	if len(waiting) != 150 || len(shards) < 2 {
		t.Fatalf("%d alerts in %d shards", len(waiting), len(shards))
	}
	first := must[[]alerts.Alert](t)(w.Unpublished(w.ctx(), shards, len(shards), nil))
	if got := shardsOf(first); len(got) != len(shards) {
		t.Errorf("the first %d are of %d shards only", len(first), len(got))
	}
	alone := must[[]alerts.Alert](t)(w.Unpublished(w.ctx(), shards[:1], 2, nil))
	if len(alone) != 2 || !slices.Equal(shardsOf(alone), shards[:1]) {
		t.Errorf("of one shard: %v", alone)
	}
	if none := must[[]alerts.Alert](t)(w.Unpublished(w.ctx(), nil, 10, nil)); len(none) != 0 {
		t.Errorf("of no shard: %v", none)
	}
}

// Rules that are left out leave room for the others, however many of theirs come first.
func outboxLeavesOut(t *testing.T, w *world) {
	slot := w.slot()
	w.start(slot, "a", "b", "c")
	w.settle(w.later(w.one("a"), slot.Add(time.Minute)), w.later(w.one("b"), slot.Add(time.Minute)), w.later(w.one("c"), slot.Add(time.Minute)))
	r := alerts.Remark{Topic: "stream/X", Status: alerts.Firing, Severity: alerts.Error, Since: slot, Text: "it is said"}
	if _, said, err := w.Announce(w.ctx(), r); err != nil || !said {
		t.Fatal(said, err)
	}
	var shards []int16
	for i := range w.Shards() {
		shards = append(shards, int16(i))
	}
	rule := w.unpublished()[0].Rule
	if rule == alerts.OwnRule {
		rule = w.unpublished()[1].Rule
	}
	for name, c := range map[string]struct {
		without []string
		want    int
	}{
		"nothing": {nil, 4}, "a rule": {[]string{rule}, 1}, "the node's own": {[]string{alerts.OwnRule}, 3},
		"both": {[]string{rule, alerts.OwnRule}, 0}, "one that is not there": {[]string{`no\such\x00rule`}, 4},
	} {
		got := must[[]alerts.Alert](t)(w.Unpublished(w.ctx(), shards, 10, c.without))
		if len(got) != c.want {
			t.Errorf("without %s: %d alerts, want %d", name, len(got), c.want)
		}
	}
	if got := must[[]alerts.Alert](t)(w.Unpublished(w.ctx(), shards, 1, []string{rule})); len(got) != 1 || got[0].Rule != alerts.OwnRule {
		t.Errorf("the one that there is room for: %v", got)
	}
}

func byShardAndID(a, b alerts.Alert) int {
	if a.Shard != b.Shard {
		return int(a.Shard) - int(b.Shard)
	}
	return slices.Compare(a.ID[:], b.ID[:])
}

func shardsOf(said []alerts.Alert) []int16 {
	var shards []int16
	for _, a := range said {
		shards = append(shards, a.Shard)
	}
	slices.Sort(shards)
	return slices.Compact(shards)
}

func outboxForgets(t *testing.T, w *world) {
	w.start(w.slot(), "a", "b")
	w.settle(w.over(w.one("a")), w.over(w.one("b")))
	waiting := w.unpublished()
	for range 2 { // it may be called again
		w.must(w.MarkPublished(w.ctx(), waiting[:1]))
	}
	if left := w.unpublished(); len(left) != 1 || left[0].ID != waiting[1].ID {
		t.Errorf("left: %v", left)
	}
	for i, want := range []bool{true, false} {
		got := must[futurejobs.Said](t)(w.Alert(w.ctx(), waiting[i].ID))
		if got.Published != want {
			t.Errorf("alert %d published: %v, want %v", i, got.Published, want)
		}
	}
	w.must(w.MarkPublished(w.ctx(), nil))
}
