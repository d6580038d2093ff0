package futurejobs_test

import (
	"context"
	"errors"
	"log/slog"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	futurejobs "deadman/future_jobs"
	"deadman/internal/store"
	"deadman/internal/store/storetest"
)

// gapFixture is a gap detector on a real SQLite store that can be unreachable. The database's clock and the local clock
// can jump.
type gapFixture struct {
	*store.Store
	t *testing.T
	*futurejobs.GapDetector
	away    atomic.Bool
	ahead   atomic.Int64 // the database's clock, ns
	elapsed atomic.Int64 // the local clock, ns
}

// Now implements futurejobs.GapStore.
func (l *gapFixture) Now(ctx context.Context) (time.Time, error) {
	if l.away.Load() {
		return time.Time{}, store.ErrUnavailable
	}
	now, err := l.Store.Now(ctx)
	return now.Add(time.Duration(l.ahead.Load())), err
}

// runGapDetector runs a detector in virtual time until play returns.
func runGapDetector(t *testing.T, play func(l *gapFixture)) {
	t.Helper()
	synctest.Test(t, func(t *testing.T) {
		s, err := store.Open(t.Context(), store.Options{DataDir: storetest.DataDir(t), Shards: 1, Log: slog.New(slog.DiscardHandler)})
		if err != nil {
			t.Fatal(err)
		}
		l := &gapFixture{Store: s, t: t}
		local := func() time.Time { return time.Now().Add(time.Duration(l.elapsed.Load())) }
		l.GapDetector = futurejobs.NewGapDetector(l, "me", local, slog.New(slog.DiscardHandler))
		ctx, cancel := context.WithCancel(context.Background())
		done := make(chan error, 1)
		go func() { done <- l.Run(ctx) }()
		defer func() {
			cancel()
			if err := errors.Join(<-done, s.Close()); err != nil {
				t.Error(err)
			}
		}()
		time.Sleep(time.Second)
		play(l)
	})
}

// since returns the start of the gap-free period of pings, once the sweep uses it.
func (l *gapFixture) since() time.Time {
	l.t.Helper()
	if err := l.Flush(l.t.Context()); err != nil {
		l.t.Fatal(err)
	}
	read, err := l.ReadThrough(l.t.Context())
	if err != nil {
		l.t.Fatal(err)
	}
	return read[""].ReceivingSince
}

func (l *gapFixture) beat(node string) {
	l.t.Helper()
	if _, err := l.Heartbeat(l.t.Context(), futurejobs.Node{ID: node, Name: node}, time.Minute); err != nil {
		l.t.Fatal(err)
	}
}

// TestGapDetector: every gap is recorded before the next sweep, and nothing else is.
func TestGapDetector(t *testing.T) {
	for name, c := range map[string]struct {
		gap  func(l *gapFixture)
		deaf bool
	}{
		"all is well":              {func(*gapFixture) { time.Sleep(time.Hour) }, false},
		"the process stood still":  {func(l *gapFixture) { l.elapsed.Add(int64(5 * time.Second)) }, true},
		"it stood for a moment":    {func(l *gapFixture) { l.elapsed.Add(int64(2 * time.Second)) }, false},
		"the machine slept":        {func(l *gapFixture) { l.ahead.Add(int64(time.Minute)); time.Sleep(time.Second) }, true},
		"a ping could not be kept": {func(l *gapFixture) { l.MarkMissed() }, true},
		"the database was not there": {func(l *gapFixture) {
			l.away.Store(true)
			time.Sleep(time.Minute)
			if err := l.Flush(l.t.Context()); err == nil {
				l.t.Error("a sweep continues although the gap is not recorded")
			}
			l.away.Store(false)
		}, true},
	} {
		t.Run(name, func(t *testing.T) {
			runGapDetector(t, func(l *gapFixture) {
				l.beat("other") // which received pings before this node swept
				before := l.since()
				if !before.IsZero() {
					t.Fatalf("another node received, and it is received since %s", before)
				}
				c.gap(l)
				now, err := l.Now(l.t.Context())
				if err != nil {
					t.Fatal(err)
				}
				if got := l.since(); got.IsZero() == c.deaf || c.deaf && now.Sub(got) > time.Second {
					t.Errorf("received since %s at %s", got, now)
				}
				after := l.since()
				time.Sleep(time.Minute)
				if got := l.since(); !got.Equal(after) {
					t.Errorf("one gap is two: received since %s, and then since %s", after, got)
				}
			})
		})
	}
}

// TestGapDetectorStarts: a starting node has a gap before its start, unless another node was alive.
func TestGapDetectorStarts(t *testing.T) {
	for name, c := range map[string]struct {
		others func(l *gapFixture)
		deaf   bool
	}{
		"alone":                  {func(*gapFixture) {}, true},
		"by itself":              {func(l *gapFixture) { l.beat("me") }, true},
		"beside another":         {func(l *gapFixture) { l.beat("other") }, false},
		"after another had left": {func(l *gapFixture) { l.beat("other"); l.leave("other") }, true},
	} {
		t.Run(name, func(t *testing.T) {
			runGapDetector(t, func(l *gapFixture) {
				c.others(l)
				if got := l.since(); got.IsZero() == c.deaf {
					t.Errorf("received since %s", got)
				}
			})
		})
	}
}

func (l *gapFixture) leave(node string) {
	l.t.Helper()
	if err := l.Leave(l.t.Context(), node); err != nil {
		l.t.Fatal(err)
	}
}

// TestAwake checks the uptime of a process that stood still.
func TestAwake(t *testing.T) {
	runGapDetector(t, func(l *gapFixture) {
		time.Sleep(time.Hour)
		if got := l.Uptime(); got < time.Hour {
			t.Errorf("awake for %s", got)
		}
		l.elapsed.Add(int64(time.Minute))
		if got := l.Uptime(); got != 0 {
			t.Errorf("awake for %s after a minute of standing still", got)
		}
		time.Sleep(time.Minute)
		if got := l.Uptime(); got != time.Minute {
			t.Errorf("awake for %s, want a minute", got)
		}
	})
}
