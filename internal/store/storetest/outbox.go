package storetest

import (
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"golang.org/x/sync/errgroup"

	"deadman/alerts"
	futurejobs "deadman/future_jobs"
	"deadman/internal/store"
)

func outboxAlternatesShards(t *testing.T, w *fixture) {
	slot := w.slot()
	var keys []string
	for i := range 50 {
		keys = append(keys, fmt.Sprintf("k%02d", i))
	}
	w.start(slot, keys...)
	for round := range 3 {
		var decisions []futurejobs.Decision
		for _, j := range w.all() {
			decisions = append(decisions, w.reschedule(j, slot.Add(time.Duration(round+1)*time.Minute)))
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
	first := must[[]alerts.Alert](t)(batchOf(w.Unpublished(w.ctx(), shards, len(shards), nil)))
	if got := shardsOf(first); len(got) != len(shards) {
		t.Errorf("the first %d are of %d shards only", len(first), len(got))
	}
	alone := must[[]alerts.Alert](t)(batchOf(w.Unpublished(w.ctx(), shards[:1], 2, nil)))
	if len(alone) != 2 || !slices.Equal(shardsOf(alone), shards[:1]) {
		t.Errorf("of one shard: %v", alone)
	}
	if none := must[[]alerts.Alert](t)(batchOf(w.Unpublished(w.ctx(), nil, 10, nil))); len(none) != 0 {
		t.Errorf("of no shard: %v", none)
	}
}

// outboxSkipsRules checks that excluded rules leave capacity for the others, even if many of their alerts come first.
func outboxSkipsRules(t *testing.T, w *fixture) {
	slot := w.slot()
	w.start(slot, "a", "b", "c")
	w.settle(w.reschedule(w.one("a"), slot.Add(time.Minute)), w.reschedule(w.one("b"), slot.Add(time.Minute)), w.reschedule(w.one("c"), slot.Add(time.Minute)))
	r := alerts.SystemAlert{Topic: "stream/X", Status: alerts.Firing, Severity: alerts.Error, Since: slot, Text: "it is said"}
	if _, written, err := w.WriteSystemAlert(w.ctx(), r); err != nil || !written {
		t.Fatal(written, err)
	}
	shards := allShards(w.Store)
	rule := w.unpublished()[0].Rule
	if rule == alerts.SystemRule {
		rule = w.unpublished()[1].Rule
	}
	for name, c := range map[string]struct {
		without []string
		want    int
	}{
		"nothing": {nil, 4}, "a rule": {[]string{rule}, 1}, "the node's own": {[]string{alerts.SystemRule}, 3},
		"both": {[]string{rule, alerts.SystemRule}, 0}, "one that is not there": {[]string{`no\such\x00rule`}, 4},
	} {
		got := must[[]alerts.Alert](t)(batchOf(w.Unpublished(w.ctx(), shards, 10, c.without)))
		if len(got) != c.want {
			t.Errorf("without %s: %d alerts, want %d", name, len(got), c.want)
		}
	}
	if got := must[[]alerts.Alert](t)(batchOf(w.Unpublished(w.ctx(), shards, 1, []string{rule}))); len(got) != 1 || got[0].Rule != alerts.SystemRule {
		t.Errorf("the one that there is room for: %v", got)
	}
}

func byShardAndID(a, b alerts.Alert) int {
	if a.Shard != b.Shard {
		return int(a.Shard) - int(b.Shard)
	}
	return slices.Compare(a.ID[:], b.ID[:])
}

func shardsOf(raised []alerts.Alert) []int16 {
	var shards []int16
	for _, a := range raised {
		shards = append(shards, a.Shard)
	}
	slices.Sort(shards)
	return slices.Compact(shards)
}

func outboxForgets(t *testing.T, w *fixture) {
	w.start(w.slot(), "a", "b")
	w.settle(w.exhausted(w.one("a")), w.exhausted(w.one("b")))
	waiting := w.unpublished()
	for range 2 { // repeated calls are allowed
		w.must(w.MarkPublished(w.ctx(), waiting[:1]))
	}
	if left := w.unpublished(); len(left) != 1 || left[0].ID != waiting[1].ID {
		t.Errorf("left: %v", left)
	}
	for i, want := range []bool{true, false} {
		got := must[futurejobs.ListedAlert](t)(w.Alert(w.ctx(), waiting[i].ID))
		if got.Published != want {
			t.Errorf("alert %d published: %v, want %v", i, got.Published, want)
		}
	}
	w.must(w.MarkPublished(w.ctx(), nil))
}

// neighbours returns n keys of one shard.
func neighbours(w *fixture, n int) (keys []string, shard int16) {
	for i := 0; len(keys) < n; i++ {
		key := fmt.Sprintf("n%05d", i)
		if len(keys) == 0 {
			shard = w.ref(w.rule, key).Shard
		}
		if w.ref(w.rule, key).Shard == shard {
			keys = append(keys, key)
		}
	}
	return keys, shard
}

// checkUnpublished checks that exactly these alerts are unpublished, and are counted.
func checkUnpublished(w *fixture, when string, want []alerts.Alert) {
	w.t.Helper()
	if diff := cmp.Diff(idsOf(want), idsOf(w.unpublished())); diff != "" {
		w.t.Errorf("%s there wait (-want +got):\n%s", when, diff)
	}
	if g := must[store.Gauges](w.t)(w.Gauges(w.ctx())); g.Unpublished != int64(len(want)) {
		w.t.Errorf("%s %d are counted, want %d", when, g.Unpublished, len(want))
	}
}

func idsOf(raised []alerts.Alert) (ids []alerts.ID) {
	for _, a := range raised {
		ids = append(ids, a.ID)
	}
	return ids
}

// outboxIsSentInParts checks that any part of a row can be sent: the unsent alerts stay, in order.
func outboxIsSentInParts(t *testing.T, w *fixture) {
	const some = 300 // more than fit into a row
	keys, shard := neighbours(w, some)
	since := publishedAlerts(w, keys...)
	left := w.unpublished()
	if len(left) != some || !slices.IsSortedFunc(left, byShardAndID) {
		t.Fatalf("%d alerts wait, want %d in order", len(left), some)
	}
	send := func(when string, sent func(i int) bool) {
		t.Helper()
		var out, stay []alerts.Alert
		for i, a := range left {
			if sent(i) {
				out = append(out, a)
			} else {
				stay = append(stay, a)
			}
		}
		slices.Reverse(out) // in any order
		for range 2 {
			w.must(w.MarkPublished(w.ctx(), out))
			checkUnpublished(w, when, stay)
		}
		left = stay
	}
	send("without the first 50,", func(i int) bool { return i < 50 })
	if n := must[int64](t)(w.Republishable(w.ctx(), futurejobs.Filter{After: since})); n != 50 {
		t.Errorf("%d were published and could be again, want 50", n)
	}
	send("without one of the middle,", func(i int) bool { return i == 30 })
	send("without every third,", func(i int) bool { return i%3 == 1 })
	send("without the last 40,", func(i int) bool { return i >= len(left)-40 })
	for len(left) > 0 {
		part := must[[]alerts.Alert](t)(batchOf(w.Unpublished(w.ctx(), []int16{shard}, 37, nil)))
		if diff := cmp.Diff(idsOf(left[:min(37, len(left))]), idsOf(part)); diff != "" {
			t.Fatalf("a part (-want +got):\n%s", diff)
		}
		send("part by part,", func(i int) bool { return i < len(part) })
	}
	if n, err := w.Republish(w.ctx(), futurejobs.Filter{After: since}); n != some || err != nil {
		t.Errorf("%d of %d are put back: %v", n, some, err)
	}
	if n := len(w.unpublished()); n != some {
		t.Errorf("%d wait again, want %d", n, some)
	}
}

// outboxIsMarkedLate checks that a node that marks all alerts that it read also removes those that another node left.
func outboxIsMarkedLate(_ *testing.T, w *fixture) {
	keys, _ := neighbours(w, 3)
	publishedAlerts(w, keys...)
	read := w.unpublished()
	w.must(w.MarkPublished(w.ctx(), read[1:2]))
	w.must(w.MarkPublished(w.ctx(), read))
	checkUnpublished(w, "after both,", nil)
}

// outboxIsMarkedByTwo checks that concurrent nodes remove the alerts that each of them sent, and no others.
func outboxIsMarkedByTwo(_ *testing.T, w *fixture) {
	const some, nodes = 400, 4
	keys, _ := neighbours(w, some)
	publishedAlerts(w, keys...)
	var left []alerts.Alert
	sent := make([][]alerts.Alert, nodes)
	for i, a := range w.unpublished() {
		if n := i % (nodes + 1); n < nodes {
			sent[n] = append(sent[n], a)
		} else {
			left = append(left, a)
		}
	}
	var group errgroup.Group
	for n := range nodes {
		group.Go(func() error {
			for part := range slices.Chunk(sent[n], 7) {
				if err := w.MarkPublished(w.ctx(), part); err != nil {
					return err
				}
			}
			return nil
		})
	}
	w.must(group.Wait())
	checkUnpublished(w, "after all,", left)
}

// outboxKeepsTheOrderOfDecisions checks that a later decision on a job is sent later, even if it is settled together
// with others for an earlier slot.
func outboxKeepsTheOrderOfDecisions(t *testing.T, w *fixture) {
	keys, shard := neighbours(w, 2)
	slot := w.slot()
	w.start(slot, keys[0])
	w.start(slot.Add(-time.Hour), keys[1]) // its check was undetermined
	first := w.reschedule(w.one(keys[0]), slot.Add(time.Minute))
	w.settle(first)
	second, other := w.reschedule(w.one(keys[0]), slot.Add(2*time.Minute)), w.exhausted(w.one(keys[1]))
	w.settle(second, other)
	for i, want := range []alerts.ID{first.Alerts[0].ID, other.Alerts[0].ID, second.Alerts[0].ID} {
		next := must[[]alerts.Alert](t)(batchOf(w.Unpublished(w.ctx(), []int16{shard}, 1, nil)))
		if len(next) != 1 || next[0].ID != want {
			t.Fatalf("alert %d: %v, want %s", i, next, want)
		}
		w.must(w.MarkPublished(w.ctx(), next))
	}
}

// queuesEndReadsAtBytes checks that alerts of many bytes end a read of the outbox and of the unrouted alerts before its
// limit, that the read says so, and that no shard waits for the others.
func queuesEndReadsAtBytes(t *testing.T, w *fixture) {
	const size, read = 250 << 10, 16 << 20
	w.must(w.Notify(w.ctx(), true))
	var keys []string
	for i := range 80 {
		keys = append(keys, fmt.Sprintf("k%02d", i))
	}
	w.start(w.slot(), keys...)
	for _, key := range keys {
		d := w.exhausted(w.one(key))
		d.Alerts[0].Text = strings.Repeat("x", size)
		w.settle(d)
	}
	checkReads := func(name string, next func() ([]alerts.Alert, bool, error), done func([]alerts.Alert) error) {
		t.Helper()
		total := 0
		for more, reads := true, 0; more; reads++ {
			var found []alerts.Alert
			var err error
			found, more, err = next()
			w.must(err)
			if want := read/size + 1; reads == 0 && (len(found) > want || len(found) < want-1 || !more || len(shardsOf(found)) < 2) {
				t.Errorf("%s: the first read returns %d alerts in %d shards, more: %t", name, len(found), len(shardsOf(found)), more)
			}
			total += len(found)
			w.must(done(found))
		}
		if total != len(keys) {
			t.Errorf("%s: %d alerts are read, want each of %d once", name, total, len(keys))
		}
	}
	checkReads("unrouted", func() ([]alerts.Alert, bool, error) { return w.UnroutedAlerts(w.ctx(), 1000) },
		func(found []alerts.Alert) error {
			return w.ApplyPlan(w.ctx(), notifyPlan(alerts.Notification{PlannedAt: w.slot()}, found...))
		})
	checkReads("unpublished", func() ([]alerts.Alert, bool, error) { return w.Unpublished(w.ctx(), allShards(w.Store), 1000, nil) },
		func(found []alerts.Alert) error { return w.MarkPublished(w.ctx(), found) })
}
