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

// looked returns an entry of a trail, identified by a number.
func looked(n int) futurejobs.Entry {
	return futurejobs.Entry{
		Kind: futurejobs.Checked, At: time.Unix(int64(1_800_000_000+n), 0).UTC(), Values: fmt.Sprintf(`state.name = "Jörg %d\n"`, n),
	}
}

// kept returns the trail of a key's job: of the pending one, or else of the last ended one.
func kept(w *fixture, key string) futurejobs.Trail {
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

// look settles a check of the job of a key, with an entry and without an alert.
func look(w *fixture, key string, e futurejobs.Entry) {
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
		look(w, "a", looked(n))
		want = want.With(looked(n).Trail())
		if got := kept(w, "a"); got != want {
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
	look(w, "a", looked(1))
	want := looked(1).Trail()
	ref := w.ref(w.rule, "a")
	beat := futurejobs.Heartbeat{Play: func(j *futurejobs.Job) (futurejobs.HeartbeatResult, error) {
		on := *j
		return futurejobs.HeartbeatResult{Job: &on, Next: j.NextCheckAt.Add(time.Hour), News: true}, nil
	}}
	if beaten := w.byHand(futurejobs.Effect{Rule: w.rule, Ref: ref, Action: beat}); beaten.Postponed != 1 {
		t.Fatalf("%+v", beaten)
	}
	if got := kept(w, "a"); got != want {
		t.Errorf("after a beat it is %q", got)
	}
	w.settle(w.later(w.one("a"), w.one("a").NextCheckAt.Add(time.Minute)))
	if got := kept(w, "a"); got != want {
		t.Errorf("after a check without an entry it is %q", got)
	}
	if got := w.one("a").Trail; got != "" {
		t.Errorf("a check reads it: %q", got)
	}
}

// trailsGoToHistory checks that trails go to the history with their job, for every kind of end.
func trailsGoToHistory(t *testing.T, w *fixture) {
	w.start(w.slot(), "settled", "resolved", "restarted")
	for _, key := range []string{"settled", "resolved", "restarted"} {
		look(w, key, looked(1))
	}
	j := w.one("settled")
	last := looked(2)
	last.Outcome = checks.Cleared
	j.Trail = last.Trail()
	w.settle(futurejobs.Decision{Job: j, Outcome: last.Outcome})
	again := w.starting(w.rule, "restarted", w.slot())
	start, _ := again.Action.(futurejobs.Start)
	start.Restart = true
	again.Action = start
	w.byHand(w.ending(w.rule, "resolved"), again)

	for key, want := range map[string]futurejobs.Trail{
		"settled": looked(1).Trail().With(last.Trail()), "resolved": looked(1).Trail(), "restarted": "",
	} {
		if got := kept(w, key); got != want {
			t.Errorf("%s: %q, want %q", key, got, want)
		}
	}
	f := futurejobs.Filter{Entity: w.rule.Entity, Key: "restarted"}
	if past := must[futurejobs.Page[futurejobs.EndedJob]](t)(w.History(w.ctx(), f)); len(past.Items) != 1 || past.Items[0].Trail != looked(1).Trail() {
		t.Errorf("of the wait that was restarted: %+v", past.Items)
	}
}

// trailsAreNotListed checks that lists of many jobs omit trails.
func trailsAreNotListed(t *testing.T, w *fixture) {
	w.start(w.slot(), "a", "b")
	look(w, "a", looked(1))
	look(w, "b", looked(1))
	w.byHand(w.ending(w.rule, "b"))
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

// trailsTakeAnyText checks that any text from outside is stored as text.
func trailsTakeAnyText(t *testing.T, w *fixture) {
	w.start(w.slot(), "a")
	e := looked(1)
	e.Reason = "a NUL \x00, half a rune \xc3, a quote \" and a line\nbreak"
	look(w, "a", e)
	look(w, "a", looked(2))
	got := kept(w, "a")
	for text := range strings.SplitSeq(string(got), "\n") {
		if !json.Valid([]byte(text)) {
			t.Errorf("not JSON: %q", text)
		}
	}
	if entries := got.Entries(); len(entries) != 2 || !strings.HasPrefix(entries[0].Reason, "a NUL \x00, half a rune \uFFFD, a quote \" and a line\nbreak") {
		t.Errorf("%+v", entries)
	}
}

// trailsTellOfEffects checks that the changes by an event or a person are entries. Of successive updates the first is
// kept.
func trailsTellOfEffects(t *testing.T, w *fixture) {
	w.start(w.slot(), "a")
	ref := w.ref(w.rule, "a")
	n := 0
	apply := func(subject string, ask futurejobs.Action) {
		t.Helper()
		n++
		e := &futurejobs.Event{Subject: subject, At: w.slot().Add(time.Duration(n) * time.Second)}
		if subject == "" {
			e = nil
		}
		w.byHand(futurejobs.Effect{Rule: w.rule, Ref: ref, Event: e, Action: ask})
	}
	update := futurejobs.Update{Merge: func(json.RawMessage) (json.RawMessage, error) {
		return json.RawMessage(`{"n": ` + fmt.Sprint(n) + `}`), nil
	}}
	member := futurejobs.AddMember{Set: 1, Member: "m", Need: func(futurejobs.Job) (int, error) { return 9, nil }}
	until := w.slot().Add(time.Hour)

	apply("orders.changed", update)
	apply("orders.changed", update)
	apply("orders.packed", member)
	look(w, "a", looked(1))
	apply("orders.changed", update)
	apply("orders.held", futurejobs.Pause{})
	apply("orders.freed", futurejobs.Resume{})
	apply("", futurejobs.Snooze{Until: until, By: "ada"})

	var got []string
	for _, e := range kept(w, "a").Entries() {
		said := string(e.Kind) + " " + e.By
		if e.Kind == futurejobs.Snoozed && e.Next.Equal(until) {
			said += " to then"
		}
		got = append(got, said)
	}
	want := []string{"update orders.changed", "check ", "update orders.changed", "pause orders.held", "resume orders.freed", "snooze ada to then"}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
	if first := kept(w, "a").Entries()[0]; !first.At.Equal(w.slot().Add(time.Second)) {
		t.Errorf("the first update was at %s", first.At)
	}
	if state := string(w.one("a").State); state != `{"n": 4}` {
		t.Errorf("the state is %s", state)
	}
}
