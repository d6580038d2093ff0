package bench_test

import (
	"bytes"
	"encoding/json"
	"flag"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"testing"
	"time"

	"deadman/internal/bench"
	"deadman/internal/tools/chart"
)

var rewrite = flag.Bool("rewrite", false, "draw the curves anew")

// pictures is the folder of the curves and of the results of deadman bench.
const pictures = "../../docs/pictures"

// TestCurves fails if a curve does not match the measurements. After a new measurement (make bench/curves), go test
// ./internal/bench -run '^TestCurves$' -rewrite draws the curves.
func TestCurves(t *testing.T) {
	all := measurements(t)
	for name, p := range map[string]chart.Picture{"throughput": throughput(all), "latency": latencies(all)} {
		file := filepath.Join(pictures, name+".svg")
		want, err := p.Draw()
		if err != nil {
			t.Fatalf("%s: %v", file, err)
		}
		if *rewrite {
			if err := os.WriteFile(file, want, 0o644); err != nil {
				t.Fatal(err)
			}
		}
		if got, err := os.ReadFile(file); err != nil || !bytes.Equal(got, want) {
			t.Errorf("%s is not what was measured (%v); run go test ./internal/bench -run '^TestCurves$' -rewrite", file, err)
		}
	}
}

// measurement is the output of one run of deadman bench.
type measurement struct{ Rounds []bench.Result }

// measurements returns the measurements ordered by file name.
func measurements(t *testing.T) (all []measurement) {
	t.Helper()
	files, err := filepath.Glob(filepath.Join(pictures, "curves", "*.json"))
	if err != nil {
		t.Fatal(err)
	}
	for _, file := range files {
		text, err := os.ReadFile(file)
		if err != nil {
			t.Fatal(err)
		}
		var m measurement
		if err := json.Unmarshal(text, &m); err != nil {
			t.Fatalf("%s: %v", file, err)
		}
		all = append(all, m)
	}
	return all
}

// pending returns the number of pending jobs beside the measured ones.
func (m measurement) pending() (n int) {
	for _, r := range m.Rounds {
		if r.Shape == bench.Backlog {
			n += r.Jobs
		}
	}
	return n
}

// of returns the rounds of a way of a shape.
func (m measurement) of(shape bench.Shape, way string) []bench.Result {
	return slices.DeleteFunc(slices.Clone(m.Rounds), func(r bench.Result) bool { return r.Shape != shape || r.Way != way })
}

// throughput draws jobs finished per second by the number of pending jobs.
func throughput(all []measurement) chart.Picture {
	p := chart.Picture{
		Title: "Jobs finished in a second, beside jobs that wait",
		X:     chart.Axis{Name: "jobs that wait, due later", Text: chart.FormatCount, Log: true}, Y: chart.Axis{Name: "jobs a second", Text: chart.FormatCount},
		Lines: []chart.Line{{Name: "bare SQL"}, {Name: "deadman"}},
	}
	for i, way := range []string{bench.Floor, bench.Engine} {
		for _, m := range all {
			if rounds := m.of(bench.Finish, way); len(rounds) > 0 {
				p.Note = captionOf(rounds, "of "+chart.FormatCount(float64(rounds[0].Jobs))+" jobs")
				add(&p.Lines[i], float64(m.pending()), rounds, bench.Result.Rate)
			}
		}
	}
	return p
}

// latencies draws the time from the slot to the alert by the number of jobs due in it.
func latencies(all []measurement) chart.Picture {
	p := chart.Picture{
		Title: "From the slot to its alerts on NATS, one node",
		X:     chart.Axis{Name: "jobs due in one slot", Text: chart.FormatCount, Log: true}, Y: chart.Axis{Name: "time after the slot", Text: chart.FormatSeconds, Log: true},
	}
	for _, l := range []struct {
		name string
		of   func(bench.Result) time.Duration
	}{
		{"99 of 100", func(r bench.Result) time.Duration { return r.P99 }},
		{"half of them", func(r bench.Result) time.Duration { return r.P50 }},
	} {
		of := chart.Line{Name: l.name}
		for _, m := range all {
			if rounds := m.of(bench.Latency, bench.Node); len(rounds) > 0 {
				p.Note = captionOf(rounds, "with no other jobs")
				add(&of, float64(rounds[0].Jobs), rounds, func(r bench.Result) float64 { return l.of(r).Seconds() })
			}
		}
		p.Lines = append(p.Lines, of)
	}
	return p
}

// captionOf returns the note of a point.
func captionOf(rounds []bench.Result, of string) string {
	if len(rounds) == 1 {
		return "one round " + of
	}
	return fmt.Sprintf("the median of %d rounds %s; the bars are from the least to the most", len(rounds), of)
}

// add adds the point of some rounds at x to a line.
func add(l *chart.Line, x float64, rounds []bench.Result, value func(bench.Result) float64) {
	var all []float64
	for _, r := range rounds {
		all = append(all, value(r))
	}
	slices.Sort(all)
	l.Points = append(l.Points, chart.Point{X: x, Y: (all[(len(all)-1)/2] + all[len(all)/2]) / 2, Least: all[0], Most: all[len(all)-1]})
	slices.SortFunc(l.Points, func(a, b chart.Point) int { return int(a.X - b.X) })
}
