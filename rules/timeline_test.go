package rules

import (
	"encoding/json"
	"testing"
	"time"

	"deadman/rules/bodies"

	"deadman/checks"
	futurejobs "deadman/future_jobs"
)

// The timeline up to a step is a part of the whole timeline, even if steps are not due in the order that they are
// written in.
func TestTimelineUpToStep(t *testing.T) {
	since := time.Date(2026, 3, 2, 10, 0, 0, 0, time.UTC)
	for name, c := range map[string]struct {
		escalate string
		first    int // how many steps are computed for the first
	}{
		"rising":              {"[{after: 1h}, {after: 2h, step: b}, {every: 1h, times: 3, step: c}]", 1},
		"spread":              {"[{after: 1h}, {after: 2h, step: b}]\nspread: 1h", 1},
		"nagging":             {"[{after: 1h}, {every: 30m, until: acknowledged, step: b}, {after: 3h, step: c}, {after: 12h, step: d}]\nguards: {horizon: 1d}", 1},
		"computed":            {`[{after: 'key == "k" ? hours(3) : hours(1)'}, {after: 2h, step: b}, {after: 4h, step: c}]`, 3},
		"of a calendar":       {"[{after: 1h, of: office}, {after: 2h, step: b}]", 2},
		"within a calendar":   {"[{after: 1h, within: office}, {after: 2h, step: b}]", 2},
		"nagging and at once": {"[{every: 30m, until: acknowledged}]\nguards: {horizon: 1d}", 1},
	} {
		t.Run(name, func(t *testing.T) {
			r := compileRule(t, "name: a\nentity: b\ntrigger: {heartbeat: {every: 10m}}\nescalate: "+c.escalate+"\n")
			for _, pauses := range [][]checks.Pause{nil, {{From: since.Add(90 * time.Minute), To: since.Add(100 * time.Minute)}}} {
				w := jobContext{scope: scope{key: "k", since: since, event: bodies.New(nil), state: bodies.New(nil)}, pauses: pauses}
				whole, err := r.timeline(w)
				if err != nil {
					t.Fatal(err)
				}
				for place, want := range whole {
					part, err := r.timelineTo(w, place)
					if err != nil || len(part) <= place || part[place].name != want.name || part[place].turn != want.turn || !part[place].at.Equal(want.at) {
						t.Fatalf("step %d: %v, %v; want %s at %s", place, part, err, want.name, want.at)
					}
					if place == 0 && len(part) != c.first {
						t.Errorf("%d steps are worked out for the first, want %d", len(part), c.first)
					}
				}
			}
		})
	}
}

// BenchmarkHeartbeat measures a heartbeat that leaves the next check unchanged: it must not cost more for steps that are far
// away.
func BenchmarkHeartbeat(b *testing.B) {
	for _, escalate := range []string{"[{after: 0s}]", "[{after: 0s}, {every: 30m, until: acknowledged, step: nag}]"} {
		b.Run(escalate, func(b *testing.B) {
			documents, err := Parse([]byte("name: a\nentity: b\ntrigger: {heartbeat: {every: 10m}}\nescalate: "+escalate+"\n"), "")
			if err != nil {
				b.Fatal(err)
			}
			r, err := Compile(documents[0], RuleVersion{}, nil)
			if err != nil {
				b.Fatal(err)
			}
			beat := ReceivedHeartbeat{Key: "k", Kind: Success, At: time.Date(2026, 3, 2, 10, 0, 10, 0, time.UTC)}
			begun, err := heartbeatUpdate{r, beat, true, func(heartbeatState) (json.RawMessage, error) { return nil, nil }, nil}.newJob(nil)
			if err != nil {
				b.Fatal(err)
			}
			b.ReportAllocs()
			for b.Loop() {
				effect, err := r.HeartbeatEffect(beat, 1)
				if err != nil {
					b.Fatal(err)
				}
				if _, err := effect.Action.(futurejobs.Heartbeat).Play(begun); err != nil {
					b.Fatal(err)
				}
			}
		})
	}
}
