package storetest

import (
	"encoding/json"
	"fmt"
	"strings"
	"sync"
	"testing"
	"time"

	futurejobs "deadman/future_jobs"
	"deadman/internal/store"
)

// startAwaiting returns the effect that starts a job and uses earlier events.
func startAwaiting(w *fixture, key string, since time.Time) futurejobs.Effect {
	j := w.job(w.rule, key, w.slot())
	j.Since = since
	return actionEffect(w, w.rule, key, since, futurejobs.Start{Job: j, Early: true, Sets: []futurejobs.AddMember{addMember("", time.Hour)}})
}

// eventEffect returns the effect that ends a job, or is stored as an early event without a job.
func eventEffect(w *fixture, key string, at time.Time, keep time.Duration) futurejobs.Effect {
	return actionEffect(w, w.rule, key, at, futurejobs.End{Outcome: "resolved", Early: keep})
}

func earlyEndsAreRemembered(t *testing.T, w *fixture) {
	at := w.slot()
	for i, key := range []string{"a", "nul\x00 \xff", "newer"} {
		since := at.Add(time.Duration(i/2) * time.Microsecond) // the last one starts after the event
		if got := w.applyManually(eventEffect(w, key, at, time.Hour)); got.Remembered != 1 || got.Ended != 0 {
			t.Fatalf("%q: applied %+v, want it remembered", key, got)
		}
		got := w.applyManually(startAwaiting(w, key, since))
		if ended := since.Equal(at); got.Created != 1 || (got.Ended == 1) != ended {
			t.Errorf("%q: applied %+v", key, got)
		}
	}
	// The early event is used up.
	if got := w.applyManually(startAwaiting(w, "a", at)); got.Created != 1 || got.Ended != 0 {
		t.Errorf("after it was used: %+v", got)
	}
	if e := w.ended(); len(e) != 2 || e[0].Outcome != "resolved" {
		t.Errorf("history: %+v", e)
	}
	checkBalance(w, 4)
}

func earlyMembersAreRemembered(t *testing.T, w *fixture) {
	at := w.slot()
	for _, member := range []string{"x", "y", "y"} {
		w.applyManually(actionEffect(w, w.rule, "a", at, addMember(member, time.Hour)))
	}
	w.applyManually(startAwaiting(w, "a", at))
	if n := w.one("a").Members.Count(1); n != 2 {
		t.Fatalf("%d members of two", n)
	}
	if got := w.applyManually(actionEffect(w, w.rule, "a", at, addMember("z", time.Hour))); got.Ended != 1 {
		t.Errorf("the last member: %+v", got)
	}
	for _, member := range []string{"x", "y", "z"} {
		w.applyManually(actionEffect(w, w.rule, "b", at, addMember(member, time.Hour)))
	}
	if got := w.applyManually(startAwaiting(w, "b", at)); got.Created != 1 || got.Ended != 1 {
		t.Errorf("a set that was complete before: %+v", got)
	}
	checkBalance(w, 2)
}

func earlyIsForgotten(t *testing.T, w *fixture) {
	at := w.slot()
	w.applyManually(eventEffect(w, "old", at, time.Microsecond), eventEffect(w, "young", at, time.Hour))
	w.applyManually(eventEffect(w, "again", at, time.Microsecond))
	w.applyManually(eventEffect(w, "again", at, time.Hour)) // the later one counts
	if got := w.applyManually(startAwaiting(w, "old", at)); got.Ended != 0 {
		t.Errorf("what was remembered for a microsecond ends a wait: %+v", got)
	}
	prune(w, time.Hour)
	if got := w.applyManually(startAwaiting(w, "young", at), startAwaiting(w, "again", at)); got.Ended != 2 {
		t.Errorf("what is remembered for an hour: %+v", got)
	}
	checkBalance(w, 3)
}

// concurrentEarlyEventsApplyOnce checks a job that starts in one stream while its end arrives in another: in either order, no job is
// left.
func concurrentEarlyEventsApplyOnce(t *testing.T, w *fixture) {
	const rounds, keys = 40, 5
	at := w.slot()
	for round := range rounds {
		var starts, ends []futurejobs.Effect
		for i := range keys {
			key := fmt.Sprintf("%d-%d", round, i)
			starts, ends = append(starts, startAwaiting(w, key, at)), append(ends, eventEffect(w, key, at, time.Hour))
		}
		var streams sync.WaitGroup
		streams.Go(func() { w.applyManually(starts...) })
		streams.Go(func() { w.applyManually(ends...) })
		streams.Wait()
		if left := w.all(); len(left) != 0 {
			t.Fatalf("round %d: %d of %d wait for what has happened", round, len(left), keys)
		}
	}
	checkBalance(w, rounds*keys)
}

