package scheduler_test

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/nats-io/nats.go/jetstream"

	"deadman/alerts"
	futurejobs "deadman/future_jobs"
	"deadman/internal/bus/bustest"
	"deadman/internal/scheduler"
	"deadman/internal/store"
	"deadman/internal/store/storetest"
	"deadman/rules"
)

const reports = `
name: reports
entity: report
trigger: {schedule: "@stored", emit: {subject: reports.due}}
`

// put stores schedules of a rule.
func (w *fixture) put(rule string, all ...futurejobs.Schedule) {
	w.Helper()
	of, err := rules.StoredCatalog{Catalog: w.catalog()}.StoredRule(rule)
	if err != nil {
		w.Fatal(err)
	}
	for i := range all {
		if err := of.Prepare(&all[i], time.Now()); err != nil {
			w.Fatal(err)
		}
	}
	if _, err := w.store.PutSchedules(w.Context(), all, nil); err != nil {
		w.Fatal(err)
	}
}

// everySecond returns n schedules that tick each second.
func everySecond(n int) (all []futurejobs.Schedule) {
	for i := range n {
		all = append(all, futurejobs.Schedule{ID: fmt.Sprint("s", i), Text: "@every 1s", Enabled: true})
	}
	return all
}

// stored runs a node that decides and publishes ticks of stored schedules until stop, or until the end of the test.
func (w *fixture) stored(change ...func(*scheduler.Stored)) (s *scheduler.Stored, stop func()) {
	w.Helper()
	s = &scheduler.Stored{
		Catalog: rules.StoredCatalog{Catalog: w.catalog()}, Store: w.store, Emitter: w.bus.SchedulePublisher, Held: w.take(), Now: time.Now, Observer: &tickCounter{}, Log: slog.New(slog.DiscardHandler),
		Announce: func(ctx context.Context, r alerts.SystemAlert) error {
			_, _, err := w.store.WriteSystemAlert(ctx, r)
			return err
		},
	}
	for _, c := range change {
		c(s)
	}
	ctx, cancel := context.WithCancel(context.Background())
	var running sync.WaitGroup
	running.Go(func() {
		if err := s.Run(ctx); err != nil {
			w.Error(err)
		}
	})
	stop = sync.OnceFunc(func() { cancel(); running.Wait() })
	w.Cleanup(stop)
	return s, stop
}

// take takes all shards, from a node that holds them if need be.
func (w *fixture) take() func() []futurejobs.HeldShard {
	w.Helper()
	all, err := w.store.Leases(w.Context())
	if err != nil {
		w.Fatal(err)
	}
	var held []futurejobs.HeldShard
	for _, l := range all {
		if l.Node != "" {
			if _, err := w.store.Free(w.Context(), l); err != nil {
				w.Fatal(err)
			}
		}
		got, ok, err := w.store.Take(w.Context(), "node", l.HeldShard, 100*time.Hour) // longer than any test
		if err != nil || !ok {
			w.Fatalf("take shard %d: %v, %v", l.Shard, ok, err)
		}
		held = append(held, got.HeldShard)
	}
	return func() []futurejobs.HeldShard { return held }
}

// emittedEvents returns the numbers of events on a subject by id.
func (w *fixture) emittedEvents(stream, subject string) map[string]int {
	w.Helper()
	all := make(map[string]int)
	for _, id := range w.eventIDs(stream, subject) {
		all[id]++
	}
	return all
}

// eventIDs returns the ids of the events on a subject, in the order of the stream.
func (w *fixture) eventIDs(stream, subject string) (all []string) {
	w.Helper()
	js := bustest.JetStream(w, w.url)
	s, err := js.Stream(w.Context(), stream)
	if err != nil {
		w.Fatal(err)
	}
	c, err := s.OrderedConsumer(w.Context(), jetstream.OrderedConsumerConfig{FilterSubjects: []string{subject}})
	if err != nil {
		w.Fatal(err)
	}
	for {
		got, err := c.Fetch(5000, jetstream.FetchMaxWait(500*time.Millisecond))
		if err != nil {
			w.Fatal(err)
		}
		before := len(all)
		for m := range got.Messages() {
			all = append(all, m.Headers().Get("ce-id"))
		}
		if len(all) == before {
			return all
		}
	}
}

// tickRows returns the ticks of a schedule by the id of their events.
func (w *fixture) tickRows(rule rules.RuleVersion, id string) map[string]futurejobs.ScheduleTick {
	w.Helper()
	page, err := w.store.ScheduleTicks(w.Context(), futurejobs.ScheduleRef{RuleID: rule.RuleID, ID: id}, futurejobs.TickFilter{Limit: 500})
	if err != nil {
		w.Fatal(err)
	}
	rows := make(map[string]futurejobs.ScheduleTick)
	for _, t := range page.Items {
		rows[fmt.Sprintf("%s/%s/%d", rule.Name, id, t.At.Unix())] = t
	}
	return rows
}

