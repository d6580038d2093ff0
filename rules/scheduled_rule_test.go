package rules

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"deadman/rules/document"

	"github.com/google/go-cmp/cmp"

	"deadman/alerts"
	futurejobs "deadman/future_jobs"
)

// tickingRule returns a rule with versions that were saved at minutes after an hour.
func tickingRule(t *testing.T, versions map[int]string) futurejobs.TickingRule {
	t.Helper()
	_, all := catalogOf(t, versions).Scheduled()
	if len(all) != 1 {
		t.Fatalf("%d rules tick", len(all))
	}
	return all[0]
}

// catalogOf returns a catalog with a rule whose versions were saved so many minutes past ten.
func catalogOf(t *testing.T, versions map[int]string) *Catalog {
	t.Helper()
	var saved []RuleVersion
	for m := range 60 {
		text, is := versions[m]
		if !is {
			continue
		}
		documents, err := Parse([]byte("name: due\nentity: import\n"+text), "")
		if err != nil {
			t.Fatal(err)
		}
		document, err := documents[0].Canonical()
		if err != nil {
			t.Fatal(err)
		}
		saved = append(saved, RuleVersion{
			RuleID: 7, Version: int32(len(saved) + 1), Name: "due", Entity: "import", Document: document, SavedAt: minuteOf(m).Add(500 * time.Millisecond),
			Reads: readsOf(documents[0]),
		})
	}
	b := &Catalog{shards: 4}
	b.current.Store(newSnapshot(1, saved, nil, environment{}))
	return b
}

// minuteOf returns a minute after ten.
func minuteOf(m int) time.Time { return time.Date(2026, 5, 4, 10, m, 0, 0, time.UTC) }

const oneStep = "\nescalate: [{after: 1m}]\n"

// A version decides the ticks after its save, up to the save of the next; @every counts from the save of the first.
func TestVersionsHaveTheirOwnTicks(t *testing.T) {
	s := tickingRule(t, map[int]string{
		5:  `trigger: {schedule: "*/10 * * * *"}` + oneStep,
		25: `trigger: {schedule: "*/15 * * * *"}` + oneStep,
		42: `trigger: {event: imports.started, key: event.id}` + oneStep,
		44: `trigger: {schedule: "@every 4m"}` + oneStep,
		50: `trigger: {schedule: "@every 4m", keys: [a]}` + "\nagain: keep" + oneStep,
	})
	var got []string
	after := s.From()
	for range 8 {
		tick, ok := s.Next(after)
		if !ok {
			t.Fatal("no tick")
		}
		d, ok, err := s.Due(after, tick)
		if err != nil || !ok || !d.At.Equal(tick) || d.Missed != 0 {
			t.Fatalf("due: %+v, %v, %v", d, ok, err)
		}
		if _, ok, _ := s.Due(after, tick.Add(-time.Microsecond)); ok {
			t.Errorf("%s is due before its time", tick)
		}
		got = append(got, fmt.Sprintf("%s v%d", tick.Format("15:04:05"), d.Effects[0].Rule.Version))
		after = tick
	}
	want := strings.Split("10:10:00 v1,10:20:00 v1,10:30:00 v2,10:45:00 v4,10:49:00 v4,10:53:00 v5,10:57:00 v5,11:01:00 v5", ",")
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("ticks (-want +got):\n%s", diff)
	}
	d, ok, err := s.Due(s.From(), minuteOf(57))
	if err != nil || !ok || !d.At.Equal(minuteOf(57)) || d.Missed != 6 {
		t.Errorf("all at once: %+v, %v, %v", d, ok, err)
	}
}

// Ticks of a version that is not enabled are not missed.
func TestTicksOfRestingVersionAreNotMissed(t *testing.T) {
	s := tickingRule(t, map[int]string{
		5:  `trigger: {schedule: "*/10 * * * *"}` + "\nenabled: false" + oneStep,
		25: `trigger: {schedule: "*/10 * * * *"}` + oneStep,
	})
	for m, want := range map[int]futurejobs.DueTicks{
		21: {At: minuteOf(20), Outcome: futurejobs.TickPaused},
		31: {At: minuteOf(30), Outcome: futurejobs.TickStarted},
		41: {At: minuteOf(40), Outcome: futurejobs.TickStarted, Missed: 1},
	} {
		d, ok, err := s.Due(s.From(), minuteOf(m))
		d.Effects = nil
		if diff := cmp.Diff(want, d); diff != "" || !ok || err != nil {
			t.Errorf("at %d: %v, %v (-want +got):\n%s", m, ok, err, diff)
		}
	}
}

