package storetest

import (
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	futurejobs "deadman/future_jobs"
	"deadman/internal/store"
)

func loadsAddUp(t *testing.T, w *fixture) {
	at, rule, other := w.slot(), w.rule.ID, w.rule.ID+1
	for range 2 {
		w.must(w.AddLoads(w.ctx(), []futurejobs.SlotLoad{
			{At: at, RuleID: rule, PastLoad: futurejobs.PastLoad{Checks: 3, Alerts: 1, MaxLateness: 2 * time.Second, Ticks: 4, MissedTicks: 6, MaxTickLateness: 3 * time.Second}},
			{At: at, RuleID: other, PastLoad: futurejobs.PastLoad{Checks: 5, MaxLateness: time.Second, Ticks: 1, MaxTickLateness: 4 * time.Second}},
			{At: at.Add(time.Minute), RuleID: rule, PastLoad: futurejobs.PastLoad{Checks: 7, MaxLateness: 1500 * time.Microsecond}},
			{At: at.Add(5 * time.Minute), RuleID: rule, PastLoad: futurejobs.PastLoad{Checks: 11}},
		}))
	}
	w.must(w.AddLoads(w.ctx(), []futurejobs.SlotLoad{{At: at, RuleID: rule, PastLoad: futurejobs.PastLoad{MaxLateness: time.Second, MaxTickLateness: time.Second}}})) // latenesses that are not the largest
	for _, c := range []struct {
		until time.Time
		width time.Duration
		rule  int32
		want  []futurejobs.PastLoad
	}{
		{at.Add(2 * time.Minute), time.Minute, 0, []futurejobs.PastLoad{{Checks: 16, Alerts: 2, MaxLateness: 2 * time.Second, Ticks: 10, MissedTicks: 12, MaxTickLateness: 4 * time.Second}, {Checks: 14, MaxLateness: 1500 * time.Microsecond}}},
		{at.Add(2 * time.Minute), time.Minute, other, []futurejobs.PastLoad{{Checks: 10, MaxLateness: time.Second, Ticks: 2, MaxTickLateness: 4 * time.Second}, {}}},
		{at.Add(6 * time.Minute), 4 * time.Minute, rule, []futurejobs.PastLoad{{Checks: 20, Alerts: 2, MaxLateness: 2 * time.Second, Ticks: 8, MissedTicks: 12, MaxTickLateness: 3 * time.Second}, {Checks: 22}}},
		{at.Add(5 * time.Minute), 5 * time.Minute, 0, []futurejobs.PastLoad{{Checks: 30, Alerts: 2, MaxLateness: 2 * time.Second, Ticks: 10, MissedTicks: 12, MaxTickLateness: 4 * time.Second}}},
	} {
		got := must[[]futurejobs.PastLoad](t)(w.Worked(w.ctx(), futurejobs.BucketRange{From: at, Until: c.until, Width: c.width}, c.rule))
		if diff := cmp.Diff(c.want, got); diff != "" {
			t.Errorf("until %s in parts of %s, rule %d (-want +got):\n%s", c.until, c.width, c.rule, diff)
		}
	}
}

func plannedJobsAreCounted(t *testing.T, w *fixture) {
	other := w.save("payment-unconfirmed", "payment")
	at := w.slot()
	w.start(at.Add(-time.Minute), "before")
	w.start(at, "a", "b", "c")
	w.start(at.Add(90*time.Second), "d")
	w.start(at.Add(4*time.Minute), "after")
	w.applyManually(w.starting(other, "p", at.Add(2*time.Minute)))
	for _, c := range []struct {
		width time.Duration
		rule  int32
		want  []int64
	}{
		{time.Minute, 0, []int64{3, 1, 1, 0}},
		{3 * time.Minute, 0, []int64{5, 0}},
		{time.Minute, w.rule.ID, []int64{3, 1, 0, 0}},
		{time.Minute, other.ID, []int64{0, 0, 1, 0}},
	} {
		var got []int64
		span := futurejobs.BucketRange{From: at, Until: at.Add(4 * time.Minute), Width: c.width}
		for _, p := range must[[]futurejobs.PlannedLoad](t)(w.Planned(w.ctx(), span, c.rule)) {
			if p.More {
				t.Error("there may be more")
			}
			got = append(got, p.Jobs)
		}
		if diff := cmp.Diff(c.want, got); diff != "" {
			t.Errorf("in parts of %s, rule %d (-want +got):\n%s", c.width, c.rule, diff)
		}
	}
}