// earlyIsCapped checks that the early resolves of a rule that expire last are kept.
func earlyIsCapped(t *testing.T, w *fixture) {
	at := w.slot()
	for i := range 12 {
		w.applyManually(eventEffect(w, fmt.Sprint(i), at, time.Hour+time.Duration(i)*time.Minute))
	}
	capped := func(caps store.EarlyCaps, want int64) {
		t.Helper()
		got := must[[]store.CappedEarly](t)(w.CapEarly(w.ctx(), caps))
		var rows int64
		for _, c := range got {
			rows += c.Rows
			if c.Rule != w.rule.Name {
				t.Errorf("of rule %q", c.Rule)
			}
		}
		if rows != want {
			t.Errorf("the caps %+v forget %d, want %d", caps, rows, want)
		}
	}
	const much = 1 << 20
	capped(store.EarlyCaps{Rule: 12, Total: 12, RuleBytes: much, TotalBytes: much}, 0)
	capped(store.EarlyCaps{Rule: 7, Total: 100, RuleBytes: much, TotalBytes: much}, 5)
	capped(store.EarlyCaps{Rule: 100, Total: 4, RuleBytes: much, TotalBytes: much}, 3)
	for i, want := range map[int]int{7: 0, 8: 1, 11: 1} {
		if got := w.applyManually(startAwaiting(w, fmt.Sprint(i), at)); got.Ended != want {
			t.Errorf("the early resolve of %d ends %d jobs, want %d", i, got.Ended, want)
		}
	}
	rule := *w.rule
	for i := range 10 {
		rule.Early = 2*time.Hour + time.Duration(i)*time.Minute
		e := actionEffect(w, &rule, fmt.Sprint("update", i), at, futurejobs.Update{Begin: newRawMerge, Patch: json.RawMessage(`"` + strings.Repeat("x", 10_000) + `"`)})
		e.Apart = true
		w.applyManually(e)
	}
	capped(store.EarlyCaps{Rule: 100, Total: 100, RuleBytes: 75_000, TotalBytes: much}, 5) // three updates, and two resolves without a body
	capped(store.EarlyCaps{Rule: 100, Total: 100, RuleBytes: much, TotalBytes: 45_000}, 3)
}

// startOrder returns the effect of a trigger with a job that records the order of events from other streams.
func startOrder(w *fixture, key string, since time.Time, body string) futurejobs.Effect {
	e := startAwaiting(w, key, since)
	start := e.Action.(futurejobs.Start) //nolint:forcetypeassert // awaited makes it
	start.OrderedByTime, start.Job.Event = true, json.RawMessage(body)
	e.Action = start
	return e
}

// endOfMember returns the effect of an end from another stream than the trigger's.
func endOfMember(w *fixture, key string, at time.Time) futurejobs.Effect {
	e := eventEffect(w, key, at, time.Hour)
	e.Apart = true
	return e
}

// orderJob returns the job of a key with its order of events, which Due does not read.
func orderJob(w *fixture, key string) futurejobs.Job {
	w.t.Helper()
	page := must[futurejobs.Page[futurejobs.ListedJob]](w.t)(w.Jobs(w.ctx(), futurejobs.Filter{Key: key}))
	if len(page.Items) != 1 {
		w.t.Fatalf("%d jobs of %q", len(page.Items), key)
	}
	return page.Items[0].Job
}

