package web

import (
	"context"
	"errors"
	"log/slog"
	"testing"
	"testing/synctest"
	"time"
)

// countAfter returns a counter with slow counts, and the number of its counts.
func countAfter(takes time.Duration) (c *cachedCount[int], counts *int) {
	counts = new(int)
	return &cachedCount[int]{
		what: "test", now: time.Now, log: slog.New(slog.DiscardHandler),
		count: func(ctx context.Context) (int, error) {
			*counts++
			n := *counts
			select {
			case <-time.After(takes):
				return n, nil
			case <-ctx.Done():
				return 0, ctx.Err()
			}
		},
	}, counts
}

// poll requests the count every 100 ms for a while, and fails if an answer took too long.
func (c *cachedCount[T]) poll(t *testing.T, d time.Duration) (last countedAt[T], ok bool) {
	t.Helper()
	for end := time.Now().Add(d); time.Now().Before(end); time.Sleep(100 * time.Millisecond) {
		startedAt := time.Now()
		if last, ok = c.newest(t.Context()); time.Since(startedAt) > countWait {
			t.Fatalf("an answer took %s", time.Since(startedAt))
		}
	}
	return last, ok
}

func TestCounterReturnsQuickCountsAtOnce(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c, counts := countAfter(20 * time.Millisecond)
		startedAt := time.Now()
		if got, ok := c.newest(t.Context()); !ok || got.What != 1 || !got.At.Equal(startedAt) {
			t.Errorf("%+v, %v", got, ok)
		}
		if got, ok := c.poll(t, time.Second); !ok || got.What != 1 {
			t.Errorf("while it rests: %+v, %v", got, ok)
		}
		time.Sleep(2 * time.Second)
		if got, _ := c.newest(t.Context()); got.What != 2 {
			t.Errorf("after its rest: %+v", got)
		}
		time.Sleep(time.Hour)
		if *counts != 2 {
			t.Errorf("counted %d times, and there were two requests", *counts)
		}
	})
}

func TestCounterLimitsItsShareOfTime(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c, counts := countAfter(3 * time.Second)
		if _, ok := c.poll(t, 2*time.Second); ok {
			t.Error("something was counted that takes 3 s")
		}
		if got, ok := c.poll(t, time.Hour); !ok || got.What < 2 {
			t.Errorf("%+v, %v", got, ok)
		}
		if limit := int(time.Hour / (3*time.Second + countParts*3*time.Second)); *counts < limit-1 || *counts > limit+1 {
			t.Errorf("counted %d times in an hour, want %d", *counts, limit)
		}
		synctest.Wait()
		time.Sleep(time.Minute)
	})
}

func TestCounterKeepsKnownCounts(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c, _ := countAfter(time.Millisecond)
		well := c.count
		c.poll(t, time.Second)
		c.count = func(context.Context) (int, error) { return 0, errors.New("gone") }
		if got, ok := c.poll(t, time.Minute); !ok || got.What != 1 || time.Since(got.At) < time.Minute {
			t.Errorf("%+v, %v", got, ok)
		}
		c.count = well
		if got, _ := c.poll(t, 3*time.Second); got.What != 2 || time.Since(got.At) > 5*time.Second {
			t.Errorf("%+v", got)
		}
	})
}

// TestCountEndsWithNodeNotRequest checks that a count continues after its first client disconnected, and ends
// if the node stops.
func TestCountEndsWithNodeNotRequest(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c, _ := countAfter(10 * time.Second)
		ctx, leave := context.WithCancel(t.Context())
		leave()
		c.newest(ctx)
		time.Sleep(11 * time.Second)
		if got, ok := c.newest(t.Context()); !ok || got.What != 1 {
			t.Errorf("%+v, %v", got, ok)
		}

		c, _ = countAfter(10 * time.Second)
		left := make(chan struct{})
		c.newest(context.WithValue(t.Context(), leavingKey{}, (<-chan struct{})(left)))
		close(left)
		synctest.Wait()
		if c.ends != nil {
			t.Error("a count continues when the node stops")
		}
	})
}
