package store_test

import (
	"testing"
	"time"

	"deadman/alerts"
	"deadman/internal/store"
	"deadman/internal/store/storetest"
)

// TestMostShards checks the queries of all shards with the largest number of shards.
func TestMostShards(t *testing.T) {
	for name, o := range map[string]store.Options{
		"sqlite":   {DataDir: t.TempDir()},
		"postgres": {DatabaseURL: storetest.Postgres(t)},
	} {
		t.Run(name, func(t *testing.T) {
			o.Shards = store.MaxShards
			s := open(t, o)
			ctx := t.Context()
			if err := s.Notify(ctx, true); err != nil {
				t.Fatal(err)
			}
			if _, _, err := s.WriteSystemAlert(ctx, alerts.SystemAlert{Topic: "channel/x", Status: alerts.Firing, Severity: alerts.Error, Since: time.Now(), Text: "x"}); err != nil {
				t.Fatal(err)
			}
			all := make([]int16, store.MaxShards)
			for i := range all {
				all[i] = int16(i)
			}
			if got, _, err := s.Unpublished(ctx, all, 10, nil); err != nil || len(got) != 1 {
				t.Errorf("unpublished: %d, %v", len(got), err)
			}
			if got, _, err := s.UnroutedAlerts(ctx, 10); err != nil || len(got) != 1 {
				t.Errorf("unrouted alerts: %d, %v", len(got), err)
			}
			if g, err := s.Gauges(ctx); err != nil || g.Unpublished != 1 || g.OldestAlert.IsZero() {
				t.Errorf("gauges: %+v, %v", g, err)
			}
			if _, err := s.OldestDue(ctx); err != nil {
				t.Error(err)
			}
			if _, err := s.LateJobs(ctx, time.Now().Add(-time.Hour), time.Now(), nil); err != nil {
				t.Error(err)
			}
			if _, _, err := s.SweptByOthers(ctx, ""); err != nil {
				t.Error(err)
			}
		})
	}
}
