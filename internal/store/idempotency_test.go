package store_test

import (
	"errors"
	"testing"
	"time"

	"deadman/internal/access"
	"deadman/internal/store"
)

// ageRequests moves the times of all requests back.
func ageRequests(t *testing.T, s *store.Store, d time.Duration) {
	t.Helper()
	now, err := s.Now(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	if _, err := s.DB().ExecContext(t.Context(), `UPDATE idempotency SET at = $1`, now.Add(-d)); err != nil {
		t.Fatal(err)
	}
}

func TestRequestsGrowOld(t *testing.T) {
	onAllStores(t, func(t *testing.T, reopen func(int) (*store.Store, error)) {
		s := openStore(t, reopen, 1)
		defer closeStore(t, s)
		body, other := [32]byte{1}, [32]byte{2}
		begin := func(body [32]byte, want error) {
			t.Helper()
			if reply, err := s.Begin(t.Context(), "k", body); reply != nil || !errors.Is(err, want) {
				t.Errorf("begin: %v, %v, want %v", reply, err, want)
			}
		}
		begin(body, nil)
		ageRequests(t, s, 50*time.Second)
		begin(body, access.ErrRunning)
		ageRequests(t, s, 70*time.Second) // the first client is gone
		begin(other, access.ErrOtherBody)
		begin(body, nil)
		begin(body, access.ErrRunning)
		if err := s.Finish(t.Context(), "k", access.StoredResponse{Status: 200}); err != nil {
			t.Fatal(err)
		}
		ageRequests(t, s, 23*time.Hour)
		if _, err := s.Prune(t.Context(), store.Retention{}); err != nil {
			t.Fatal(err)
		}
		if reply, err := s.Begin(t.Context(), "k", body); err != nil || reply == nil {
			t.Errorf("within a day: %v, %v, want the answer", reply, err)
		}
		ageRequests(t, s, 25*time.Hour)
		if known, err := s.Known(t.Context(), "k"); known || err != nil {
			t.Errorf("a day later the request is known: %t, %v", known, err)
		}
		begin(other, nil) // a day later the key is free, pruned or not
		ageRequests(t, s, 25*time.Hour)
		if _, err := s.Prune(t.Context(), store.Retention{}); err != nil {
			t.Fatal(err)
		}
		var left int
		if err := s.DB().QueryRowContext(t.Context(), `SELECT count(*) FROM idempotency`).Scan(&left); err != nil || left != 0 {
			t.Errorf("%d requests left: %v", left, err)
		}
	})
}
