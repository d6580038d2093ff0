package faults_test

import (
	"encoding/json"
	"fmt"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"deadman/rules/document"

	"pgregory.net/rapid"

	futurejobs "deadman/future_jobs"
	"deadman/rules"
)

// TestVirtualPreviewMatchesEngine draws rules and events, plays them through the engine on the real SQLite store
// in virtual time, and compares the alerts and the outcomes with those of previews.
func TestVirtualPreviewMatchesEngine(t *testing.T) {
	rapid.Check(t, func(r *rapid.T) {
		document := drawRule(r)
		perKey := map[string][]rules.PreviewEvent{}
		for i := range rapid.IntRange(1, 4).Draw(r, "keys") {
			key := fmt.Sprint(i)
			perKey[key] = drawEvents(r, key)
		}
		var reported, played map[string][]string
		synctest.Test(t, func(t *testing.T) {
			begin := time.Now().UTC()
			played = runThrough(t, document, perKey, begin)
			reported = previewAll(t, document, perKey, begin)
		})
		for key := range perKey {
			if got, want := strings.Join(played[key], "\n"), strings.Join(reported[key], "\n"); got != want {
				r.Fatalf("%s\nkey %s, events %s\nforetold:\n%s\nplayed:\n%s", document, key, show(perKey[key]), want, got)
			}
		}
	})
}

// playedFor is how long rules are played, with slots of a quarter of an hour.
const (
	playedFor = 30 * time.Hour
	quarter   = 15 * time.Minute
)

func show(events []rules.PreviewEvent) string {
	text, err := json.Marshal(events)
	if err != nil {
		return err.Error()
	}
	return string(text)
}

// drawRule draws a rule with all features that need no external system.
func drawRule(r *rapid.T) string {
	var b strings.Builder
	line := func(format string, args ...any) { fmt.Fprintf(&b, format+"\n", args...) }
	maybe := func(label, format string, args ...any) {
		if rapid.Bool().Draw(r, label) {
			line(format, args...)
		}
	}
	line("name: drawn\nentity: thing\nslot: 15m")
	since := rapid.SampledFrom([]string{"", ", since: event.began"}).Draw(r, "since")
	line("trigger: {event: t.started, key: event.id, if: event.n > 1%s}", since)
	line("again: %s", rapid.SampledFrom([]string{"keep", "restart"}).Draw(r, "again"))
	line("early: %s", rapid.SampledFrom([]string{"0s", "1h", "5h"}).Draw(r, "early"))
	maybe("update", "update: {event: t.changed, key: event.id}")
	maybe("pause", "pause: {event: t.changed, key: event.id, if: event.hold == true}")
	switch rapid.IntRange(0, 3).Draw(r, "resolve") {
	case 0:
		line("resolve: {event: t.done, key: event.id}")
	case 1:
		line("resolve: {event: t.done, key: event.id, distinct: event.part, need: 2}")
	case 2:
		line("resolve: [{event: t.done, key: event.id, distinct: event.part, need: state.n}, {event: t.changed, key: event.id, if: event.n == 7, as: called_off}]")
	}
	maybe("while", `while: (state.n ?? 0) != 5`)
	maybe("recheck", `recheck: date(state.began) + hours(state.n)`)
	maybe("quiet", "quiet: true")
	maybe("hold", "hold: %s", rapid.SampledFrom([]string{"0s", "2h", "9h"}).Draw(r, "held"))
	line("escalate:")
	after := time.Duration(0)
	for i := range rapid.IntRange(1, 3).Draw(r, "steps") {
		after += time.Duration(rapid.IntRange(1, 200).Draw(r, "after")) * time.Minute
		when := "after: " + document.Duration(after).String()
		switch rapid.IntRange(0, 4).Draw(r, "when") {
		case 0:
			when = "after: minutes(event.n * 50)"
		case 1:
			when = "at: date(event.began) + hours(event.n)"
		case 2:
			times := rapid.IntRange(1, 3).Draw(r, "times")
			when = fmt.Sprintf("every: %s, times: %d", document.Duration(40*time.Minute), times)
			after += time.Duration(times) * 40 * time.Minute
		}
		line(`  - {%s, step: s%d, severity: %s, text: "{{key}} {{step}} {{state.n ?? 0}}"}`, when, i,
			rapid.SampledFrom([]string{"info", "critical"}).Draw(r, "severity"))
	}
	line("guards: {max_checks: %d}", rapid.SampledFrom([]int{40, 60}).Draw(r, "max_checks"))
	line(`labels: {n: "{{state.n ?? 0}}"}`)
	return b.String()
}

