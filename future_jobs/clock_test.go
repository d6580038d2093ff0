package futurejobs

import (
	"context"
	"errors"
	"testing"
	"time"

	"pgregory.net/rapid"
)

// While clocks run evenly, the time is never ahead, and never goes back: a check that began in its slot is not
// decided before it.
func TestClockIsNeverEarlyAndNeverGoesBack(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		local, truth := noon, noon.Add(time.Duration(rapid.Int64Range(-1e15, 1e15).Draw(t, "offset")))
		const limit = 100 // maximum drift of the clocks in parts per million
		apart := rapid.Int64Range(-limit, limit).Draw(t, "apart")
		pass := func(d time.Duration) {
			local, truth = local.Add(d+d/1e6*time.Duration(apart)), truth.Add(d)
		}
		trip := rapid.Int64Range(0, int64(3*time.Second))
		var clock *Clock
		var meanwhile time.Time // the clock's time while an answer is in transit
		clock = NewClock(func(context.Context) (time.Time, error) {
			pass(time.Duration(trip.Draw(t, "there")))
			reported := truth
			pass(time.Duration(trip.Draw(t, "back")))
			meanwhile = clock.Now()
			return reported, nil
		}, func() time.Time { return local })

		for range rapid.IntRange(1, 40).Draw(t, "syncs") {
			if err := clock.Sync(t.Context()); err != nil {
				t.Fatalf("an even clock: %v", err)
			}
			if now := clock.Now(); now.Before(meanwhile) && apart <= 0 { // an answer may show that a fast clock is ahead
				t.Fatalf("it went back by %s", meanwhile.Sub(now))
			}
			pass(time.Duration(rapid.Int64Range(0, int64(time.Minute)).Draw(t, "wait")))
			const drifted = limit * 70 * time.Microsecond // in a minute, and while an answer is in transit
			if now := clock.Now(); now.After(truth.Add(drifted)) {
				t.Fatalf("it shows %s, %s early", now, now.Sub(truth))
			} else if truth.Sub(now) > 3*time.Second+drifted {
				t.Fatalf("it shows %s, %s late", now, truth.Sub(now))
			}
		}
	})
}

// clockSteps are clock steps, in either direction.
var clockSteps = []time.Duration{2 * time.Second, -2 * time.Second, time.Hour, -time.Hour, 365 * Day, -365 * Day}

// setClock is a clock with a settable database clock and a simulated elapsed time.
type setClock struct {
	*Clock
	*testing.T
	local, offset time.Duration
}

func newSetClock(t *testing.T) *setClock {
	c := &setClock{T: t}
	c.Clock = NewClock(
		func(context.Context) (time.Time, error) { return noon.Add(c.local + c.offset), nil },
		func() time.Time { return noon.Add(c.local) },
	)
	if err := c.Sync(t.Context()); err != nil {
		t.Fatal(err)
	}
	return c
}

// advance advances the elapsed time, and syncs as often as Run does.
func (c *setClock) advance(d time.Duration) {
	for end := c.local + d; c.local < end; {
		c.local += min(confirmEvery, end-c.local)
		var jumped ClockJumpError
		if err := c.Sync(c.Context()); err != nil && !errors.As(err, &jumped) {
			c.Fatal(err)
		}
	}
}

// clockError returns the clock's offset from the elapsed time.
func (c *setClock) clockError() time.Duration { return c.Now().Sub(noon.Add(c.local)) }

func TestClockUsesElapsedTimeUntilStepPersists(t *testing.T) {
	for _, by := range clockSteps {
		c := newSetClock(t)
		c.advance(time.Minute)
		c.offset = by
		c.advance(confirmFor)
		var jumped ClockJumpError
		if err := c.Err(); !errors.As(err, &jumped) || (jumped.By-by).Abs() > confirmEvery || c.clockError() != 0 || c.Steps() != 0 {
			t.Errorf("a step by %s that lasted 10 s: %v, it shows %s", by, err, c.clockError())
		}
		c.advance(2 * confirmEvery)
		step, seen := c.Latest()
		if err := c.Err(); err != nil || c.clockError() != by || c.Steps() != 1 || seen != 1 || !step.Believed || step.By() != by {
			t.Errorf("a step by %s that lasted longer: %v, it shows %s; %+v", by, err, c.clockError(), step)
		}
	}
}

func TestClockOverlooksFlicker(t *testing.T) {
	for _, by := range clockSteps {
		c := newSetClock(t)
		for range 3 {
			c.offset = by
			c.advance(confirmFor)
			c.offset = 0
			c.advance(confirmEvery)
		}
		step, seen := c.Latest()
		if err := c.Err(); err != nil || c.clockError() != 0 || c.Steps() != 0 || seen != 3 || !step.Over || step.Believed {
			t.Errorf("a flicker by %s: %v, it shows %s; %d seen, the last %+v", by, err, c.clockError(), seen, step)
		}
	}
}

