package futurejobs_test

import (
	"strings"
	"testing"
	"time"

	"pgregory.net/rapid"

	futurejobs "deadman/future_jobs"
)

func grid(t testing.TB, d time.Duration) futurejobs.Grid {
	t.Helper()
	g, err := futurejobs.NewGrid(d)
	if err != nil {
		t.Fatal(err)
	}
	return g
}

func TestGridRoundsUp(t *testing.T) {
	day := func(clock string) time.Time {
		at, err := time.Parse(time.RFC3339Nano, "2026-03-01T"+clock+"Z")
		if err != nil {
			t.Fatal(err)
		}
		return at
	}
	for _, c := range []struct {
		grid      time.Duration
		at, slot  string
		afterSlot string
	}{
		{15 * time.Minute, "13:05:00", "13:15:00", "13:15:00"}, // 10:05 + 3 h
		{15 * time.Minute, "13:15:00", "13:15:00", "13:30:00"},
		{15 * time.Minute, "13:15:00.000000001", "13:30:00", "13:30:00"},
		{time.Second, "00:00:00.999999999", "00:00:01", "00:00:01"},
		{10 * time.Second, "23:59:55", "23:59:60", "23:59:60"},
		{24 * time.Hour, "00:00:00", "00:00:00", "23:59:60"},
	} {
		want := func(s string) time.Time {
			if rest, ok := strings.CutSuffix(s, "23:59:60"); ok && rest == "" {
				return day("23:59:59").Add(time.Second)
			}
			return day(s)
		}
		g := grid(t, c.grid)
		if got := g.Up(day(c.at)); !got.Equal(want(c.slot)) {
			t.Errorf("%s: Up(%s) = %s, want %s", c.grid, c.at, got, c.slot)
		}
		if got := g.After(day(c.at)); !got.Equal(want(c.afterSlot)) {
			t.Errorf("%s: After(%s) = %s, want %s", c.grid, c.at, got, c.afterSlot)
		}
	}
}

func TestGridProperties(t *testing.T) {
	steps := []time.Duration{time.Second, 10 * time.Second, time.Minute, 15 * time.Minute, 7 * time.Hour / 7, 24 * time.Hour, 96 * time.Second}
	rapid.Check(t, func(t *rapid.T) {
		step := rapid.SampledFrom(steps).Draw(t, "step")
		g, err := futurejobs.NewGrid(step)
		if err != nil {
			t.Fatal(err)
		}
		at := time.Unix(rapid.Int64Range(-4e9, 8e9).Draw(t, "s"), rapid.Int64Range(0, 999_999_999).Draw(t, "ns"))
		slot := g.Up(at)
		midnight := slot.Truncate(24 * time.Hour)
		switch {
		case slot.Before(at):
			t.Fatalf("%s is before %s", slot, at)
		case slot.Sub(at) >= step:
			t.Fatalf("%s is a whole step after %s", slot, at)
		case slot.Sub(midnight)%step != 0:
			t.Fatalf("%s does not lie on the grid of %s from midnight UTC", slot, step)
		case !g.Up(slot).Equal(slot):
			t.Fatalf("a slot is rounded to %s", g.Up(slot))
		case !g.After(slot).Equal(slot.Add(step)):
			t.Fatalf("after a slot comes %s", g.After(slot))
		}
	})
}

func TestGridHasToDivideDay(t *testing.T) {
	for d, remedy := range map[time.Duration]string{
		0:                       "1s or more",
		500 * time.Millisecond:  "1s or more",
		-time.Minute:            "1s or more",
		7 * time.Minute:         "such as 6m40s",
		1500 * time.Millisecond: "such as 1s",
		48 * time.Hour:          "such as 24h",
	} {
		if _, err := futurejobs.NewGrid(d); err == nil || !strings.Contains(err.Error(), remedy) {
			t.Errorf("NewGrid(%s) = %v, want %q in it", d, err, remedy)
		}
	}
}
