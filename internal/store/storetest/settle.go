package storetest

import (
	"errors"
	"fmt"
	"slices"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"

	"deadman/alerts"
	futurejobs "deadman/future_jobs"
	"deadman/rules"
)

func settleReschedules(t *testing.T, w *fixture) {
	w.start(w.slot(), "a")
	before := w.one("a")
	picked := before.NextCheckAt.Add(time.Second)
	next := before.NextCheckAt.Add(5 * time.Minute)
	d := w.reschedule(before, next)
	d.Job.UndeterminedChecks = 2
	d.Job.Last = futurejobs.CheckTimes{PickedAt: picked, StartedAt: picked.Add(1), CompletedAt: picked.Add(7 * time.Microsecond)}
	d.Job.Last.StartedAt = picked.Add(time.Microsecond)
	d.Job.CheckStats = futurejobs.CheckStats{CheckAttempts: 3, CheckTotal: 1500 * time.Microsecond, CheckSlowest: time.Millisecond}
	d.Job.Event, d.Job.State = nil, []byte(`{"x":1}`) // a settle writes neither

	settled := w.settle(d)
	if !settled.Jobs[before.ID] || settled.Alerts != 1 || len(settled.Lost) != 0 {
		t.Fatalf("settled: %+v", settled)
	}
	want := d.Job
	want.Rev, want.Event, want.State = before.Rev+1, before.Event, before.State
	got := must[futurejobs.ListedJob](t)(w.Job(w.ctx(), w.rule.Name, "a")).Job
	got.Trail = ""
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("the job (-want +got):\n%s", diff)
	}
	want.Last = futurejobs.CheckTimes{} // the sweep does not need it
	if diff := cmp.Diff(want, w.one("a")); diff != "" {
		t.Errorf("the job that is due (-want +got):\n%s", diff)
	}
	if diff := cmp.Diff(d.Alerts, w.unpublished(), cmpopts.IgnoreFields(alerts.Alert{}, "Place")); diff != "" {
		t.Errorf("its alert (-want +got):\n%s", diff)
	}
}

// settleReschedulesTogether checks that jobs with the same next slot, and jobs with different ones, are rescheduled in
// one settlement.
func settleReschedulesTogether(t *testing.T, w *fixture) {
	w.start(w.slot(), "a", "b", "c")
	slot := w.one("a").NextCheckAt
	for _, next := range []map[string]time.Time{
		{"a": slot.Add(time.Second), "b": slot.Add(time.Second), "c": slot.Add(time.Second)},
		{"a": slot.Add(2 * time.Second), "b": slot.Add(2 * time.Second), "c": slot.Add(3 * time.Second)},
	} {
		var decisions []futurejobs.Decision
		for key, at := range next {
			j := must[futurejobs.ListedJob](t)(w.Job(w.ctx(), w.rule.Name, key)).Job
			decisions = append(decisions, w.reschedule(j, at))
		}
		if settled := w.settle(decisions...); len(settled.Jobs) != len(next) {
			t.Fatalf("settled: %+v", settled)
		}
		for key, at := range next {
			if got := must[futurejobs.ListedJob](t)(w.Job(w.ctx(), w.rule.Name, key)); !got.NextCheckAt.Equal(at) {
				t.Errorf("the next check of %s is at %s, want %s", key, got.NextCheckAt, at)
			}
		}
	}
}

