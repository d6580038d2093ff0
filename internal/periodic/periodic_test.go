package periodic_test

import (
	"bytes"
	"context"
	"errors"
	"log/slog"
	"regexp"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"

	"deadman/internal/periodic"
)

var errTest = errors.New("it is cloudy")

// messages returns the lines of a log, from their levels on.
func messages(b *bytes.Buffer) []string {
	return regexp.MustCompile(`level=.*`).FindAllString(b.String(), -1)
}

// The first of equal failures and the recovery are logged, but no failure caused by the shutdown.
func TestRunLogsFirstFailureAndRecovery(t *testing.T) {
	for name, c := range map[string]struct {
		run   func(context.Context, time.Duration, *slog.Logger, string, func(context.Context) error) error
		first time.Duration
	}{
		"at once": {periodic.Run, 0}, "after the interval": {periodic.RunAfter, time.Minute},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				ctx, cancel := context.WithCancel(t.Context())
				defer cancel()
				fails := []bool{true, true, false, false, true, false, true}
				var done []time.Duration
				var log bytes.Buffer
				begun := time.Now()
				err := c.run(ctx, time.Minute, slog.New(slog.NewTextHandler(&log, nil)), "moon", func(context.Context) error {
					done = append(done, time.Since(begun))
					if len(done) == len(fails) {
						cancel()
					}
					if fails[len(done)-1] {
						return errTest
					}
					return nil
				})
				if err != nil {
					t.Error(err)
				}
				for i, after := range done {
					if want := c.first + time.Duration(i)*time.Minute; after != want {
						t.Errorf("step %d is after %s, want %s", i, after, want)
					}
				}
				const failed, recovered = `level=WARN msg="moon failed, retrying" again_in=1m0s err="it is cloudy"`, `level=INFO msg="moon recovered"`
				want := []string{failed, recovered, failed, recovered}
				if diff := cmp.Diff(want, messages(&log)); diff != "" || len(done) != len(fails) {
					t.Errorf("%d steps (-want +got):\n%s", len(done), diff)
				}
			})
		})
	}
}

// A failure whose cause changes while it lasts is logged with each of them, once: numbers in a text are no other cause, and an
// error with a new text at each step does not fill the log.
func TestEachCauseIsLoggedOnce(t *testing.T) {
	var log bytes.Buffer
	s := periodic.NewStatus(slog.New(slog.NewTextHandler(&log, nil)), slog.LevelError, "moon")
	set := func(texts ...string) {
		for _, text := range texts {
			s.Set(t.Context(), errors.New(text))
		}
	}
	set("late by 1s", "late by 12s", "port 80 is closed", "late by 13s", "port 8080 is closed")
	if s.Err().Error() != "port 8080 is closed" {
		t.Errorf("the error is %v", s.Err())
	}
	s.Set(t.Context(), nil)
	set("port 1 is closed")
	const failed, recovered = `level=ERROR msg="moon failed, retrying" err="`, `level=INFO msg="moon recovered"`
	want := []string{failed + `late by 1s"`, failed + `port 80 is closed"`, recovered, failed + `port 1 is closed"`}
	if diff := cmp.Diff(want, messages(&log)); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
	for i := range 100 {
		set(strings.Repeat("x", i))
	}
	if got := len(messages(&log)); got != len(want)+19 {
		t.Errorf("%d messages after 100 causes", got)
	}
}

// A reset forgets the failure: the next success is no recovery, and the next failure is logged.
func TestResetForgetsFailure(t *testing.T) {
	var log bytes.Buffer
	s := periodic.NewStatus(slog.New(slog.NewTextHandler(&log, nil)), slog.LevelError, "moon")
	s.Set(t.Context(), errTest)
	if !errors.Is(s.Err(), errTest) {
		t.Errorf("the error is %v", s.Err())
	}
	s.Reset()
	if s.Err() != nil {
		t.Errorf("the error after the reset is %v", s.Err())
	}
	s.Set(t.Context(), nil)
	s.Set(t.Context(), errTest)
	const failed = `level=ERROR msg="moon failed, retrying" err="it is cloudy"`
	if diff := cmp.Diff([]string{failed, failed}, messages(&log)); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
}
