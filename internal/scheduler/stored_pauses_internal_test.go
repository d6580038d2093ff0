package scheduler

import (
	"bytes"
	"errors"
	"log/slog"
	"strings"
	"testing"
	"time"

	futurejobs "deadman/future_jobs"
	"deadman/internal/periodic"
)

// pausedRule is a rule with an id only.
type pausedRule struct {
	futurejobs.StoredRule
	id int32
}

func (r pausedRule) RuleID() int32 { return r.id }

// TestFailingPostsAreLoggedOnce checks that a rule whose events are refused at each attempt is logged once, though it has nothing
// to do between the attempts, and that it recovers with its first success, or after a while without a failure.
func TestFailingPostsAreLoggedOnce(t *testing.T) {
	const id = 7
	rules := []futurejobs.StoredRule{pausedRule{id: id}, pausedRule{id: 8}}
	for name, test := range map[string]struct {
		after  time.Duration // the last failure
		result roundResults
		want   int // log records
	}{
		"another failure": {time.Second, roundResults{failed: map[int32]error{id: errors.New("it answers 503")}}, 1},
		"nothing to do":   {10 * time.Second, roundResults{}, 1},
		"a success":       {10 * time.Second, roundResults{succeeded: map[int32]bool{id: true}}, 2},
		"another rule":    {10 * time.Second, roundResults{succeeded: map[int32]bool{8: true}}, 1},
		"a quiet while":   {failureMemory, roundResults{}, 2},
	} {
		var log bytes.Buffer
		status := periodic.NewStatus(slog.New(slog.NewTextHandler(&log, nil)), slog.LevelWarn, "stored schedules")
		var p pauses
		var err error
		at := time.Date(2026, 11, 29, 12, 0, 0, 0, time.UTC)
		round := func(result roundResults) {
			p, err = p.conclude(at, rules, result, nil)
			status.Set(t.Context(), err)
		}
		for _, pause := range []int{1, 2, 4, 8, 16, 32} { // seconds until the next attempt of a tick
			round(roundResults{failed: map[int32]error{id: errors.New("it answers 503")}})
			for range pause {
				at = at.Add(time.Second)
				round(roundResults{})
			}
		}
		at = at.Add(test.after)
		round(test.result)
		if got := strings.Count(log.String(), "stored schedules"); got != test.want {
			t.Errorf("%s: %d records, want %d:\n%s", name, got, test.want, log.String())
		}
	}
}
