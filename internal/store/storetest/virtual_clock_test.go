package storetest_test

import (
	"log/slog"
	"testing"
	"testing/synctest"
	"time"

	"deadman/alerts"
	"deadman/internal/store"
	"deadman/internal/store/storetest"
)

// The times that Postgres reads and writes are those of the bubble.
func TestVirtualPostgres(t *testing.T) {
	t.Parallel()
	o := storetest.VirtualPostgres(t)
	o.Shards, o.Log = 1, slog.New(slog.DiscardHandler)
	synctest.Test(t, func(t *testing.T) {
		s, err := store.Open(t.Context(), o)
		if err != nil {
			t.Fatal(err)
		}
		defer s.Close()
		for range 3 {
			time.Sleep(time.Hour + time.Microsecond)
			if now, err := s.Now(t.Context()); err != nil || !now.Equal(time.Now()) {
				t.Errorf("the database is at %s, the bubble at %s: %v", now, time.Now(), err)
			}
			written, _, err := s.MoveMark(t.Context(), alerts.Mark{}, 1, nil)
			if err != nil || !written.At.Equal(time.Now()) {
				t.Errorf("a row is written at %s, and the bubble is at %s: %v", written.At, time.Now(), err)
			}
		}
	})
}
