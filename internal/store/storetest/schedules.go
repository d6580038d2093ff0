package storetest

import (
	"errors"
	"fmt"
	"slices"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	futurejobs "deadman/future_jobs"
	"deadman/internal/access"
	"deadman/internal/store"
	"deadman/internal/testwait"
	"deadman/rules"
)

// scheduleFixture is a fixture for schedules of its rule, at a time of the database.
type scheduleFixture struct {
	*fixture
	now time.Time
}

func withSchedules(w *fixture) scheduleFixture {
	return scheduleFixture{w, must[time.Time](w.t)(w.Now(w.ctx())).Truncate(time.Second)}
}

// schedule returns a schedule of the fixture's rule in its first shard.
func (w scheduleFixture) schedule(id string, next time.Time) futurejobs.Schedule {
	return futurejobs.Schedule{RuleID: w.rule.ID, ID: id, Text: "@every 1h", Enabled: true, Shard: w.held[0].Shard, NextAt: next}
}

func (w scheduleFixture) put(all ...futurejobs.Schedule) futurejobs.ScheduleChanges {
	w.t.Helper()
	return must[futurejobs.ScheduleChanges](w.t)(w.PutSchedules(w.ctx(), all, nil))
}

// fenceOf returns the fence of ticks of the fixture's rule.
func (w scheduleFixture) fenceOf() futurejobs.TickFence {
	return futurejobs.TickFence{Held: w.held[:1], RuleID: w.rule.ID, Revision: must[int64](w.t)(w.Revision(w.ctx())), HoldFor: futurejobs.HoldTickFor}
}

func (w scheduleFixture) scheduleRef(id string) futurejobs.ScheduleRef {
	return futurejobs.ScheduleRef{RuleID: w.rule.ID, ID: id}
}

// schedulesOf returns the stored schedules by id, without the times of their changes.
func (w scheduleFixture) schedulesOf(prefix string) (all []futurejobs.Schedule) {
	w.t.Helper()
	f := futurejobs.ScheduleFilter{RuleID: w.rule.ID, Prefix: prefix, Limit: 2}
	for {
		page := must[futurejobs.Page[futurejobs.Schedule]](w.t)(w.Schedules(w.ctx(), f))
		for _, s := range page.Items {
			if s.CreatedAt.IsZero() || s.UpdatedAt.Before(s.CreatedAt) {
				w.t.Errorf("%s was created at %v and updated at %v", s.ID, s.CreatedAt, s.UpdatedAt)
			}
			s.CreatedAt, s.UpdatedAt = time.Time{}, time.Time{}
			all = append(all, s)
		}
		if f.Cursor = page.Next; f.Cursor == "" {
			return all
		}
	}
}

