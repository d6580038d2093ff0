package storetest

import (
	"bytes"
	"encoding/json"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"deadman/alerts"
	futurejobs "deadman/future_jobs"
)

// listedBytes bounds the bodies on a page of many large items.
const listedBytes = 64 << 10

// largeBytes is the size from which wholeBodies compares two bodies together.
const largeBytes = 1 << 10

// wholeBodies compares large bodies with bytes.Equal. By itself, cmp compares the bytes of a body one by one with
// reflection: a body of 200 KB takes a second with the race detector.
var wholeBodies = cmp.FilterValues(func(a, b []byte) bool { return len(a)+len(b) > largeBytes }, cmp.Comparer(bytes.Equal))

// ofSize returns a JSON object of a size in bytes.
func ofSize(size int) json.RawMessage {
	return json.RawMessage(`{"id":"` + strings.Repeat("x", size-len(`{"id":""}`)) + `"}`)
}

// largeBodiesAreLeftOut checks that a list has all items, with the large ones marked and without bodies, and that each
// is complete if read by itself. An alert keeps its text even behind large fields.
func largeBodiesAreLeftOut(t *testing.T, w *fixture) {
	const large = 40
	kept := make(map[alerts.ID]alerts.Alert)
	check := func(key string, event, state json.RawMessage, closes int) {
		j := w.job(w.rule, key, w.slot())
		j.Event, j.State = event, state
		w.applyManually(begins(w.rule, j))
		d := w.reschedule(w.one(key), w.slot().Add(time.Hour))
		a := &d.Alerts[0]
		a.Event, a.State, a.Text, a.Labels = event, state, "it waits: \"event\":", map[string]string{"event": "state"}
		for range closes {
			a.Closes = append(a.Closes, a.ID)
		}
		w.settle(d)
		kept[a.ID] = *a
	}
	for i := range large {
		check(fmt.Sprintf("large%02d", i), ofSize(200<<10), nil, 0)
	}
	check("state", ofSize(10<<10), ofSize(10<<10), 0)
	check("closes", ofSize(100<<10), nil, 400) // more than the part of its document that is read first
	check("small", ofSize(15<<10), nil, 0)

	for name, f := range map[string]futurejobs.Filter{"alerts": {Limit: 500}, "open": {Limit: 500, Open: true}} {
		size := 0
		listed := pages(t, f, w.Alerts)
		if len(listed) != large+3 {
			t.Errorf("%s: %d, want %d", name, len(listed), large+3)
		}
		for _, s := range listed {
			size += len(s.Event) + len(s.State)
			want := kept[s.ID]
			if s.Omitted != (s.Key != "small") {
				t.Errorf("%s: %s is listed without its bodies: %t", name, s.Key, s.Omitted)
			}
			if s.Omitted {
				want.Event, want.State = nil, nil
			}
			if diff := cmp.Diff(want, s.Alert, wholeBodies); diff != "" {
				t.Errorf("%s: %s (-decided +listed):\n%.2000s", name, s.Key, diff)
			}
		}
		if size > listedBytes {
			t.Errorf("%s: a page has bodies of %d bytes", name, size)
		}
	}
	if got := pages(t, futurejobs.Filter{Key: "large07", Entity: w.rule.Entity}, w.Alerts); len(got) != 1 || !got[0].Omitted || got[0].Event != nil {
		t.Errorf("the alerts of a key: %.300v", got)
	}
	for id, want := range kept {
		if diff := cmp.Diff(want, must[futurejobs.ListedAlert](t)(w.Alert(w.ctx(), id)).Alert, wholeBodies); diff != "" {
			t.Errorf("%s by itself (-decided +kept):\n%.2000s", want.Key, diff)
		}
	}
	largeJobsAreWholeByThemselves(t, w)
}

func largeJobsAreWholeByThemselves(t *testing.T, w *fixture) {
	size := 0
	for _, l := range pages(t, futurejobs.Filter{Limit: 500}, w.Jobs) {
		if size += len(l.Event) + len(l.State); !l.Omitted {
			t.Errorf("%s is listed with its bodies", l.Key)
		}
	}
	if size > 0 {
		t.Errorf("a page has bodies of %d bytes", size)
	}
	for key, is := range map[string]bool{"large07": true, "state": true, "small": false} {
		f := futurejobs.Filter{Entity: w.rule.Entity, Key: key}
		if l := pages(t, f, w.Jobs)[0]; l.Omitted != is || (l.Event == nil) != is {
			t.Errorf("%s among the jobs of its key: %d bytes, left out: %t", key, len(l.Event), l.Omitted)
		}
		whole := must[futurejobs.ListedJob](t)(w.Job(w.ctx(), w.rule.Name, key))
		if whole.Omitted || whole.Event == nil {
			t.Errorf("%s by itself: %d bytes, left out: %t", key, len(whole.Event), whole.Omitted)
		}
	}
}

// largeLettersAreLeftOut checks that a list has all dead letters, with the large ones marked and without headers and
// bodies, and that each is complete if read by itself.
func largeLettersAreLeftOut(t *testing.T, w *fixture) {
	b := batch(w, 7, 100)
	add := func(rule string, header, body int) {
		b.DeadLetters = append(b.DeadLetters, futurejobs.DeadLetter{Rule: rule, Reason: "bad", Event: futurejobs.Event{
			Stream: "ORDERS", Seq: uint64(8 + len(b.DeadLetters)), Data: ofSize(body), Header: map[string][]string{"X": {strings.Repeat("h", header)}},
		}})
	}
	for range 20 {
		add("large", 10, 200<<10)
	}
	add("header", 20<<10, 100)
	add("small", 10, 15<<10)
	must[futurejobs.ApplyResult](t)(w.Apply(w.ctx(), b))
	letters := pages(t, futurejobs.Filter{Limit: 500}, w.DeadLetters)
	if len(letters) != 22 {
		t.Fatalf("%d letters, want 22", len(letters))
	}
	for _, l := range letters {
		if is := l.Rule != "small"; l.Omitted != is || (l.Event.Data == nil) != is || (l.Event.Header == nil) != is {
			t.Errorf("a letter of %s: %d bytes, %d headers, left out: %t", l.Rule, len(l.Event.Data), len(l.Event.Header), l.Omitted)
		}
		want := b.DeadLetters[l.Event.Seq-8]
		whole := must[futurejobs.DeadLetter](t)(w.DeadLetter(w.ctx(), l.ID))
		want.ID, want.At = l.ID, l.At
		if diff := cmp.Diff(want, whole, wholeBodies); diff != "" {
			t.Errorf("a letter of %s by itself (-sent +kept):\n%.2000s", l.Rule, diff)
		}
	}
}