func settleEnds(t *testing.T, w *fixture) {
	w.start(w.slot(), "a", "b")
	job := w.one("a")
	d := w.exhausted(job)
	d.Job.Last = futurejobs.CheckTimes{PickedAt: job.NextCheckAt, StartedAt: job.NextCheckAt.Add(time.Millisecond), FailedAt: job.NextCheckAt.Add(time.Second)}
	d.Job.CheckStats = futurejobs.CheckStats{CheckAttempts: 1, CheckTotal: time.Second, CheckSlowest: time.Second}
	from := must[time.Time](t)(w.Now(w.ctx()))
	settled := w.settle(d)
	if !settled.Jobs[job.ID] || settled.Alerts != 1 {
		t.Fatalf("settled: %+v", settled)
	}
	if jobs := w.all(); len(jobs) != 1 || jobs[0].Key != "b" {
		t.Errorf("pending: %v, want b alone", jobs)
	}
	history := w.ended()
	if len(history) != 1 {
		t.Fatalf("%d rows of history, want 1", len(history))
	}
	got := history[0]
	if got.EndedAt.Before(from) {
		t.Errorf("ended at %s, before it was settled at %s", got.EndedAt, from)
	}
	want := futurejobs.EndedJob{
		ListedJob: futurejobs.ListedJob{Job: d.Job, Rule: w.rule.Name, Entity: w.rule.Entity},
		Outcome:   "exhausted", Reason: "the last step was taken", EndedAt: got.EndedAt,
	}
	want.Event, want.State, want.Rev = nil, nil, 0 // history has the events of a job, not its bodies
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("history (-want +got):\n%s", diff)
	}
}

// settleRaisesAlerts checks that alerts keep their instants, with equal ones and different ones in a batch.
func settleRaisesAlerts(t *testing.T, w *fixture) {
	w.start(w.slot(), "a", "b", "c", "d", "e", "f", "g", "h")
	checked := func(d futurejobs.Decision) futurejobs.Decision {
		d.Job.Last.CompletedAt = d.Alerts[0].DecidedAt
		return d
	}
	end := func(key string) futurejobs.Decision { return w.exhausted(w.one(key)) }
	move := func(key string) futurejobs.Decision {
		j := w.one(key)
		return w.reschedule(j, j.NextCheckAt.Add(time.Hour))
	}
	var want []alerts.Alert
	for _, batch := range [][]futurejobs.Decision{
		{checked(end("a"))},
		{checked(move("b"))},
		{checked(end("c")), checked(move("d"))},
		{checked(end("e")), end("f")},
		{move("g"), checked(move("h"))},
	} {
		if settled := w.settle(batch...); settled.Alerts != len(batch) {
			t.Fatalf("%d alerts of %d", settled.Alerts, len(batch))
		}
		for _, d := range batch {
			want = append(want, d.Alerts...)
		}
	}
	byKey := cmpopts.SortSlices(func(a, b alerts.Alert) bool { return a.Key < b.Key })
	if diff := cmp.Diff(want, w.unpublished(), byKey, cmpopts.IgnoreFields(alerts.Alert{}, "Place")); diff != "" {
		t.Errorf("alerts (-want +got):\n%s", diff)
	}
}

func settleSkipsChangedJob(t *testing.T, w *fixture) {
	w.start(w.slot(), "a", "b")
	a, b := w.one("a"), w.one("b")
	w.settle(w.reschedule(a, a.NextCheckAt.Add(time.Minute)))
	unpublished := len(w.unpublished())
	settled := w.settle(w.exhausted(a), w.exhausted(b)) // a has changed since it was read
	if settled.Jobs[a.ID] || !settled.Jobs[b.ID] || settled.Alerts != 1 {
		t.Errorf("settled %+v, want b alone", settled)
	}
	if n := len(w.unpublished()) - unpublished; n != 1 {
		t.Errorf("%d new alerts, want 1", n)
	}
	if moved := w.settle(w.reschedule(a, a.NextCheckAt.Add(time.Hour))); len(moved.Jobs) != 0 || moved.Alerts != 0 || len(w.unpublished())-unpublished != 1 {
		t.Errorf("what had moved was moved again: %+v", moved)
	}
	if again := w.settle(w.exhausted(b)); len(again.Jobs) != 0 || again.Alerts != 0 {
		t.Errorf("what ended was settled again: %+v", again)
	}
	if n := len(w.ended()); n != 1 {
		t.Errorf("%d rows of history, want 1", n)
	}
}