// schedulesAreChanged checks that schedules are created, replaced and deleted in one call, and listed by id.
func schedulesAreChanged(t *testing.T, f *fixture) {
	w := withSchedules(f)
	at := w.now.Add(time.Hour)
	a, b, c := w.schedule("a-1", at), w.schedule("a-2", time.Time{}), w.schedule("b", at)
	b.Enabled, b.Data, b.Zone = false, []byte(`{"n": 1}`), "Europe/Berlin"
	if got := w.put(a, b, c); got != (futurejobs.ScheduleChanges{Created: 3}) {
		t.Errorf("created: %+v", got)
	}
	version := func(s futurejobs.Schedule, n int64) futurejobs.Schedule { s.Version = n; return s }
	if diff := cmp.Diff([]futurejobs.Schedule{version(a, 1), version(b, 1), version(c, 1)}, w.schedulesOf("")); diff != "" {
		t.Errorf("schedules (-want +got):\n%s", diff)
	}
	later := at.Add(time.Hour)
	changed, other := c, a
	changed.Text, changed.NextAt = "@every 2h", later
	other.Data, other.NextAt = []byte(`{}`), later // its ticks are as before
	got := must[futurejobs.ScheduleChanges](t)(w.PutSchedules(w.ctx(), []futurejobs.Schedule{changed, other, b}, []futurejobs.ScheduleRef{w.scheduleRef("b-2")}))
	if got != (futurejobs.ScheduleChanges{Updated: 2, Unchanged: 1, Unknown: 1}) {
		t.Errorf("changed: %+v", got)
	}
	other.NextAt = at
	if diff := cmp.Diff([]futurejobs.Schedule{version(other, 2), version(b, 1)}, w.schedulesOf("a-")); diff != "" {
		t.Errorf("schedules with a prefix (-want +got):\n%s", diff)
	}
	if got := must[futurejobs.ScheduleChanges](t)(w.PutSchedules(w.ctx(), nil, []futurejobs.ScheduleRef{w.scheduleRef("a-1"), w.scheduleRef("a-2")})); got.Deleted != 2 {
		t.Errorf("deleted: %+v", got)
	}
	if s := must[futurejobs.Schedule](t)(w.Schedule(w.ctx(), w.scheduleRef("b"))); s.Version != 2 || s.Text != "@every 2h" || !s.NextAt.Equal(later) {
		t.Errorf("the changed schedule: %+v", s)
	}
	if _, err := w.Schedule(w.ctx(), w.scheduleRef("a-1")); !errors.Is(err, futurejobs.ErrNotFound) {
		t.Errorf("a deleted schedule: %v, want ErrNotFound", err)
	}
	entries, _, err := w.Audit(w.ctx(), access.AuditFilter{Action: string(access.ScheduleChange)})
	w.must(err)
	var details []string
	for _, e := range slices.Backward(entries) {
		details = append(details, e.Object+": "+e.Detail)
	}
	object := "schedules/" + w.rule.Name + ": "
	if diff := cmp.Diff([]string{object + "created 3, updated 0, deleted 0", object + "created 0, updated 2, deleted 0", object + "created 0, updated 0, deleted 2"}, details); diff != "" {
		t.Errorf("audit (-want +got):\n%s", diff)
	}
}

// scheduleRequestIsMadeOnce checks that the changes of a request with an idempotency key and its outcome are one transaction: a
// repetition after a lost answer returns the first result, and does not undo later changes.
func scheduleRequestIsMadeOnce(t *testing.T, f *fixture) {
	w := withSchedules(f)
	once := access.WithOnce(w.ctx(), "k")
	a := w.schedule("a", w.now.Add(time.Hour))
	if _, err := w.PutSchedules(once, []futurejobs.Schedule{a}, nil); !errors.Is(err, access.ErrRunning) || len(w.schedulesOf("")) != 0 {
		t.Errorf("without its claim: %v, %v; want ErrRunning and no schedule", err, w.schedulesOf(""))
	}
	begin := func() {
		t.Helper()
		if reply, err := w.Begin(w.ctx(), "k", [32]byte{1}); reply != nil || err != nil {
			t.Fatalf("begin: %v, %v", reply, err)
		}
	}
	begin()
	want := futurejobs.ScheduleChanges{Created: 1, Unknown: 1}
	put := func() {
		t.Helper()
		if got := must[futurejobs.ScheduleChanges](t)(w.PutSchedules(once, []futurejobs.Schedule{a}, []futurejobs.ScheduleRef{w.scheduleRef("b")})); got != want {
			t.Errorf("%+v, want %+v", got, want)
		}
	}
	put()
	w.must(w.Forget(w.ctx(), "k")) // its answer was lost
	changed := a
	changed.Text = "@daily"
	w.put(changed)
	begin()
	put()
	if s := must[futurejobs.Schedule](t)(w.Schedule(w.ctx(), w.scheduleRef("a"))); s.Text != "@daily" || s.Version != 2 {
		t.Errorf("the repetition has undone a later change: %+v", s)
	}
}

// decide decides the due ticks of the fixture's schedules, as planned, and moves them by an hour.
func (w scheduleFixture) decide(now time.Time) ([]futurejobs.PlannedTick, error) {
	w.t.Helper()
	var decided []futurejobs.DecidedTick
	for _, s := range must[[]futurejobs.Schedule](w.t)(w.DueSchedules(w.ctx(), w.fenceOf(), now, 100)) {
		decided = append(decided, futurejobs.DecidedTick{Schedule: s, At: s.NextAt, Missed: 2, Outcome: futurejobs.TickPlanned, Next: s.NextAt.Add(24 * time.Hour)})
	}
	return w.DecideTicks(w.ctx(), w.fenceOf(), decided)
}