// checkEachTick checks that each second from the first tick of each schedule on is a tick, missed or recorded, and that
// exactly the emitted ones have one event each.
func (w *fixture) checkEachTick(rule rules.RuleVersion, all []futurejobs.Schedule) {
	w.Helper()
	events := w.emittedEvents("DEADMAN_EVENTS", "reports.due")
	rows := 0
	for _, s := range all {
		got := w.tickRows(rule, s.ID)
		if len(got) == 0 {
			w.Fatalf("schedule %s has no ticks", s.ID)
		}
		ticks, last := 0, time.Time{}
		for id, t := range got {
			ticks += 1 + t.Missed
			if t.At.After(last) {
				last = t.At
			}
			least, most := 0, 0
			switch t.Outcome {
			case futurejobs.TickEmitted:
				least, most = 1, 1
			case futurejobs.TickPlanned: // the node was stopped before the answer of the stream
				most = 1
			}
			if n := events[id]; n < least || n > most {
				w.Errorf("tick %s is %s, and the stream has %d events of it", id, t.Outcome, n)
			}
		}
		rows += len(got)
		if want := int(last.Sub(s.NextAt)/time.Second) + 1; ticks != want {
			w.Errorf("schedule %s has %d ticks from %s through %s, want %d", s.ID, ticks, s.NextAt, last, want)
		}
	}
	if len(events) > rows {
		w.Errorf("the stream has events of %d ticks, and %d are recorded", len(events), rows)
	}
}

// A restarted node, and one that takes the shards over while another one still works, emit each tick of each schedule once.
func TestStoredTicksAreEmittedOnce(t *testing.T) {
	t.Parallel()
	for name, o := range databases(4) {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			w := newFixture(t, o(t))
			rule := w.save(reports)
			all := everySecond(100)
			w.put("reports", all...)
			var c tickCounter
			count := func(s *scheduler.Stored) { s.Observer = &c }
			_, stop := w.stored(count)
			w.eventually("ticks of the first node", func() bool { return c.emitted.Load() > 200 })
			w.stored(count) // takes the shards over
			taken := c.emitted.Load()
			w.eventually("ticks of the second node", func() bool { return c.emitted.Load() > taken+200 })
			stop()
			_, stop = w.stored(count)
			taken = c.emitted.Load()
			w.eventually("ticks of the third node", func() bool { return c.emitted.Load() > taken+200 })
			stop()
			w.checkEachTick(rule, all)
		})
	}
}

// lostAnswers publishes events and loses the first answers, like a node that is killed before it records them. The next
// attempt comes after the duplicate window of the stream.
type lostAnswers struct {
	scheduler.StoredEmitter
	left atomic.Int64
}

func (l *lostAnswers) PublishTicks(ctx context.Context, all []futurejobs.Emission) ([]bool, error) {
	stored, err := l.StoredEmitter.PublishTicks(ctx, all)
	if err == nil && l.left.Add(-1) >= 0 {
		return make([]bool, len(all)), errLost
	}
	return stored, err
}

// An event whose answer is lost is not published again, and its tick counts two attempts.
func TestStoredTickWithLostAnswerIsEmittedOnce(t *testing.T) {
	t.Parallel()
	w := newFixture(t, store.Options{DataDir: storetest.DataDir(t), Shards: 4})
	rule := w.save(reports)
	w.put("reports", futurejobs.Schedule{ID: "once", Text: "@at " + time.Now().Add(2*time.Second).UTC().Format(time.RFC3339), Enabled: true})
	lossy := &lostAnswers{StoredEmitter: w.bus.SchedulePublisher}
	lossy.left.Store(1)
	var c tickCounter
	s, _ := w.stored(func(s *scheduler.Stored) { s.Emitter, s.Observer = lossy, &c })
	w.eventually("the failure", func() bool { return errors.Is(s.Err(), errLost) })
	w.eventually("the end of the failure", func() bool { return s.Err() == nil })
	w.eventually("the second attempt", func() bool { return c.emitted.Load() == 1 })
	for id, tick := range w.tickRows(rule, "once") {
		if tick.Attempts != 2 || tick.Outcome != futurejobs.TickEmitted {
			t.Errorf("tick %s: %+v", id, tick)
		}
		if diff := cmp.Diff(map[string]int{id: 1}, w.emittedEvents("DEADMAN_EVENTS", "reports.due")); diff != "" {
			t.Errorf("events (-want +got):\n%s", diff)
		}
	}
	if s, err := w.store.Schedule(t.Context(), futurejobs.ScheduleRef{RuleID: rule.RuleID, ID: "once"}); err != nil || !s.NextAt.IsZero() || s.LastAt.IsZero() {
		t.Errorf("the schedule is over: %+v, %v", s, err)
	}
}

