package store_test

import (
	"testing"
	"time"

	"deadman/internal/store"
	"deadman/internal/store/storetest"
)

// TestTwoNodesFollowOneStep checks two nodes that follow the same steps at slightly different times and with slightly
// different measurements. Each step moves jobs once.
func TestTwoNodesFollowOneStep(t *testing.T) {
	t.Parallel()
	o := store.Options{DatabaseURL: storetest.Postgres(t), Shards: 3}
	one, other := open(t, o), open(t, o)
	follow := func(s *store.Store, by time.Duration, isBack bool, want int) {
		t.Helper()
		if err := s.FollowStep(t.Context(), by, isBack); err != nil {
			t.Fatal(err)
		}
		got, err := s.Shifts(t.Context())
		if err != nil {
			t.Fatal(err)
		}
		if len(got) != want {
			t.Errorf("%d shards are to be moved by %s, want %d: %+v", len(got), by, want, got)
		}
	}
	follow(one, -time.Hour, false, 3)
	follow(other, -time.Hour-time.Second, false, 3)
	follow(other, -time.Hour, false, 6) // another step back
	follow(one, -time.Hour, false, 6)
	follow(one, time.Hour, true, 6) // jobs that the last step did not move stay
	follow(other, time.Hour, true, 6)
}
