package storetest

import (
	"encoding/json"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"deadman/checks"
	futurejobs "deadman/future_jobs"
)

// checkEntry returns an entry of a trail, identified by a number.
func checkEntry(n int) futurejobs.Entry {
	return futurejobs.Entry{
		Kind: futurejobs.Checked, At: time.Unix(int64(1_800_000_000+n), 0).UTC(), Values: fmt.Sprintf(`state.name = "Jörg %d\n"`, n),
	}
}

// trailOf returns the trail of a key's job: of the pending one, or else of the last ended one.
func trailOf(w *fixture, key string) futurejobs.Trail {
	w.t.Helper()
	f := futurejobs.Filter{Entity: w.rule.Entity, Key: key, Limit: 1}
	if jobs := must[futurejobs.Page[futurejobs.ListedJob]](w.t)(w.Jobs(w.ctx(), f)); len(jobs.Items) > 0 {
		return jobs.Items[0].Trail
	}
	history := must[futurejobs.Page[futurejobs.EndedJob]](w.t)(w.History(w.ctx(), f))
	if len(history.Items) == 0 {
		w.t.Fatalf("no job for %q", key)
	}
	return history.Items[0].Trail
}

// recordCheck settles a check of the job of a key, with an entry and without an alert.
func recordCheck(w *fixture, key string, e futurejobs.Entry) {
	w.t.Helper()
	j := w.one(key)
	j.NextCheckAt, j.Trail = j.NextCheckAt.Add(time.Minute), e.Trail()
	w.settle(futurejobs.Decision{Job: j})
}

// trailsGrow checks that the databases append an entry to a trail as Go does, and drop the oldest.
func trailsGrow(t *testing.T, w *fixture) {
	w.start(w.slot(), "a")
	var want futurejobs.Trail
	for n := range futurejobs.TrailMost + 3 {
		recordCheck(w, "a", checkEntry(n))
		want = want.With(checkEntry(n).Trail())
		if got := trailOf(w, "a"); got != want {
			t.Fatalf("after check %d (-want +got):\n%s", n, cmp.Diff(strings.Split(string(want), "\n"), strings.Split(string(got), "\n")))
		}
	}
	if n := len(want.Entries()); n != futurejobs.TrailMost {
		t.Errorf("%d entries, want %d", n, futurejobs.TrailMost)
	}
}

// trailsStay checks that writes without an entry keep the trail, and that Due does not read it.
func trailsStay(t *testing.T, w *fixture) {
	w.start(w.slot(), "a")
	recordCheck(w, "a", checkEntry(1))
	want := checkEntry(1).Trail()
	ref := w.ref(w.rule, "a")
	beat := futurejobs.Heartbeat{Play: func(j *futurejobs.Job) (futurejobs.HeartbeatResult, error) {
		on := *j
		return futurejobs.HeartbeatResult{Job: &on, Next: j.NextCheckAt.Add(time.Hour), MustWrite: true}, nil
	}}
	if result := w.applyManually(futurejobs.Effect{Rule: w.rule, Ref: ref, Action: beat}); result.Postponed != 1 {
		t.Fatalf("%+v", result)
	}
	if got := trailOf(w, "a"); got != want {
		t.Errorf("after a beat it is %q", got)
	}
	w.settle(w.reschedule(w.one("a"), w.one("a").NextCheckAt.Add(time.Minute)))
	if got := trailOf(w, "a"); got != want {
		t.Errorf("after a check without an entry it is %q", got)
	}
	if got := w.one("a").Trail; got != "" {
		t.Errorf("a check reads it: %q", got)
	}
}

// trailsAreArchived checks that trails go to the history with their job, for every kind of end.
func trailsAreArchived(t *testing.T, w *fixture) {
	w.start(w.slot(), "settled", "resolved", "restarted")
	for _, key := range []string{"settled", "resolved", "restarted"} {
		recordCheck(w, key, checkEntry(1))
	}
	j := w.one("settled")
	last := checkEntry(2)
	last.Outcome = checks.Cleared
	j.Trail = last.Trail()
	w.settle(futurejobs.Decision{Job: j, Outcome: last.Outcome})
	again := w.starting(w.rule, "restarted", w.slot())
	start, _ := again.Action.(futurejobs.Start)
	start.Restart = true
	again.Action = start
	w.applyManually(w.ending(w.rule, "resolved"), again)

	for key, want := range map[string]futurejobs.Trail{
		"settled": checkEntry(1).Trail().With(last.Trail()), "resolved": checkEntry(1).Trail(), "restarted": "",
	} {
		if got := trailOf(w, key); got != want {
			t.Errorf("%s: %q, want %q", key, got, want)
		}
	}
	f := futurejobs.Filter{Entity: w.rule.Entity, Key: "restarted"}
	if past := must[futurejobs.Page[futurejobs.EndedJob]](t)(w.History(w.ctx(), f)); len(past.Items) != 1 || past.Items[0].Trail != checkEntry(1).Trail() {
		t.Errorf("of the wait that was restarted: %+v", past.Items)
	}
}