// A node that stood still between the record of a tick and its publication publishes no event: the hold is over, and the schedule may
// have changed.
func TestNoStoredTickIsPublishedAfterItsHold(t *testing.T) {
	t.Parallel()
	w := newFixture(t, store.Options{DataDir: storetest.DataDir(t), Shards: 1})
	event := func(id string) []futurejobs.Emission {
		return []futurejobs.Emission{{Rule: "reports", Subject: "reports.due", ID: id, Data: []byte("{}"), At: time.Now(), Schedule: id}}
	}
	publish := w.bus.SchedulePublisher.PublishTicks
	if _, err := publish(t.Context(), event("before")); err != nil {
		t.Fatal(err)
	}
	over, end := context.WithDeadline(t.Context(), time.Now())
	defer end()
	if stored, err := publish(over, event("late")); err == nil || stored[0] {
		t.Errorf("the late event: %v, %v", stored, err)
	}
	if _, err := publish(t.Context(), event("after")); err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff([]string{"before", "after"}, w.eventIDs("DEADMAN_EVENTS", "reports.due")); diff != "" {
		t.Errorf("events (-want +got):\n%s", diff)
	}
}

// After the acknowledgement of a change of a schedule or of its rule, no tick that was due before is emitted.
func TestNoStoredTickIsEmittedAfterChange(t *testing.T) {
	t.Parallel()
	w := newFixture(t, store.Options{DatabaseURL: storetest.Postgres(t), Shards: 4})
	rule := w.save(reports)
	all := everySecond(40)
	w.put("reports", all...)
	var c tickCounter
	w.stored(func(s *scheduler.Stored) { s.Observer = &c })
	quiet := func(what string, of func(id string) bool) {
		t.Helper()
		count := func() (n int) {
			for id, times := range w.emittedEvents("DEADMAN_EVENTS", "reports.due") {
				if of(strings.Split(id, "/")[1]) {
					n += times
				}
			}
			return n
		}
		before, others := count(), c.emitted.Load()
		w.eventually("more ticks", func() bool { return c.emitted.Load() > others+40 || what == "pause" })
		if what == "pause" {
			time.Sleep(2 * time.Second)
		}
		if after := count(); after != before {
			t.Errorf("%d events of ticks were published after %s", after-before, what)
		}
	}
	w.eventually("ticks", func() bool { return c.emitted.Load() > 100 })
	var gone []futurejobs.ScheduleRef
	for i := range 20 {
		gone = append(gone, futurejobs.ScheduleRef{RuleID: rule.RuleID, ID: fmt.Sprint("s", i)})
	}
	if _, err := w.store.PutSchedules(t.Context(), nil, gone); err != nil {
		t.Fatal(err)
	}
	quiet("deletion", func(id string) bool { return len(id) == 2 || id < "s20" })
	off := futurejobs.Schedule{ID: "s30", Text: "@every 1s"}
	w.put("reports", off)
	quiet("not enabled", func(id string) bool { return id == "s30" })
	if err := w.store.Pause(t.Context(), "reports", true); err != nil {
		t.Fatal(err)
	}
	quiet("pause", func(string) bool { return true })
}