func loadsAreForgotten(t *testing.T, w *fixture) {
	now := must[time.Time](t)(w.Now(w.ctx())).Truncate(time.Minute)
	old, young := now.Add(-49*time.Hour), now.Add(-47*time.Hour)
	w.must(w.AddLoads(w.ctx(), []futurejobs.SlotLoad{{At: old, PastLoad: futurejobs.PastLoad{Checks: 1}}, {At: young, PastLoad: futurejobs.PastLoad{Checks: 1}}}))
	must[store.Pruned](t)(w.Prune(w.ctx(), store.Retention{}))
	span := futurejobs.BucketRange{From: old, Until: now, Width: time.Hour}
	for i, part := range must[[]futurejobs.PastLoad](t)(w.Worked(w.ctx(), span, 0)) {
		if kept := part.Checks == 1; kept != (i == 2) {
			t.Errorf("hour %d has %d", i, part.Checks)
		}
	}
}

// streamGapsMoveForward checks that gaps are recorded for each stream separately and never move back.
func streamGapsMoveForward(t *testing.T, w *fixture) {
	at := w.slot().Add(-2 * futurejobs.Day)
	received := func(topic string) time.Time {
		return must[map[string]futurejobs.StreamProgress](t)(w.ReadThrough(w.ctx()))[topic].ReceivingSince
	}
	if !received("").IsZero() || !received("ORDERS").IsZero() {
		t.Error("a new database has a gap")
	}
	w.must(w.RecordGap(w.ctx(), "ORDERS", at))
	w.must(w.RecordGap(w.ctx(), "ORDERS", at.Add(-time.Hour)))
	w.must(w.MarkRead(w.ctx(), "ORDERS", 7, at.Add(time.Minute)))
	if got := received("ORDERS"); !got.Equal(at) || !cursor(w, "ORDERS").ReceivingSince.Equal(at) {
		t.Errorf("ReceivingSince of the stream is %s, want %s", got, at)
	}
	if !received("").IsZero() {
		t.Error("the gap of a stream changed that of pings")
	}
	w.must(w.RecordGap(w.ctx(), "", at.Add(time.Second)))
	if got := received(""); !got.Equal(at.Add(time.Second)) {
		t.Errorf("ReceivingSince of pings is %s", got)
	}
}

func otherNodesAreListed(t *testing.T, w *fixture) {
	seen := func(since time.Time) bool { return must[bool](t)(w.OtherNodeAlive(w.ctx(), thisNode, since)) }
	before := must[time.Time](t)(w.Now(w.ctx())).Add(-time.Second)
	beat := func(node string) {
		must[[]futurejobs.Node](t)(w.Heartbeat(w.ctx(), futurejobs.Node{ID: node, Name: node, StartedAt: before}, time.Minute))
	}
	beat(thisNode)
	if seen(before) {
		t.Error("OtherNodeAlive reports the calling node")
	}
	beat("other")
	if !seen(before) {
		t.Error("OtherNodeAlive does not report a live node")
	}
	if seen(must[time.Time](t)(w.Now(w.ctx())).Add(time.Second)) {
		t.Error("OtherNodeAlive reports a node whose heartbeat is too old")
	}
	w.must(w.Leave(w.ctx(), "other"))
	if seen(before) {
		t.Error("OtherNodeAlive reports a node that left")
	}
}