func (w scheduleFixture) ticksOf(id string, f futurejobs.TickFilter) (all []string) {
	w.t.Helper()
	f.Limit = 1
	for {
		page := must[futurejobs.Page[futurejobs.ScheduleTick]](w.t)(w.ScheduleTicks(w.ctx(), w.scheduleRef(id), f))
		for _, tick := range page.Items {
			if tick.EmittedAt.IsZero() == (tick.Outcome == futurejobs.TickEmitted) || tick.DecidedAt.IsZero() {
				w.t.Errorf("a tick with outcome %s was decided at %v and emitted at %v", tick.Outcome, tick.DecidedAt, tick.EmittedAt)
			}
			all = append(all, fmt.Sprintf("%s %s missed %d attempts %d", tick.At.Sub(w.now), tick.Outcome, tick.Missed, tick.Attempts))
		}
		if f.Cursor = page.Next; f.Cursor == "" {
			return all
		}
	}
}

// scheduleTicksAreDecidedOnce checks that a due tick is decided once, by a node that holds its shard and knows its rule, and
// published until a stream has its event.
func scheduleTicksAreDecidedOnce(t *testing.T, f *fixture) {
	w := withSchedules(f)
	at := w.now.Add(-30 * time.Second)
	s := w.schedule("a", at)
	s.Data = []byte(`{"n": 1}`)
	w.put(s, w.schedule("b", at.Add(-time.Second)), w.schedule("later", w.now.Add(24*time.Hour)))
	of := futurejobs.RuleShard{RuleID: w.rule.ID, Shard: w.held[0].Shard}
	now := w.now
	all := []futurejobs.RuleShard{{RuleID: w.rule.ID, Shard: w.held[1].Shard}, of, {RuleID: 9999, Shard: of.Shard}}
	due := func() []futurejobs.DueRuleShard {
		return must[[]futurejobs.DueRuleShard](t)(w.DueRuleShards(w.ctx(), all, now))
	}
	if diff := cmp.Diff([]futurejobs.DueRuleShard{{RuleShard: of}}, due()); diff != "" {
		t.Errorf("due (-want +got):\n%s", diff)
	}
	found := must[[]futurejobs.Schedule](t)(w.DueSchedules(w.ctx(), w.fenceOf(), now, 1))
	if len(found) != 1 || found[0].ID != "b" {
		t.Errorf("the first due schedule: %+v", found)
	}
	for want, fence := range map[error]futurejobs.TickFence{
		futurejobs.ErrNotHeld:      {Held: []futurejobs.HeldShard{w.held[0], {Shard: w.held[1].Shard, Epoch: w.held[1].Epoch - 1}}, RuleID: w.rule.ID, Revision: w.fenceOf().Revision},
		futurejobs.ErrRulesChanged: {Held: w.held[:1], RuleID: w.rule.ID, Revision: w.fenceOf().Revision - 1},
	} {
		if _, err := w.DecideTicks(w.ctx(), fence, nil); !errors.Is(err, want) {
			t.Errorf("behind a fence: %v, want %v", err, want)
		}
	}
	planned := must[[]futurejobs.PlannedTick](t)(w.decide(now))
	if len(planned) != 2 || string(planned[1].Data) != `{"n": 1}` || planned[1].ID != "a" || planned[0].MayBeStored() {
		t.Fatalf("planned: %+v", planned)
	}
	again := futurejobs.DecidedTick{Schedule: found[0], At: found[0].NextAt, Outcome: futurejobs.TickPlanned}
	if more := must[[]futurejobs.PlannedTick](t)(w.DecideTicks(w.ctx(), w.fenceOf(), []futurejobs.DecidedTick{again})); len(more) != 0 {
		t.Errorf("decided twice: %+v", more)
	}
	if more := must[[]futurejobs.PlannedTick](t)(w.ClaimTicks(w.ctx(), w.fenceOf(), 10)); len(more) != 0 || len(due()) != 0 {
		t.Errorf("claimed while they may be in transit: %+v", more)
	}
	w.must(w.MarkEmitted(w.ctx(), planned[:1]))
	testwait.Until(t, "the hold of the other one to end", func() bool {
		now = must[time.Time](t)(w.Now(w.ctx()))
		got := due()
		return len(got) == 1 && got[0].IsPlanned
	})
	claimed := must[[]futurejobs.PlannedTick](t)(w.ClaimTicks(w.ctx(), w.fenceOf(), 10))
	if len(claimed) != 1 || claimed[0].ID != "a" || claimed[0].Attempts != 2 || string(claimed[0].Data) != `{"n": 1}` || !claimed[0].MayBeStored() {
		t.Errorf("claimed: %+v", claimed)
	}
	w.must(w.MarkEmitted(w.ctx(), claimed))
	w.must(w.MarkEmitted(w.ctx(), nil))
	if diff := cmp.Diff([]string{"-30s emitted missed 2 attempts 2"}, w.ticksOf("a", futurejobs.TickFilter{Outcome: futurejobs.TickEmitted, After: at})); diff != "" {
		t.Errorf("ticks (-want +got):\n%s", diff)
	}
	if s := must[futurejobs.Schedule](t)(w.Schedule(w.ctx(), w.scheduleRef("a"))); !s.LastAt.Equal(at) || !s.NextAt.Equal(at.Add(24*time.Hour)) {
		t.Errorf("the schedule after its tick: %+v", s)
	}
}