// trailsAreNotListed checks that lists of many jobs omit trails.
func trailsAreNotListed(t *testing.T, w *fixture) {
	w.start(w.slot(), "a", "b")
	recordCheck(w, "a", checkEntry(1))
	recordCheck(w, "b", checkEntry(1))
	w.applyManually(w.ending(w.rule, "b"))
	for _, l := range pages(t, futurejobs.Filter{}, w.Jobs) {
		if l.Trail != "" {
			t.Errorf("a list has the trail of %s: %s", l.Key, l.Trail)
		}
	}
	for _, e := range w.ended() {
		if e.Trail != "" {
			t.Errorf("the history has the trail of %s: %s", e.Key, e.Trail)
		}
	}
}

// trailsAcceptAnyText checks that any text from outside is stored as text.
func trailsAcceptAnyText(t *testing.T, w *fixture) {
	w.start(w.slot(), "a")
	e := checkEntry(1)
	e.Reason = "a NUL \x00, half a rune \xc3, a quote \" and a line\nbreak"
	recordCheck(w, "a", e)
	recordCheck(w, "a", checkEntry(2))
	got := trailOf(w, "a")
	for text := range strings.SplitSeq(string(got), "\n") {
		if !json.Valid([]byte(text)) {
			t.Errorf("not JSON: %q", text)
		}
	}
	if entries := got.Entries(); len(entries) != 2 || !strings.HasPrefix(entries[0].Reason, "a NUL \x00, half a rune \uFFFD, a quote \" and a line\nbreak") {
		t.Errorf("%+v", entries)
	}
}

// trailsRecordEffects checks that the changes by an event or a person are entries. Of successive updates the first is
// kept.
func trailsRecordEffects(t *testing.T, w *fixture) {
	w.start(w.slot(), "a")
	ref := w.ref(w.rule, "a")
	n := 0
	apply := func(subject string, action futurejobs.Action) {
		t.Helper()
		n++
		e := &futurejobs.Event{Subject: subject, At: w.slot().Add(time.Duration(n) * time.Second)}
		if subject == "" {
			e = nil
		}
		w.applyManually(futurejobs.Effect{Rule: w.rule, Ref: ref, Event: e, Action: action})
	}
	update := futurejobs.Update{Merge: func(json.RawMessage) (json.RawMessage, error) {
		return json.RawMessage(`{"n": ` + fmt.Sprint(n) + `}`), nil
	}}
	member := futurejobs.AddMember{Set: 1, Member: "m", Need: func(futurejobs.Job) (int, error) { return 9, nil }}
	until := w.slot().Add(time.Hour)

	apply("orders.changed", update)
	apply("orders.changed", update)
	apply("orders.packed", member)
	recordCheck(w, "a", checkEntry(1))
	apply("orders.changed", update)
	apply("orders.held", futurejobs.Pause{})
	apply("orders.freed", futurejobs.Resume{})
	apply("", futurejobs.Snooze{Until: until, By: "ada"})

	var got []string
	for _, e := range trailOf(w, "a").Entries() {
		text := string(e.Kind) + " " + e.By
		if e.Kind == futurejobs.Snoozed && e.Next.Equal(until) {
			text += " to then"
		}
		got = append(got, text)
	}
	want := []string{"update orders.changed", "check ", "update orders.changed", "pause orders.held", "resume orders.freed", "snooze ada to then"}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
	if first := trailOf(w, "a").Entries()[0]; !first.At.Equal(w.slot().Add(time.Second)) {
		t.Errorf("the first update was at %s", first.At)
	}
	if state := string(w.one("a").State); state != `{"n": 4}` {
		t.Errorf("the state is %s", state)
	}
}