// settleRefusesInvalidAlerts checks that a settle that cannot be encoded changes nothing and has no effect on the
// next one.
func settleRefusesInvalidAlerts(t *testing.T, w *fixture) {
	w.start(w.slot(), "a", "b", "c")
	a, b, c := w.exhausted(w.one("a")), w.exhausted(w.one("b")), w.exhausted(w.one("c"))
	invalid := b
	invalid.Alerts = slices.Clone(b.Alerts)
	invalid.Alerts[0].Slot = time.Date(10000, 1, 1, 0, 0, 0, 0, time.UTC) // RFC 3339 ends before
	settled, err := w.Settle(w.ctx(), w.settlement(a, invalid, c))
	if err == nil || len(settled.Jobs) != 0 {
		t.Fatalf("settled %+v, error %v: want an error alone", settled, err)
	}
	if waiting, raised := w.all(), w.unpublished(); len(waiting) != 3 || len(raised) != 0 {
		t.Errorf("%d jobs wait and %d alerts were raised after that, want 3 and none", len(waiting), len(raised))
	}
	if settled := w.settle(b); !cmp.Equal(settled.Jobs, map[int64]bool{b.Job.ID: true}) || settled.Alerts != 1 {
		t.Errorf("settled %+v after that, want b alone", settled)
	}
	if raised := w.unpublished(); len(raised) != 1 {
		t.Errorf("%d alerts were raised, want that of b", len(raised))
	}
}

func settleRefusesStaleEpoch(t *testing.T, w *fixture) {
	w.start(w.slot(), "a", "b", "c", "d", "e")
	a := w.one("a")
	w.must(w.Release(w.ctx(), thisNode, []futurejobs.Lease{{HeldShard: w.held[a.Shard]}}))
	if _, ok, err := w.Take(w.ctx(), "other", w.held[a.Shard], time.Hour); err != nil || !ok {
		t.Fatalf("take: %v, %v", ok, err)
	}
	checkSettledExcept(w, a.Shard)
}

func settleRefusesExpiredLease(t *testing.T, w *fixture) {
	w.start(w.slot(), "a", "b", "c", "d", "e")
	a := w.one("a")
	w.must(w.Release(w.ctx(), thisNode, []futurejobs.Lease{{HeldShard: w.held[a.Shard]}}))
	got, ok, err := w.Take(w.ctx(), thisNode, w.held[a.Shard], -time.Second)
	if err != nil || !ok {
		t.Fatalf("take: %v, %v", ok, err)
	}
	w.held[a.Shard] = got.HeldShard
	checkSettledExcept(w, a.Shard)
}

// checkSettledExcept ends and moves jobs, and checks that those of one shard are unchanged.
func checkSettledExcept(w *fixture, shard int16) {
	w.t.Helper()
	var decisions []futurejobs.Decision
	want := make(map[int64]bool)
	for i, j := range w.all() {
		d := w.exhausted(j)
		if i%2 == 0 {
			d = w.reschedule(j, j.NextCheckAt.Add(time.Minute))
		}
		decisions = append(decisions, d)
		if j.Shard != shard {
			want[j.ID] = true
		}
	}
	settled := w.settle(decisions...)
	if diff := cmp.Diff(want, settled.Jobs); diff != "" {
		w.t.Errorf("settled (-want +got):\n%s", diff)
	}
	if !slices.Equal(settled.Lost, []int16{shard}) {
		w.t.Errorf("lost %v, want %d", settled.Lost, shard)
	}
	if settled.Alerts != len(want) || len(w.unpublished()) != len(want) {
		w.t.Errorf("%d alerts reported as written, %d are there, want %d", settled.Alerts, len(w.unpublished()), len(want))
	}
}

