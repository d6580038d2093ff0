package bench

import (
	"slices"
	"time"
)

// Summary summarizes all rounds of a way: medians, unless noted otherwise. 0: unknown.
type Summary struct {
	Shape   Shape         `json:"shape"`
	Way     string        `json:"way"`
	Rate    float64       `json:"jobs_per_second"`
	Least   float64       `json:"least"` // of all rounds
	Most    float64       `json:"most"`
	OfFloor float64       `json:"of_floor"` // ratio of the rate to that of the shape's first way
	WAL     int64         `json:"wal_bytes_per_job"`
	CPU     time.Duration `json:"cpu_ns_per_job"`
	Memory  int64         `json:"memory_bytes"` // maximum of all rounds
	First   bool          `json:"first"`        // the other ways of the shape are compared with it
	// P50, P99 and Longest are of single reads, or of the delays of alerts after their slot.
	P50     time.Duration `json:"p50_ns,omitempty"`
	P99     time.Duration `json:"p99_ns,omitempty"`
	Longest time.Duration `json:"most_ns,omitempty"`
	// Buffers is the number of database pages touched by one read, and Idle the number that a sweep touched per shard
	// when nothing was left to do.
	Buffers int64   `json:"buffers,omitempty"`
	Idle    float64 `json:"idle_buffers,omitempty"`
}

// Summarize summarizes the rounds of each way, in the order of the first round of each.
func Summarize(results []Result) (all []Summary) {
	floor := map[Shape]float64{}
	for _, way := range waysIn(results) {
		s := summaryOf(slices.DeleteFunc(slices.Clone(results), func(r Result) bool { return r.Shape != way.Shape || r.Way != way.Way }))
		if _, known := floor[s.Shape]; !known {
			floor[s.Shape], s.First = s.Rate, true
		}
		s.OfFloor = s.Rate / floor[s.Shape]
		all = append(all, s)
	}
	return all
}

// summaryOf summarizes the rounds of one way.
func summaryOf(rounds []Result) Summary {
	values := func(of func(Result) float64) (all []float64) {
		for _, r := range rounds {
			all = append(all, of(r))
		}
		return all
	}
	mid := func(of func(Result) float64) float64 { return median(values(of)) }
	lasting := func(of func(Result) time.Duration) time.Duration {
		return time.Duration(mid(func(r Result) float64 { return float64(of(r)) }))
	}
	rates := values(Result.Rate)
	return Summary{
		Shape: rounds[0].Shape, Way: rounds[0].Way, Rate: median(rates), Least: slices.Min(rates), Most: slices.Max(rates),
		WAL:     int64(mid(func(r Result) float64 { return float64(r.WAL) / float64(r.Jobs) })),
		CPU:     time.Duration(mid(func(r Result) float64 { return float64(r.CPU) / float64(r.Jobs) })),
		Memory:  int64(slices.Max(values(func(r Result) float64 { return float64(r.Memory) }))),
		P50:     lasting(func(r Result) time.Duration { return r.P50 }),
		P99:     lasting(func(r Result) time.Duration { return r.P99 }),
		Longest: lasting(func(r Result) time.Duration { return r.Most }),
		Buffers: int64(mid(func(r Result) float64 { return float64(r.Buffers) })),
		Idle:    mid(func(r Result) float64 { return r.Idle }),
	}
}

// waysIn returns the measured ways, the first of each shape first.
func waysIn(results []Result) (ways []Result) {
	for _, r := range results {
		of := Result{Shape: r.Shape, Way: r.Way}
		if !slices.Contains(ways, of) {
			ways = append(ways, of)
		}
	}
	return ways
}

func median(of []float64) float64 {
	sorted := slices.Sorted(slices.Values(of))
	if n := len(sorted); n%2 == 0 {
		return (sorted[n/2-1] + sorted[n/2]) / 2
	}
	return sorted[len(sorted)/2]
}
