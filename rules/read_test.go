package rules

import (
	"testing"
	"time"

	futurejobs "deadman/future_jobs"
)

func TestReadAfter(t *testing.T) {
	created := time.Date(2026, 1, 1, 0, 0, 0, 0, time.UTC)
	saved := created.Add(time.Hour)
	read := StreamBinding{From: 10, At: saved, CreatedAt: created}
	legacy := StreamBinding{From: 10, At: saved}
	for _, c := range []struct {
		name string
		read StreamBinding
		e    futurejobs.Event
		want bool
	}{
		{"before the save", read, futurejobs.Event{Seq: 10, At: saved, StreamCreatedAt: created}, false},
		{"after the save", read, futurejobs.Event{Seq: 11, At: saved, StreamCreatedAt: created}, true},
		{"restored, and new", read, futurejobs.Event{Seq: 5, At: saved.Add(1), StreamCreatedAt: created}, true},
		{"recreated, and new", read, futurejobs.Event{Seq: 5, At: saved.Add(1), StreamCreatedAt: saved}, true},
		{"recreated, and old", read, futurejobs.Event{Seq: 50, At: saved, StreamCreatedAt: saved}, false},
		{"an unknown stream creation", read, futurejobs.Event{Seq: 11, At: saved}, true},
		{"saved by an earlier program", legacy, futurejobs.Event{Seq: 11, At: saved, StreamCreatedAt: saved}, true},
	} {
		if got := c.read.after(c.e); got != c.want {
			t.Errorf("%s: %v, want %v", c.name, got, c.want)
		}
	}
}

func TestCopiesAreSkipped(t *testing.T) {
	v := &version{saved: RuleVersion{Reads: []StreamBinding{
		{Subject: "a.*", Stream: "B", Given: []CopiedFrom{{Stream: "A", Through: 7}}}, {Subject: "a.*", Stream: "C"},
	}}}
	r := &rule{versions: []*version{v}}
	for source, want := range map[string]bool{
		"": true, "A 7 > > a.x": false, "A 8 > > a.x": true, "OTHER 3 > > a.x": true, "C 9 > > a.x": false, "odd": true,
	} {
		e := futurejobs.Event{Stream: "B", Subject: "a.x", Seq: 1}
		if source != "" {
			e.Header = map[string][]string{sourceHeader: {source}}
		}
		if got := r.inCharge(e) == v; got != want {
			t.Errorf("a copy of %q counts: %v, want %v", source, got, want)
		}
	}
}