// settleSucceedsDuringRuleSaves checks that a settle depends only on the rules of its decisions, and only on changes
// that affect those.
func settleSucceedsDuringRuleSaves(t *testing.T, w *fixture) {
	w.start(w.slot(), "a", "b")
	set := w.set
	settle := func(key string) (futurejobs.Settled, error) {
		st := w.settlement(w.exhausted(w.one(key)))
		st.RuleSet = set
		return w.Settle(w.ctx(), st)
	}
	w.save("order-unpaid", "order") // another rule
	w.save(w.rule.Name, "order")    // another version of the same one
	w.must(w.Pause(w.ctx(), w.rule.Name, true))
	if settled := must[futurejobs.Settled](t)(settle("a")); len(settled.Jobs) != 1 || settled.Alerts != 1 || len(settled.ChangedRules) != 0 {
		t.Errorf("settled %+v", settled)
	}

	// A version that resolves jobs from another stream: the decision did not consider its events.
	_, err := w.Save(w.ctx(), rules.RuleVersion{
		Name: w.rule.Name, Entity: "order", Document: []byte(`{"resolve":[{"event":"orders.shipped"}]}`),
		Reads: []rules.StreamBinding{{Subject: "orders.shipped", Stream: "SHIPPING"}},
	}, rules.AnyVersion)
	w.must(err)
	if _, err := settle("b"); !errors.Is(err, futurejobs.ErrRulesChanged) {
		t.Fatalf("settle: %v, want ErrRulesChanged", err)
	}
	if len(w.all()) != 1 || len(w.unpublished()) != 1 || len(w.ended()) != 1 {
		t.Error("something was written")
	}
	set = must[int64](t)(w.Revision(w.ctx()))
	must[futurejobs.Settled](t)(settle("b"))
}

// olderNodesFenceAllRules checks that the revision of all rules is the fence while a node of schema 16 runs. A
// single-process store has no other nodes.
func olderNodesFenceAllRules(t *testing.T, w *fixture) {
	w.start(w.slot(), "a", "b")
	must[[]futurejobs.Node](t)(w.Heartbeat(w.ctx(), futurejobs.Node{ID: "older", StartedAt: w.slot(), Schema: 16}, time.Hour))
	set, st, met := w.set, w.settlement(w.exhausted(w.one("a"))), outageHit(w, w.rule, 1)
	b := futurejobs.EffectBatch{RuleSet: set, Effects: []futurejobs.Effect{w.ending(w.rule, "b")}}
	w.save("other", "order")
	var want error
	if !w.SingleProcess() {
		want = futurejobs.ErrRulesChanged
	}
	if _, err := w.RecordOutage(w.ctx(), met); !errors.Is(err, want) {
		t.Errorf("meet: %v, want %v", err, want)
	}
	if _, err := w.Settle(w.ctx(), st); !errors.Is(err, want) {
		t.Errorf("settle: %v, want %v", err, want)
	}
	if _, err := w.Apply(w.ctx(), b); !errors.Is(err, want) {
		t.Errorf("apply: %v, want %v", err, want)
	}
	w.must(w.Leave(w.ctx(), "older"))
	must[[]alerts.Alert](t)(w.RecordOutage(w.ctx(), met))
	if want != nil {
		must[futurejobs.Settled](t)(w.Settle(w.ctx(), st))
		must[futurejobs.ApplyResult](t)(w.Apply(w.ctx(), b))
	}
	if len(w.all()) != 0 {
		t.Errorf("%d jobs are left", len(w.all()))
	}
}

// settleSkipsMovedRules checks that exactly the decisions on changed rules are left out of a batch.
func settleSkipsMovedRules(t *testing.T, w *fixture) {
	other := w.save("order-unpaid", "order")
	w.start(w.slot(), "a", "b")
	w.applyManually(w.starting(other, "a", w.slot()))
	var decisions []futurejobs.Decision
	for _, j := range w.all() {
		decisions = append(decisions, w.exhausted(j))
	}
	st := w.settlement(decisions...)
	must[int32](t)(w.Delete(w.ctx(), other.Name, rules.AnyVersion))
	settled := must[futurejobs.Settled](t)(w.Settle(w.ctx(), st))
	if len(settled.Jobs) != 2 || settled.Alerts != 2 || !slices.Equal(settled.ChangedRules, []int32{other.ID}) || len(settled.Lost) != 0 {
		t.Errorf("settled %+v, want two, and rule %d moved", settled, other.ID)
	}
	for _, a := range w.unpublished() {
		if a.RuleID != w.rule.ID {
			t.Errorf("an alert of a deleted rule: %+v", a)
		}
	}
	if left := w.all(); len(left) != 1 || left[0].RuleID != other.ID {
		t.Errorf("left %+v, want the job of the deleted rule", left)
	}
}