// changedSchedulesEmitNothing checks that a change waits for an event in transit, and that no planned or due tick is
// published after it.
func changedSchedulesEmitNothing(t *testing.T, f *fixture) {
	w := withSchedules(f)
	at := w.now.Add(-30 * time.Second)
	w.put(w.schedule("planned", at))
	planned := must[[]futurejobs.PlannedTick](t)(w.decide(w.now))
	w.put(w.schedule("due", at), w.schedule("data", at))
	read := must[futurejobs.Schedule](t)(w.Schedule(w.ctx(), w.scheduleRef("data")))
	changed := make(chan error, 1)
	s := w.schedule("planned", w.now)
	s.Data = []byte(`1`)
	go func() {
		_, err := w.PutSchedules(w.ctx(), []futurejobs.Schedule{s}, []futurejobs.ScheduleRef{w.scheduleRef("due")})
		changed <- err
	}()
	select {
	case err := <-changed:
		t.Fatalf("a schedule was changed while its event was in transit: %v", err)
	case <-time.After(300 * time.Millisecond):
	}
	w.put(w.schedule("other", at)) // is not held up
	w.must(<-changed)
	if diff := cmp.Diff([]string{"-30s unknown missed 2 attempts 1"}, w.ticksOf("planned", futurejobs.TickFilter{})); diff != "" {
		t.Errorf("the tick without a recorded result (-want +got):\n%s", diff)
	}
	canceled := planned[0]
	canceled.ID = "due"
	w.must(w.MarkEmitted(w.ctx(), []futurejobs.PlannedTick{planned[0], canceled}))
	other := w.schedule("data", at)
	other.Data = []byte(`2`)
	w.put(other)
	before := futurejobs.DecidedTick{Schedule: read, At: at, Outcome: futurejobs.TickPlanned}
	if got := must[[]futurejobs.PlannedTick](t)(w.DecideTicks(w.ctx(), w.fenceOf(), []futurejobs.DecidedTick{before})); len(got) != 0 {
		t.Errorf("a tick of the schedule before its change: %+v", got)
	}
	for id, want := range map[string][]string{
		"planned": {"-30s emitted missed 2 attempts 1"}, "due": {"-30s canceled missed 0 attempts 0"}, "data": nil,
	} {
		if diff := cmp.Diff(want, w.ticksOf(id, futurejobs.TickFilter{})); diff != "" {
			t.Errorf("ticks of %s (-want +got):\n%s", id, diff)
		}
	}
}