// The jobs or the event of a tick, for each form of its rule.
func TestTicksCreateJobsOrEmit(t *testing.T) {
	for name, c := range map[string]struct {
		rule string
		late time.Duration
		want string
	}{
		"its own key": {"", 0, "started; 2026-05-04T10:30:00Z first 10:31"},
		"keys":        {"keys: [a, b]", 0, "started; a first 10:31; b first 10:31"},
		"data":        {"emit: {subject: imports.due, data: [1, x]}", 0, `emitted; imports.due due-1777890600 [1,"x"]`},
		"its tick":    {"emit: {subject: imports.due}", 0, `emitted; imports.due due-1777890600 {"tick":"2026-05-04T10:30:00Z","missed":0}`},
		"late":        {"keys: [a]", 2 * time.Hour, "started; a first 10:31"},
		"skipped": {
			"keys: [a]}\ncatch_up: {after: 1h, do: skip", 2 * time.Hour,
			"skipped; expired: rule due, tick at 2026-05-04T10:30:00Z: the tick was found 2h late, more than catch_up.after, 1h; it is skipped",
		},
		"not yet late": {
			"keys: [a]}\ncatch_up: {after: 1h, do: skip", time.Hour, "started; a first 10:31",
		},
		"expired": {
			"keys: [a]}\ncatch_up: {after: 1h, do: expire", 2 * time.Hour,
			"expired; a lapses; expired: rule due, tick at 2026-05-04T10:30:00Z: the tick was found 2h late, more than catch_up.after, 1h",
		},
		"an emission that expired": {
			"emit: {subject: imports.due}}\ncatch_up: {after: 1h, do: expire", 2 * time.Hour,
			"expired; expired: rule due, tick at 2026-05-04T10:30:00Z: the tick was found 2h late, more than catch_up.after, 1h",
		},
		"refused": {
			`keys: ["1", x]` + "}\nguards: {horizon: 1h}\nescalate: [{after: 'key == \"x\" ? hours(2) : minutes(1)'}]\n#", 0,
			"started; 1 first 10:31; firing: rule due, tick at 2026-05-04T10:30:00Z: 1 of its jobs could not be created; the first error is x: " +
				"step step-1 would be at 2026-05-04T12:30:00Z, beyond the horizon, 1h; raise guards.horizon",
		},
	} {
		t.Run(name, func(t *testing.T) {
			text := `trigger: {schedule: "30 * * * *", ` + c.rule + "}\n"
			if !strings.Contains(text, "emit") && !strings.Contains(text, "escalate") {
				text += oneStep
			}
			s := tickingRule(t, map[int]string{0: text})
			d, ok, err := s.Due(s.From(), minuteOf(30))
			if c.late > 0 {
				s, now := s.(scheduled), minuteOf(30).Add(c.late)
				d = futurejobs.DueTicks{At: minuteOf(30)}
				err = s.outcome(s.versions[0], now, &d)
			}
			if !ok || err != nil {
				t.Fatal(ok, err)
			}
			if got := tickSummary(d); got != c.want {
				t.Errorf("\ngot  %s\nwant %s", got, c.want)
			}
		})
	}
}

// The alert for a tick that is found too late has the number of missed ticks before it, and the severity of the rule.
func TestLateTickNamesMissedTicks(t *testing.T) {
	for do, severity := range map[string]alerts.Severity{"expire": alerts.Warning, "skip": alerts.Info} {
		s := tickingRule(t, map[int]string{0: `trigger: {schedule: "*/10 * * * *", keys: [a]}` + "\ncatch_up: {after: 1m, do: " + do + "}" + oneStep})
		for m, want := range map[int]string{12: "catch_up.after, 1m", 22: "; 1 tick before it was missed", 33: "; 2 ticks before it were missed"} {
			d, ok, err := s.Due(s.From(), minuteOf(m))
			if err != nil || !ok || len(d.Alerts) != 1 {
				t.Fatalf("%+v, %v, %v", d, ok, err)
			}
			if alert := d.Alerts[0]; !strings.HasSuffix(strings.TrimSuffix(alert.Text, "; it is skipped"), want) || alert.Severity != severity {
				t.Errorf("%s at %d: %s %s", do, m, alert.Severity, alert.Text)
			}
		}
	}
}

// tickSummary returns the result of a tick, in a line.
func tickSummary(d futurejobs.DueTicks) string {
	texts := []string{string(d.Outcome)}
	for _, e := range d.Effects {
		switch action := e.Action.(type) {
		case futurejobs.Start:
			texts = append(texts, e.Ref.Key+" first "+action.Job.FirstCheckAt.Format("15:04"))
		case futurejobs.StartExpired:
			texts = append(texts, e.Ref.Key+" lapses")
		}
	}
	if d.Emit != nil {
		texts = append(texts, fmt.Sprintf("%s %s %s", d.Emit.Subject, d.Emit.ID, d.Emit.Data))
	}
	for _, r := range d.Alerts {
		texts = append(texts, string(r.Status)+": "+r.Text)
	}
	return strings.Join(texts, "; ")
}

// An event before a tick does not affect the job of the tick, regardless of when it is read.
func TestEventsBeforeTickAreLate(t *testing.T) {
	b := catalogOf(t, map[int]string{5: `trigger: {schedule: "@hourly", keys: [a]}
resolve: {event: imports.finished, key: event.id}` + oneStep})
	effects, refusals := b.Match(futurejobs.Event{Stream: "IMPORTS", Subject: "imports.finished", Seq: 1, At: minuteOf(30), Data: []byte(`{"id": "a"}`)})
	if len(refusals) > 0 || len(effects) != 1 || !effects[0].OutOfOrder {
		t.Errorf("%+v %v", effects, refusals)
	}
}

// readsOf returns reads of all subjects of a document from one stream.
func readsOf(d document.Document) (all []StreamBinding) {
	for _, subject := range d.Subjects() {
		all = append(all, StreamBinding{Subject: subject, Stream: "IMPORTS"})
	}
	return all
}
