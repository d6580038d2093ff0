package futurejobs

import (
	"context"
	"errors"
	"testing"
	"time"

	"pgregory.net/rapid"
)

func TestClockIsNeverEarly(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		local, truth := noon, noon.Add(time.Duration(rapid.Int64Range(-1e15, 1e15).Draw(t, "offset")))
		pass := func(d time.Duration) { local, truth = local.Add(d), truth.Add(d) }
		trip := rapid.Int64Range(0, int64(3*time.Second))
		clock := NewClock(func(context.Context) (time.Time, error) {
			pass(time.Duration(trip.Draw(t, "there")))
			said := truth
			pass(time.Duration(trip.Draw(t, "back")))
			return said, nil
		}, func() time.Time { return local })

		for range rapid.IntRange(1, 5).Draw(t, "syncs") {
			if err := clock.Sync(t.Context()); err != nil {
				t.Fatalf("an even clock: %v", err)
			}
			pass(time.Duration(rapid.Int64Range(0, int64(time.Minute)).Draw(t, "wait")))
			if now := clock.Now(); now.After(truth) {
				t.Fatalf("it shows %s, %s early", now, now.Sub(truth))
			} else if truth.Sub(now) > 3*time.Second+time.Microsecond {
				t.Fatalf("it shows %s, %s late", now, truth.Sub(now))
			}
		}
	})
}

func TestClockSaysThatItJumped(t *testing.T) {
	for _, by := range []time.Duration{time.Hour, -time.Hour, 2 * time.Second, -2 * time.Second} {
		local, truth := noon, noon
		clock := NewClock(func(context.Context) (time.Time, error) { return truth, nil }, func() time.Time { return local })
		if err := clock.Sync(t.Context()); err != nil {
			t.Fatal(err)
		}
		truth = truth.Add(by)
		var jumped Jumped
		if err := clock.Sync(t.Context()); !errors.As(err, &jumped) || jumped.By != by {
			t.Errorf("a jump by %s: %v", by, err)
		}
		if err := clock.Sync(t.Context()); err != nil {
			t.Errorf("running evenly again: %v", err)
		}
		if !clock.Now().Equal(truth) {
			t.Errorf("it shows %s, the database %s", clock.Now(), truth)
		}
	}
}

func TestClockBeforeTheFirstAnswer(t *testing.T) {
	clock := NewClock(func(context.Context) (time.Time, error) { return time.Time{}, errors.New("down") }, func() time.Time { return noon })
	if err := clock.Sync(t.Context()); err == nil {
		t.Error("no error")
	}
	if now := clock.Now(); !now.IsZero() {
		t.Errorf("it shows %s", now)
	}
}