// A rule whose events no stream stores holds up no other rule, and its ticks are emitted once a stream stores them.
func TestFailingStoredRuleHoldsUpNoOther(t *testing.T) {
	t.Parallel()
	w := newFixture(t, store.Options{DataDir: storetest.DataDir(t), Shards: 1})
	js := bustest.JetStream(t, w.url)
	full := jetstream.StreamConfig{Name: "FULL", Subjects: []string{"full.due"}, MaxMsgs: 1, Discard: jetstream.DiscardNew}
	if _, err := js.CreateStream(t.Context(), full); err != nil {
		t.Fatal(err)
	}
	if _, err := js.Publish(t.Context(), "full.due", nil); err != nil {
		t.Fatal(err)
	}
	blocked := w.save(strings.NewReplacer("reports.due", "full.due", "name: reports", "name: blocked").Replace(reports))
	w.save(reports)
	w.put("reports", everySecond(8)...)
	w.put("blocked", futurejobs.Schedule{ID: "a", Text: "@at " + time.Now().Add(time.Second).UTC().Format(time.RFC3339), Enabled: true})
	c := &ruleCounter{}
	s, _ := w.stored(func(s *scheduler.Stored) { s.Observer = c })
	w.eventually("the failure", func() bool { return s.Err() != nil && strings.Contains(s.Err().Error(), "rule blocked: ") })
	if failing := s.Failing(); !slices.Equal(failing, []string{"blocked"}) {
		t.Errorf("failing: %v", failing)
	}
	for range 2 {
		c.rules()
		w.eventually("ticks of the other rule", func() bool { return c.rules() == 1 })
	}
	full.MaxMsgs = 10
	if _, err := js.UpdateStream(t.Context(), full); err != nil {
		t.Fatal(err)
	}
	w.eventually("the event of the first tick", func() bool {
		for _, tick := range w.tickRows(blocked, "a") {
			return tick.Outcome == futurejobs.TickEmitted && tick.Attempts > 1
		}
		return false
	})
	w.eventually("the end of the failure", func() bool { return s.Err() == nil && len(s.Failing()) == 0 })
}

// A node that is late counts the missed ticks, and skips a late tick with one alert if its rule says so.
func TestLateStoredTicks(t *testing.T) {
	t.Parallel()
	w := newFixture(t, store.Options{DataDir: storetest.DataDir(t), Shards: 1})
	kept := w.save(reports)
	skipped := w.save(strings.Replace(reports, "name: reports", "name: skipped\nslot: 1s\ncatch_up: {after: 1m, do: skip}", 1))
	w.put("reports", futurejobs.Schedule{ID: "a", Text: "@every 1h", Enabled: true, Data: []byte(`{"a":1}`)})
	w.put("skipped", futurejobs.Schedule{ID: "a", Text: "@every 1h", Enabled: true}, futurejobs.Schedule{ID: "b", Text: "@every 1h", Enabled: true})
	first, err := w.store.Schedule(t.Context(), futurejobs.ScheduleRef{RuleID: kept.RuleID, ID: "a"})
	if err != nil {
		t.Fatal(err)
	}
	ahead := time.Until(first.NextAt.Add(3*time.Hour + 30*time.Minute))
	var loads futurejobs.LoadCounter
	_, stop := w.stored(func(s *scheduler.Stored) { s.Now, s.Loads = func() time.Time { return time.Now().Add(ahead) }, &loads })
	var outcomes map[string]string
	w.eventually("ticks of both rules", func() bool {
		outcomes = make(map[string]string)
		for _, rule := range []rules.RuleVersion{kept, skipped} {
			for _, id := range []string{"a", "b"} {
				for _, tick := range w.tickRows(rule, id) {
					outcomes[rule.Name+"/"+id] = fmt.Sprintf("%s, missed %d", tick.Outcome, tick.Missed)
				}
			}
		}
		return len(outcomes) == 3 && !strings.Contains(fmt.Sprint(outcomes), string(futurejobs.TickPlanned))
	})
	n := strings.TrimPrefix(outcomes["reports/a"], "emitted, missed ")
	if n != "3" || !strings.HasPrefix(outcomes["skipped/a"], "skipped, missed ") || !strings.HasPrefix(outcomes["skipped/b"], "skipped, missed ") {
		t.Errorf("outcomes: %v", outcomes)
	}
	stop()
	late := first.NextAt.Add(3 * time.Hour)
	got := loads.Take()
	emitted := slices.IndexFunc(got, func(m futurejobs.SlotLoad) bool { return m.RuleID == kept.RuleID })
	if m := got[emitted]; !m.At.Equal(late.Truncate(time.Minute)) || m.Ticks != 1 || m.MissedTicks != 3 || m.MaxTickLateness < 30*time.Minute {
		t.Errorf("load of the emitted tick: %+v", m)
	}
	var ofSkipped futurejobs.PastLoad
	for _, m := range slices.Delete(got, emitted, emitted+1) {
		ofSkipped.Add(m.PastLoad)
	}
	if ofSkipped.Ticks != 2 || ofSkipped.MissedTicks == 0 || ofSkipped.MaxTickLateness != 0 {
		t.Errorf("load of the skipped ticks: %+v", ofSkipped)
	}
	raised, err := w.store.Alerts(t.Context(), futurejobs.Filter{})
	if err != nil {
		t.Fatal(err)
	}
	if len(raised.Items) != 1 || !strings.Contains(raised.Items[0].Text, "ticks found later than catch_up.after, 1m, and skipped: 2") {
		t.Errorf("alerts: %+v", raised.Items)
	}
}
