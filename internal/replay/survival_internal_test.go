package replay

import (
	"math"
	"testing"
	"time"

	"deadman/checks"
	futurejobs "deadman/future_jobs"
)

// The shares agree with the published ones of a well-known example: the weeks of remission of 21 patients with 6-MP
// (Freireich et al., 1963), of whom 12 were still in remission at the end.
func TestSurvivalOfPublishedExample(t *testing.T) {
	var ages []age
	for _, weeks := range []int{-35, 6, 6, -34, 6, -6, 7, -9, 10, -10, -11, 13, 16, -17, -19, -20, 22, 23, -25, -32, -32} { // negative: no end
		a := age{time.Duration(weeks), true}
		if weeks < 0 {
			a = age{time.Duration(-weeks), false}
		}
		ages = append(ages, a)
	}
	s := newSurvival(ages)
	for weeks, want := range map[time.Duration]float64{0: 1, 5: 1, 6: 0.857, 7: 0.807, 9: 0.807, 10: 0.753, 13: 0.690, 16: 0.627, 21: 0.627, 22: 0.538, 23: 0.448, 35: 0.448} {
		if got, known := s.after(weeks); math.Abs(got-want) > 0.0005 || !known {
			t.Errorf("after %d weeks: %.4f (%t), want %.3f", weeks, got, known, want)
		}
	}
	if _, known := s.after(36); known {
		t.Error("the share after the last week is known")
	}
	if at, ok := s.least(0.7); at != 13 || !ok {
		t.Errorf("70 %% after %d weeks", at)
	}
	if at, ok := s.least(0.4); ok {
		t.Errorf("40 %% after %d weeks", at)
	}
	if got := s.undecided(10); got != 2 {
		t.Errorf("%d jobs are undecided at week 10", got)
	}
}

// Without jobs that have no end, the shares are counts.
func TestSurvivalOfEndedJobs(t *testing.T) {
	var ages []age
	for i := range 1000 {
		ages = append(ages, age{time.Duration(i%100) + 1, true})
	}
	s := newSurvival(ages)
	for percent := range 100 {
		if at, ok := s.least(float64(percent) / 100); !ok || at != time.Duration(100-percent) {
			t.Errorf("%d %%: %d", percent, at)
		}
	}
	if share, known := s.after(1000); share > rounding || !known {
		t.Errorf("%f, %t", share, known)
	}
}

// Pauses do not count, nor does what happens after the part of the history.
func TestObservationAge(t *testing.T) {
	at := func(minute int) time.Time { return time.Date(2026, 3, 2, 10, minute, 0, 0, time.UTC) }
	paused := observation{at(0), at(50), true, []checks.Pause{{From: at(5), To: at(10)}, {From: at(40)}}}
	for until, want := range map[int]age{60: {35 * time.Minute, true}, 50: {35 * time.Minute, true}, 20: {15 * time.Minute, false}, 7: {5 * time.Minute, false}, 3: {3 * time.Minute, false}} {
		if got := paused.ageAt(at(until).Add(time.Second), nil, futurejobs.Grid(time.Minute)); got != want {
			t.Errorf("until minute %d: %v, want %v", until, got, want)
		}
	}
}