func settleMany(t *testing.T, w *fixture) {
	const n = 2000
	keys := make([]string, n)
	for i := range keys {
		keys[i] = fmt.Sprintf("k%04d", i)
	}
	w.start(w.slot(), keys...)
	jobs := w.all()
	decisions := make([]futurejobs.Decision, n)
	for i, j := range jobs {
		decisions[i] = w.exhausted(j)
		if i%2 == 0 {
			decisions[i] = w.reschedule(j, j.NextCheckAt.Add(time.Minute))
		}
	}
	slices.Reverse(decisions)
	settled := w.settle(decisions...)
	if len(settled.Jobs) != n || settled.Alerts != n {
		t.Errorf("settled %d with %d alerts, want %d", len(settled.Jobs), settled.Alerts, n)
	}
	if len(w.all()) != n/2 || len(w.ended()) != n/2 || len(w.unpublished()) != n {
		t.Errorf("%d pending, %d ended, %d alerts", len(w.all()), len(w.ended()), len(w.unpublished()))
	}
}

func firstCheckNeverChanges(t *testing.T, w *fixture) {
	w.start(w.slot(), "a")
	first := w.one("a").FirstCheckAt
	for range 3 {
		j := w.one("a")
		d := w.reschedule(j, j.NextCheckAt.Add(time.Minute))
		d.Job.FirstCheckAt = first.Add(time.Hour)
		w.settle(d)
	}
	moved := w.starting(w.rule, "a", first.Add(time.Hour))
	if got := w.applyManually(moved); got.Kept != 1 {
		t.Fatalf("a second start was not kept out: %+v", got)
	}
	if got := w.one("a").FirstCheckAt; !got.Equal(first) {
		t.Errorf("pending: first check at %s, was %s", got, first)
	}
	d := w.exhausted(w.one("a"))
	d.Job.FirstCheckAt = first.Add(time.Hour)
	w.settle(d)
	if got := w.ended()[0].FirstCheckAt; !got.Equal(first) {
		t.Errorf("in history: first check at %s, was %s", got, first)
	}
}

func timesAreExact(t *testing.T, w *fixture) {
	first := w.slot().Add(123456 * time.Microsecond)
	made := w.job(w.rule, "a", first)
	made.Since = time.Date(1969, 12, 31, 23, 59, 59, 999_999_000, time.UTC)
	w.applyManually(begins(w.rule, made))
	j := w.one("a")
	if !j.FirstCheckAt.Equal(first) || !j.NextCheckAt.Equal(first) || !j.Since.Equal(made.Since) {
		t.Errorf("first %s, next %s, since %s", j.FirstCheckAt, j.NextCheckAt, j.Since)
	}
	for _, at := range []time.Time{j.FirstCheckAt, j.CreatedAt, j.Since} {
		if at.Location() != time.UTC {
			t.Errorf("%s is not in UTC", at)
		}
	}
	d := w.exhausted(j)
	d.Alerts[0].DecidedAt = first.Add(time.Microsecond)
	w.settle(d)
	if got := w.unpublished()[0].DecidedAt; !got.Equal(d.Alerts[0].DecidedAt) {
		t.Errorf("decided at %s, want %s", got, d.Alerts[0].DecidedAt)
	}
	if got := w.ended()[0].Since; !got.Equal(made.Since) {
		t.Errorf("in history since %s, want %s", got, made.Since)
	}
}
