package schedules_test

import (
	"math"
	"slices"
	"strconv"
	"testing"
	"time"

	"deadman/internal/schedules"
)

// TestHerd plays very many rules that are due at midnight: with a fixed time all tick at once; with "?" they are spread
// over the day, and no minute has many more than its share. It plays a million rules with -cases of 100,000 or more,
// and a tenth otherwise.
func TestHerd(t *testing.T) {
	rules := 100_000
	if *cases >= rules {
		rules = 1_000_000
	}
	const minutes = 24 * 60
	from := at(t, "2026-03-02 00:00 +0000")

	add := func(load []int, s schedules.Schedule, times int) {
		for tick, ok := s.Next(from.Add(-1)); ok && tick.Sub(from) < minutes*time.Minute; tick, ok = s.Next(tick) {
			load[tick.Sub(from)/time.Minute] += times
		}
	}

	herd := make([]int, minutes)
	add(herd, parse(t, "0 0 * * *", "UTC"), rules) // a fixed time does not depend on the name of the rule
	if herd[0] != rules || slices.Max(herd[1:]) != 0 {
		t.Errorf("at midnight %d, and %d at another minute", herd[0], slices.Max(herd[1:]))
	}

	spread := make([]int, minutes)
	for i := range rules {
		s, err := schedules.Parse("? ? * * *", time.UTC, "rule-"+strconv.Itoa(i))
		if err != nil {
			t.Fatal(err)
		}
		add(spread, s, 1)
	}
	share := float64(rules) / minutes
	within := 5 * math.Sqrt(share) // five standard deviations of a fair draw
	sum := 0
	for minute, n := range spread {
		sum += n
		if math.Abs(float64(n)-share) > within {
			t.Errorf("minute %d has %d, which is not within %.0f of %.0f", minute, n, within, share)
		}
	}
	if sum != rules {
		t.Errorf("%d ticks of %d rules", sum, rules)
	}
	t.Logf("%d rules: %d in one minute with 0 0 * * *; with ? ? * * * %d to %d, %.0f on average",
		rules, herd[0], slices.Min(spread), slices.Max(spread), share)
}
