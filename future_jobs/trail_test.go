package futurejobs

import (
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"deadman/alerts"
	"deadman/checks"
	"deadman/guards"
)

// entriesOf returns the entries that a decision adds.
func entriesOf(t *testing.T, d Decision) []Entry {
	t.Helper()
	if n := strings.Count(string(d.Job.Trail), "\n"); n > 0 {
		t.Errorf("%d line breaks in an entry", n)
	}
	return d.Job.Trail.Entries()
}

func TestCheckAddsTrailEntry(t *testing.T) {
	slot, late := noon, 1500*time.Millisecond
	fires := []alerts.Draft{{Status: alerts.Firing, Step: "primary"}}
	next := slot.Add(time.Hour)
	unknown := errors.New("no route to the warehouse")
	checked := Entry{Kind: Checked, At: slot, Lateness: late, Values: `state.status = "OPEN"`, Next: next}
	for _, c := range []struct {
		name   string
		answer checks.Answer
		err    error
		want   func(*Entry) // nil: no entry
	}{
		{name: "nothing is due", answer: checks.Answer{Next: next, Values: checked.Values}, want: func(*Entry) {}},
		{name: "a step", answer: checks.Answer{Next: next, Values: checked.Values, Step: 1, Alerts: fires}, want: func(e *Entry) { e.Step = "primary" }},
		{name: "held", answer: checks.Answer{Next: next, Values: checked.Values, Held: true, HeldStep: "late"}, want: func(e *Entry) { e.Held, e.Step = true, "late" }},
		{name: "an end with a suppressed step", answer: checks.Answer{Outcome: checks.Exhausted, Values: checked.Values, Held: true, HeldStep: "late"}, want: func(e *Entry) {
			e.Held, e.Step, e.Outcome, e.Next = true, "late", checks.Exhausted, time.Time{}
		}},
		{name: "undetermined", err: unknown, want: func(e *Entry) { e.Values, e.Reason, e.Next = "", unknown.Error(), slot.Add(time.Minute) }},
		{name: "an end without an alert", answer: checks.Answer{Outcome: checks.Cleared, Values: checked.Values}, want: func(e *Entry) { e.Outcome, e.Next = checks.Cleared, time.Time{} }},
		{name: "an end with an alert", answer: checks.Answer{Outcome: checks.Exhausted, Alerts: fires, Values: checked.Values}},
		{name: "an end of which there is nothing to tell", answer: checks.Answer{Outcome: checks.Exhausted}},
		{name: "a guard", answer: checks.Answer{Next: slot, Values: checked.Values}},
	} {
		t.Run(c.name, func(t *testing.T) {
			rule := orderRule()
			rule.Handler = inlineHandler{}
			rule.Limits = guards.Limits{Attempts: 3}
			before := Job{ID: 1, CreatedAt: noon, NextCheckAt: slot, Trail: "the stored trail is not that of the check"}
			d := decideJob(rule, before, CheckTimes{}, c.answer, c.err, slot.Add(late))
			var want []Entry
			if c.want != nil {
				e := checked
				c.want(&e)
				want = []Entry{e}
			}
			if diff := cmp.Diff(want, entriesOf(t, d)); diff != "" {
				t.Errorf("(-want +got):\n%s", diff)
			}
			if c.want == nil && d.Job.Trail != "" {
				t.Errorf("it is written: %q", d.Job.Trail)
			}
		})
	}
}

func TestUncheckedJobsAddTrailEntry(t *testing.T) {
	rule := orderRule()
	rule.CatchUp = CatchUp{After: time.Hour, Do: Skip}
	d := Decision{Job: Job{NextCheckAt: noon}}
	ok := d.decideLateOrDeleted(rule, noon.Add(2*time.Hour))
	if got := entriesOf(t, d); !ok || len(got) != 1 || !strings.HasPrefix(got[0].Reason, "found 2h after its slot") || got[0].Lateness != 2*time.Hour {
		t.Errorf("skipped: %+v", got)
	}
	d = Decision{Job: Job{NextCheckAt: noon}}
	d.streamTimedOut(rule, "ORDERS", noon.Add(time.Hour))
	if got := entriesOf(t, d); len(got) != 1 || !strings.Contains(got[0].Reason, "not read past") || got[0].Next.IsZero() {
		t.Errorf("unread: %+v", got)
	}
}

func TestTrailIsBounded(t *testing.T) {
	var trail Trail
	for n := range 2 * TrailMost {
		trail = trail.With(Entry{At: noon.Add(time.Duration(n) * time.Minute)}.Trail())
	}
	got := trail.Entries()
	if len(got) != TrailMost || !got[0].At.Equal(noon.Add(TrailMost*time.Minute)) || !got[TrailMost-1].At.Equal(noon.Add((2*TrailMost-1)*time.Minute)) {
		t.Errorf("%d entries, from %v", len(got), got[0].At)
	}
	if none := trail.With(""); none != trail || Trail("").With(trail) != trail {
		t.Error("nothing changes a trail")
	}
}

func TestEntryIsBounded(t *testing.T) {
	for name, text := range map[string]string{
		"letters": strings.Repeat("x", 5000), "runes": strings.Repeat("ä", 5000), "controls": strings.Repeat("\x00", 5000),
		"no text": strings.Repeat("\xff", 5000), "breaks": strings.Repeat("\n", 5000),
	} {
		t.Run(name, func(t *testing.T) {
			e := Entry{
				Kind: Paused, At: noon, Lateness: time.Second, Values: text, Reason: text, By: text, Step: "primary", Held: true, Next: noon.Add(time.Hour),
			}
			trail := e.Trail()
			got := trail.Entries()
			if len(trail) > entryMost || len(got) != 1 {
				t.Fatalf("%d bytes, %d entries: %s", len(trail), len(got), trail)
			}
			if got[0].Step != "primary" || !got[0].Next.Equal(e.Next) || got[0].Kind != Paused || !strings.HasSuffix(got[0].Reason, "…") {
				t.Errorf("%+v", got[0])
			}
		})
	}
}

// A line that lost its beginning, or that was edited by hand, hides no other entry.
func TestUnreadableLineIsSkipped(t *testing.T) {
	good := Entry{Kind: Checked, At: noon}
	trail := "12,\"next\":3}\n" + good.Trail() + "\n\n[]\n" + good.Trail()
	if diff := cmp.Diff([]Entry{good, good}, trail.Entries()); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
}

// BenchmarkDecide measures a decision after which the job continues.
func BenchmarkDecide(b *testing.B) {
	rule := orderRule()
	rule.Handler = inlineHandler{}
	answer := checks.Answer{Next: noon.Add(time.Hour), Nominal: true, Values: `state.status = "UNSHIPPED"`}
	job := Job{ID: 1, CreatedAt: noon, NextCheckAt: noon}
	b.ReportAllocs()
	for b.Loop() {
		if d := decideJob(rule, job, CheckTimes{}, answer, nil, noon.Add(time.Millisecond)); d.Ends() {
			b.Fatal(fmt.Sprint(d))
		}
	}
}