// drawEvents draws the events of a key; their times count from the epoch of the play, at odd seconds, so that none is
// at a slot.
func drawEvents(r *rapid.T, key string) []rules.PreviewEvent {
	minutes := rapid.SliceOfNDistinct(rapid.IntRange(1, 20*60), 1, 8, rapid.ID[int]).Draw(r, "minutes")
	slices.Sort(minutes)
	var events []rules.PreviewEvent
	for i, m := range minutes {
		subject := "t.started"
		if i > 0 {
			subject = rapid.SampledFrom([]string{"t.started", "t.changed", "t.done", "t.done"}).Draw(r, "subject")
		}
		at := time.Unix(0, 0).UTC().Add(time.Duration(m)*time.Minute + 31*time.Second)
		body := map[string]any{
			"id": key, "n": rapid.IntRange(1, 7).Draw(r, "n"), "hold": rapid.Bool().Draw(r, "hold"),
			"part": rapid.SampledFrom([]string{"a", "b", "c"}).Draw(r, "part"),
			"back": rapid.IntRange(0, 90).Draw(r, "back"),
		}
		data, err := json.Marshal(body)
		if err != nil {
			r.Fatal(err)
		}
		events = append(events, rules.PreviewEvent{Subject: subject, At: at, Data: data})
	}
	return events
}

// shiftEvents adds the epoch of the play to the times of events.
func shiftEvents(t *testing.T, events []rules.PreviewEvent, begin time.Time) []rules.PreviewEvent {
	var moved []rules.PreviewEvent
	for _, e := range events {
		e.At = begin.Add(e.At.Sub(time.Unix(0, 0)))
		var body map[string]any
		if err := json.Unmarshal(e.Data, &body); err != nil {
			t.Fatal(err)
		}
		body["began"] = e.At.Add(-time.Duration(body["back"].(float64) * float64(time.Minute)))
		data, err := json.Marshal(body)
		if err != nil {
			t.Fatal(err)
		}
		e.Data = data
		moved = append(moved, e)
	}
	return moved
}

// previewAll returns the alerts and outcomes of each key in previews.
func previewAll(t *testing.T, document string, perKey map[string][]rules.PreviewEvent, begin time.Time) map[string][]string {
	parsed, err := rules.Parse([]byte(document), "drawn.yaml")
	if err != nil {
		t.Fatalf("%s\n%v", document, err)
	}
	var reads []rules.StreamBinding
	for _, subject := range parsed[0].Subjects() {
		reads = append(reads, rules.StreamBinding{Subject: subject, Stream: "ORDERS"})
	}
	rule, err := rules.Compile(parsed[0], rules.RuleVersion{Version: 1, Reads: reads}, nil)
	if err != nil {
		t.Fatal(err)
	}
	reported := map[string][]string{}
	for key, events := range perKey {
		preview, err := rule.Preview(t.Context(), shiftEvents(t, events, begin), begin.Add(playedFor))
		if err != nil {
			t.Fatal(err)
		}
		for _, line := range preview.Lines {
			switch line.Kind {
			case rules.LineAlert:
				reported[key] = append(reported[key], alertLine(line.At, string(line.Status), line.Step, line.Text, line.Labels["n"], line.SkippedSteps))
			case rules.LineEnds:
				reported[key] = append(reported[key], "ended "+line.Note)
			}
		}
		slices.Sort(reported[key])
	}
	return reported
}

func alertLine(at time.Time, status, step, text, label string, passed []string) string {
	return fmt.Sprintf("%s %s %s %q n=%s passed %v", at.UTC().Format(time.RFC3339), status, step, text, label, passed)
}

// runThrough plays the events through the engine and returns the alerts and outcomes of each key.
func runThrough(t *testing.T, document string, perKey map[string][]rules.PreviewEvent, begin time.Time) map[string][]string {
	var all []rules.PreviewEvent
	for _, events := range perKey {
		all = append(all, shiftEvents(t, events, begin)...)
	}
	slices.SortStableFunc(all, func(a, b rules.PreviewEvent) int { return a.At.Compare(b.At) })

	run := openVirtual(t, t.TempDir())
	run.save(t, document)
	run.begin(t)
	for now := time.Now(); now.Before(begin.Add(playedFor)); now = time.Now() {
		all = run.previewEvents(t, all)
		next := futurejobs.Grid(quarter).After(now)
		if len(all) > 0 && all[0].At.Before(next) {
			next = all[0].At
		}
		time.Sleep(time.Until(next))
	}
	defer run.end(t)

	played := map[string][]string{}
	page, err := run.store.Alerts(t.Context(), futurejobs.Filter{Limit: futurejobs.MaxLimit})
	if err != nil {
		t.Fatal(err)
	}
	for _, a := range page.Items {
		at := a.Slot
		played[a.Key] = append(played[a.Key], alertLine(at, string(a.Status), a.Step, a.Text, a.Labels["n"], a.SkippedSteps))
	}
	ended, err := run.store.History(t.Context(), futurejobs.Filter{Limit: futurejobs.MaxLimit})
	if err != nil {
		t.Fatal(err)
	}
	for _, e := range ended.Items {
		played[e.Key] = append(played[e.Key], "ended "+string(e.Outcome))
	}
	for _, lines := range played {
		slices.Sort(lines)
	}
	return played
}