// changedRulesEmitNothing checks that planned ticks of a rule end when it is paused, deleted or gets another trigger,
// and no other change ends them.
func changedRulesEmitNothing(t *testing.T, f *fixture) {
	w := withSchedules(f)
	save := func(document string) {
		t.Helper()
		must[rules.RuleVersion](t)(w.Save(w.ctx(), rules.RuleVersion{Name: w.rule.Name, Entity: w.rule.Entity, Document: []byte(document)}, rules.AnyVersion))
	}
	save(`{"enabled": true, "trigger": {"schedule": "@stored"}}`)
	for i, change := range []struct {
		what string
		do   func()
		want string
	}{
		{"another text", func() { save(`{"enabled": true, "trigger": {"schedule": "@stored"}, "description": "x"}`) }, "planned"},
		{"another trigger", func() { save(`{"enabled": true, "trigger": {"schedule": "@stored", "emit": {"subject": "x"}}}`) }, "unknown"},
		{"not enabled", func() { save(`{"enabled": false, "trigger": {"schedule": "@stored", "emit": {"subject": "x"}}}`) }, "unknown"},
		{"a pause", func() { w.must(w.Pause(w.ctx(), w.rule.Name, true)) }, "unknown"},
		{"the end of the pause", func() { w.must(w.Pause(w.ctx(), w.rule.Name, false)) }, "planned"},
		{"deletion", func() { must[int32](t)(w.Delete(w.ctx(), w.rule.Name, rules.AnyVersion)) }, "unknown"},
	} {
		id := fmt.Sprint(i)
		w.put(w.schedule(id, w.now.Add(-30*time.Second)))
		must[[]futurejobs.PlannedTick](t)(w.decide(w.now))
		change.do()
		if diff := cmp.Diff([]string{"-30s " + change.want + " missed 2 attempts 1"}, w.ticksOf(id, futurejobs.TickFilter{})); diff != "" {
			t.Errorf("after %s (-want +got):\n%s", change.what, diff)
		}
	}
	if _, err := w.PutSchedules(w.ctx(), []futurejobs.Schedule{w.schedule("x", w.now)}, nil); !errors.Is(err, futurejobs.ErrNotFound) {
		t.Errorf("a schedule of a deleted rule: %v, want ErrNotFound", err)
	}
	must[store.Pruned](t)(w.Prune(w.ctx(), store.Retention{}))
	if left := w.schedulesOf(""); len(left) != 0 {
		t.Errorf("schedules of a deleted rule are kept: %+v", left)
	}
}

// postedTicksAreRepeated checks that a tick whose event was not accepted is planned again from a time on, holds up its
// schedule in order, and ends as failed without a further attempt.
func postedTicksAreRepeated(t *testing.T, f *fixture) {
	w := withSchedules(f)
	at := w.now.Add(-30 * time.Second)
	w.put(w.schedule("a", at), w.schedule("b", at))
	planned := must[[]futurejobs.PlannedTick](t)(w.decide(w.now))
	inOrder := w.fenceOf()
	inOrder.IsInOrder = true
	dueInOrder := func() (ids []string) {
		for _, s := range must[[]futurejobs.Schedule](t)(w.DueSchedules(w.ctx(), inOrder, w.now.Add(48*time.Hour), 10)) {
			ids = append(ids, s.ID)
		}
		return ids
	}
	claim := func() []futurejobs.PlannedTick {
		now := must[time.Time](t)(w.Now(w.ctx()))
		of := futurejobs.RuleShard{RuleID: w.rule.ID, Shard: w.held[0].Shard}
		found := must[[]futurejobs.DueRuleShard](t)(w.DueRuleShards(w.ctx(), []futurejobs.RuleShard{of}, now))
		claimed := must[[]futurejobs.PlannedTick](t)(w.ClaimTicks(w.ctx(), w.fenceOf(), 10))
		if isFound := slices.ContainsFunc(found, func(d futurejobs.DueRuleShard) bool { return d.IsPlanned }); isFound != (len(claimed) > 0) {
			t.Errorf("found: %v, claimed: %+v", found, claimed)
		}
		return claimed
	}
	putOff := func(tick futurejobs.PlannedTick, retryAt time.Time, reason string) {
		tick.RetryAt, tick.Reason = retryAt, reason
		w.must(w.PutOffTicks(w.ctx(), []futurejobs.PlannedTick{tick}))
	}
	if ids := dueInOrder(); len(ids) != 0 {
		t.Errorf("due behind planned ticks: %v", ids)
	}
	putOff(planned[0], w.now.Add(time.Hour), "it answers 500")
	putOff(planned[1], w.now.Add(time.Hour), "it answers 500")
	if claimed := claim(); len(claimed) != 0 {
		t.Errorf("claimed before their next attempt: %+v", claimed)
	}
	putOff(planned[0], w.now.Add(-time.Second), "it answers 502")
	claimed := claim()
	if len(claimed) != 1 || claimed[0].ID != "a" || claimed[0].Attempts != 2 || claimed[0].Reason != "it answers 502" {
		t.Fatalf("claimed: %+v", claimed)
	}
	if ids := dueInOrder(); len(ids) != 0 {
		t.Errorf("due behind ticks with a further attempt: %v", ids)
	}
	putOff(claimed[0], time.Time{}, "it answers 503")
	if ids := dueInOrder(); !slices.Equal(ids, []string{"a"}) {
		t.Errorf("due behind a failed tick: %v, want a", ids)
	}
	w.put(func() futurejobs.Schedule { s := w.schedule("b", at); s.Data = []byte(`1`); return s }()) // no event is in transit
	for id, want := range map[string]futurejobs.ScheduleTick{
		"a": {Outcome: futurejobs.TickFailed, Attempts: 2, Reason: "it answers 503"},
		"b": {Outcome: futurejobs.TickCanceled, Attempts: 1, Reason: "it answers 500"},
	} {
		got := must[futurejobs.Page[futurejobs.ScheduleTick]](t)(w.ScheduleTicks(w.ctx(), w.scheduleRef(id), futurejobs.TickFilter{})).Items[0]
		want.ScheduleRef, want.At, want.DecidedAt, want.Missed = w.scheduleRef(id), at, got.DecidedAt, 2
		if diff := cmp.Diff(want, got); diff != "" {
			t.Errorf("tick of %s (-want +got):\n%s", id, diff)
		}
	}
}

