package store_test

import (
	"errors"
	"testing"
	"time"

	futurejobs "deadman/future_jobs"
)

// TestPostgresRefusals checks that values that Postgres cannot store are distinguished from transient errors.
func TestPostgresRefusals(t *testing.T) {
	t.Parallel()
	f := onPostgres(t, time.Hour)
	start := func(since time.Time) futurejobs.EffectBatch {
		return futurejobs.EffectBatch{RuleSet: f.set, Effects: []futurejobs.Effect{{Rule: f.rule, Ref: f.ref("a"), Action: futurejobs.Start{
			Job: futurejobs.Job{Version: 1, Since: since, FirstCheckAt: time.Date(2030, 1, 1, 0, 0, 0, 0, time.UTC)},
		}}}}
	}
	if _, err := f.Apply(t.Context(), start(time.Date(-30000, 1, 1, 0, 0, 0, 0, time.UTC))); !errors.Is(err, futurejobs.ErrRefused) {
		t.Errorf("an instant before all time: %v, want ErrRefused", err)
	}
	if _, err := f.Apply(t.Context(), start(time.Now())); err != nil {
		t.Errorf("what comes next: %v", err)
	}
	f.Close()
	if _, err := f.Apply(t.Context(), start(time.Now())); err == nil || errors.Is(err, futurejobs.ErrRefused) {
		t.Errorf("a database that is gone: %v", err)
	}
}