func TestClockAdoptsBackwardStepAtOnce(t *testing.T) {
	for _, by := range clockSteps {
		c := newSetClock(t)
		c.offset = by
		c.advance(time.Minute)
		c.offset = 0
		c.advance(confirmEvery)
		if c.clockError() != 0 || c.Steps() != 2 {
			t.Errorf("after a minute %s off it shows %s", by, c.clockError())
		}
	}
}

// A clock that changes all the time is not trusted.
func TestClockOverlooksErraticTime(t *testing.T) {
	c := newSetClock(t)
	for i := range 100 {
		c.offset = time.Duration(i%7-3) * time.Hour
		c.advance(confirmEvery)
		if c.clockError() != 0 {
			t.Fatalf("it shows %s", c.clockError())
		}
	}
}

// A clock that is slewed, or that was not read for a day, runs evenly.
func TestClockFollowsSlowClock(t *testing.T) {
	c := newSetClock(t)
	for range 1000 {
		c.offset -= confirmEvery / 10
		c.advance(confirmEvery)
	}
	c.offset += Day / drift
	c.local += Day
	c.advance(confirmEvery)
	if _, seen := c.Latest(); seen != 0 || c.clockError() != c.offset {
		t.Errorf("%d steps; it shows %s, the database %s", seen, c.clockError(), c.offset)
	}
}

// The node's own wall clock does not matter: only the elapsed time does.
func TestClockCorrectsDatabaseWhileInDoubt(t *testing.T) {
	c := newSetClock(t)
	c.offset = time.Hour
	c.advance(confirmEvery)
	passed := noon.Add(c.local)
	if got := c.Correct(passed.Add(time.Hour)); !got.Equal(passed) {
		t.Errorf("an hour ahead is %s", got)
	}
	if got := c.Correct(passed.Add(maxClockJump)); !got.Equal(passed.Add(maxClockJump)) {
		t.Errorf("a second ahead is %s", got)
	}
	c.advance(confirmFor + confirmEvery)
	if got := c.Correct(passed.Add(time.Hour)); !got.Equal(noon.Add(c.local + time.Hour)) {
		t.Errorf("once it is believed, the old time is %s", got)
	}
}

func TestClockConvertsTimesOfAnotherServer(t *testing.T) {
	c := newSetClock(t)
	now := func() time.Time { return noon.Add(c.local) }
	if got := c.Place(now().Add(time.Hour), false); !got.Equal(now()) {
		t.Errorf("of the future: %s", got)
	}
	for _, off := range []time.Duration{-time.Hour, -time.Second, 2 * time.Second} {
		if got := c.Place(now().Add(off), true); !got.Equal(now().Add(off)) {
			t.Errorf("%s off: %s", off, got)
		}
	}
	c.offset = -time.Hour
	c.advance(3 * time.Second)
	stamped := now().Add(c.offset)
	for _, when := range []string{"while the clock is wrong", "afterwards"} {
		if got := c.Place(stamped, true); !got.Equal(stamped.Add(time.Hour)) {
			t.Errorf("%s: %s", when, got)
		}
		if got := c.Place(stamped, false); !got.Equal(stamped) {
			t.Errorf("%s, by another clock: %s", when, got)
		}
		c.offset = 0
		c.advance(time.Second)
	}
}

// Another server's clock does not step with the database's.
func TestClockConvertsTimesOfUnsteppedServer(t *testing.T) {
	for _, by := range []time.Duration{4 * time.Second, 90 * time.Second, 365 * Day} {
		c := newSetClock(t)
		c.advance(time.Minute)
		c.offset = by
		c.advance(confirmFor + 2*time.Second)
		for range 3 {
			if got := c.Place(noon.Add(c.local), false); by > confirmFor && !got.Equal(c.Now()) {
				t.Errorf("set ahead by %s: what happened now is placed %s off", by, got.Sub(c.Now()))
			}
			if got := c.Place(c.Now(), false); !got.Equal(c.Now()) {
				t.Errorf("set ahead by %s: what a server stamped that stepped, too, is placed %s off", by, got.Sub(c.Now()))
			}
			c.advance(by / 2 % time.Hour)
		}
	}
}

func TestClockBeforeFirstAnswer(t *testing.T) {
	clock := NewClock(func(context.Context) (time.Time, error) { return time.Time{}, errors.New("down") }, func() time.Time { return noon })
	if err := clock.Sync(t.Context()); err == nil {
		t.Error("no error")
	}
	if now := clock.Now(); !now.IsZero() {
		t.Errorf("it shows %s", now)
	}
	if now := clock.Correct(noon); !now.Equal(noon) {
		t.Errorf("the database's noon is %s", now)
	}
}