// scheduleTicksAreForgotten checks that ticks are kept as long as the history of their rule, and planned ones until they are
// published.
func scheduleTicksAreForgotten(t *testing.T, f *fixture) {
	w := withSchedules(f)
	old := w.now.Add(-400 * futurejobs.Day)
	w.put(w.schedule("old", old), w.schedule("new", w.now.Add(-30*time.Second)), w.schedule("planned", old))
	for _, tick := range must[[]futurejobs.PlannedTick](t)(w.decide(w.now)) {
		if tick.ID != "planned" {
			w.must(w.MarkEmitted(w.ctx(), []futurejobs.PlannedTick{tick}))
		}
	}
	if got := must[store.Pruned](t)(w.Prune(w.ctx(), store.Retention{})); got.Ticks != 0 {
		t.Errorf("%d ticks are pruned without a setting", got.Ticks)
	}
	counted := must[[]store.RetentionCount](t)(w.CountRetention(w.ctx(), store.RetentionQuery{Retention: settingsOfRetention, At: w.now}))
	if diff := cmp.Diff([]store.RetentionCount{{Kind: "ticks", Rule: w.rule.Name, Rows: 1, Oldest: old}}, counted); diff != "" {
		t.Errorf("counted (-want +got):\n%s", diff)
	}
	if got := must[store.Pruned](t)(w.Prune(w.ctx(), settingsOfRetention)); got.Ticks != 1 {
		t.Errorf("%d ticks are pruned, want 1", got.Ticks)
	}
	for id, want := range map[string]int{"old": 0, "new": 1, "planned": 1} {
		if got := w.ticksOf(id, futurejobs.TickFilter{}); len(got) != want {
			t.Errorf("ticks of %s: %v, want %d", id, got, want)
		}
	}
}

// nextTicksAreCounted checks that the next ticks of stored schedules are in the planned load, of one rule and of all.
func nextTicksAreCounted(t *testing.T, f *fixture) {
	w := withSchedules(f)
	from := w.now.Add(24 * time.Hour).Truncate(time.Hour)
	disabled := w.schedule("off", time.Time{})
	disabled.Enabled = false
	w.put(w.schedule("a", from), w.schedule("b", from), w.schedule("c", from.Add(time.Hour)), w.schedule("later", from.Add(2*time.Hour)), disabled)
	span := futurejobs.BucketRange{From: from, Until: from.Add(2 * time.Hour), Width: time.Hour}
	for _, rule := range []int32{0, w.rule.ID} {
		got := must[[]futurejobs.PlannedLoad](t)(w.Planned(w.ctx(), span, rule))
		if diff := cmp.Diff([]futurejobs.PlannedLoad{{Ticks: 2}, {Ticks: 1}}, got); diff != "" {
			t.Errorf("planned, of rule %d (-want +got):\n%s", rule, diff)
		}
	}
	if got := must[[]futurejobs.PlannedLoad](t)(w.Planned(w.ctx(), span, w.rule.ID+1)); got[0].Ticks != 0 {
		t.Errorf("planned, of another rule: %+v", got)
	}
}
