package bench_test

import (
	"encoding/json"
	"testing"
	"time"

	"deadman/internal/bench"
)

// The other values of rounds are summarized as medians, too; missing values are left out.
func TestSummarize(t *testing.T) {
	round := func(p50 time.Duration, pages int64, idle float64) bench.Result {
		return bench.Result{
			Shape: bench.Due, Way: "pending=1", Jobs: 1000, Took: time.Second,
			P50: p50, P99: 2 * p50, Most: 3 * p50, Buffers: pages, Idle: idle,
		}
	}
	all := bench.Summarize([]bench.Result{round(10*time.Millisecond, 200, 4), {Shape: bench.Create, Way: bench.Floor, Jobs: 10, Took: time.Second}, round(90*time.Millisecond, 900, 3), round(20*time.Millisecond, 300, 2)})
	if len(all) != 2 {
		t.Fatalf("%+v", all)
	}
	for i, want := range []map[string]any{
		{"p50_ns": 20e6, "p99_ns": 40e6, "most_ns": 60e6, "buffers": 300.0, "idle_buffers": 3.0, "of_floor": 1.0},
		{"p50_ns": nil, "p99_ns": nil, "most_ns": nil, "buffers": nil, "idle_buffers": nil, "of_floor": 1.0},
	} {
		text, err := json.Marshal(all[i])
		if err != nil {
			t.Fatal(err)
		}
		var got map[string]any
		if err := json.Unmarshal(text, &got); err != nil {
			t.Fatal(err)
		}
		for name, value := range want {
			if got[name] != value {
				t.Errorf("%s: %s is %v, want %v", all[i].Way, name, got[name], value)
			}
		}
	}
}