// keptTriggersAreRemembered checks that an end older than a kept trigger leaves the job of that trigger.
func keptTriggersAreRemembered(t *testing.T, w *fixture) {
	at := w.slot().Add(-time.Hour)
	const body = `{"text":"<a> & \u0000"}`
	keys := []string{"a", "nul\x00 \xff"}
	for _, key := range keys {
		w.applyManually(startOrder(w, key, at, `{}`))
		for after := range 3 {
			if got := w.applyManually(startOrder(w, key, at.Add(time.Duration(2+after)*time.Minute), body)); got.Kept != 1 {
				t.Fatalf("applied %+v, want the trigger kept", got)
			}
		}
		if j := orderJob(w, key); j.Order == nil || len(j.Order.Kept) != 3 || j.Rev != 0 {
			t.Fatalf("%q remembers %+v at rev %d, want three triggers", key, j.Order, j.Rev)
		}
	}
	for _, key := range keys {
		if got := w.applyManually(endOfMember(w, key, at.Add(time.Minute))); got.Ended != 1 || got.Created != 1 {
			t.Fatalf("applied %+v, want one job ended and one created", got)
		}
		j := orderJob(w, key)
		if !j.Since.Equal(at.Add(2*time.Minute)) || string(j.Event) != body || j.Order == nil || len(j.Order.Kept) != 2 {
			t.Errorf("the job is since %v with %s and %+v", j.Since, j.Event, j.Order)
		}
	}
	w.settle(w.exhausted(w.one("a")))
	checkBalance(w, 4)
}

// endsAreRememberedPerMember checks that ends that were read before their triggers each end their own job, even if a
// trigger used one of them before.
func endsAreRememberedPerMember(t *testing.T, w *fixture) {
	at := w.slot().Add(-time.Hour)
	after := func(minutes int) time.Time { return at.Add(time.Duration(minutes) * time.Minute) }
	w.applyManually(endOfMember(w, "a", after(2)), endOfMember(w, "a", after(5)))
	for _, c := range []struct {
		minute               int
		created, ended, kept int
	}{{1, 1, 1, 0}, {2, 0, 0, 1}, {4, 1, 1, 0}, {5, 0, 0, 1}, {6, 1, 0, 0}} {
		got := w.applyManually(startOrder(w, "a", after(c.minute), `{}`))
		if got.Created != c.created || got.Ended != c.ended || got.Kept != c.kept {
			t.Errorf("the trigger of minute %d: %+v, want %+v", c.minute, got, c)
		}
	}
	checkBalance(w, 3)
}

// rawMerge is a state that each update replaces.
type rawMerge struct{ text json.RawMessage }

func (s *rawMerge) Merge(update json.RawMessage) error { s.text = update; return nil }
func (s *rawMerge) Text() json.RawMessage              { return s.text }

func newRawMerge(known json.RawMessage) futurejobs.Merging { return &rawMerge{known} }

// changesAreRemembered checks that changes that were read before their trigger, or while another job of the key was
// pending, change the trigger's job.
func changesAreRemembered(t *testing.T, w *fixture) {
	at := w.slot().Add(-time.Hour)
	const body = `{"text":"<a> & \u0000"}`
	rule := *w.rule
	rule.Early = time.Hour
	apart := func(key string, minute int, action futurejobs.Action) futurejobs.Effect {
		e := actionEffect(w, &rule, key, at.Add(time.Duration(minute)*time.Minute), action)
		e.Apart = true
		return e
	}
	trigger := func(key string, minute int) futurejobs.Effect {
		e := startOrder(w, key, at.Add(time.Duration(minute)*time.Minute), `{}`)
		start := e.Action.(futurejobs.Start) //nolint:forcetypeassert // ordering makes it
		start.Merge = newRawMerge
		e.Rule, e.Action = &rule, start
		return e
	}
	for i, key := range []string{"a", "nul\x00 \xff"} {
		changes := []futurejobs.Effect{apart(key, 6, futurejobs.Update{Patch: json.RawMessage(body), Begin: newRawMerge}), apart(key, 7, futurejobs.Pause{})}
		if i == 0 {
			if got := w.applyManually(changes...); got.Remembered != 2 {
				t.Fatalf("applied %+v, want two changes remembered", got)
			}
		} else { // the earlier job has them, and passes them on at an older end
			w.applyManually(trigger(key, 1))
			w.applyManually(changes...)
			if j := orderJob(w, key); j.Order == nil || len(j.Order.Changes) != 2 || string(j.Order.Changes[0].Patch) != body {
				t.Fatalf("%q remembers %+v, want two changes", key, j.Order)
			}
			if got := w.applyManually(apart(key, 2, futurejobs.End{Outcome: "resolved", Early: time.Hour})); got.Ended != 1 {
				t.Fatalf("applied %+v, want the job ended", got)
			}
		}
		w.applyManually(trigger(key, 5))
		if j := orderJob(w, key); string(j.State) != body || !j.PausedAt().Equal(at.Add(7*time.Minute)) {
			t.Errorf("the job of %q knows %s and is paused at %v", key, j.State, j.PausedAt())
		}
	}
	checkBalance(w, 3)
}
