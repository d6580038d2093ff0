package server

import (
	"fmt"
	"log/slog"
	"strings"
	"testing"
	"time"

	"deadman/alerts"
	futurejobs "deadman/future_jobs"
	"deadman/internal/store"
	"deadman/internal/store/storetest"
)

// A missing table for a later day is tolerated; tomorrow's table, in the evening, is not.
func TestMissingHistoryTableIsAlertedOneEveningBefore(t *testing.T) {
	tomorrow := time.Date(2026, 3, 2, 0, 0, 0, 0, time.UTC)
	for _, c := range []struct {
		day, now time.Time
		want     alerts.Status
	}{
		{time.Time{}, tomorrow.Add(-time.Hour), alerts.Resolved},
		{tomorrow, tomorrow.Add(-7 * time.Hour), alerts.Resolved},
		{tomorrow, tomorrow.Add(-5 * time.Hour), alerts.Firing},
		{tomorrow.AddDate(0, 0, 1), tomorrow.Add(-time.Hour), alerts.Resolved},
	} {
		if r := historyRemark(c.day, c.now); r.Status != c.want || r.Text == "" {
			t.Errorf("no table of %s, at %s: %s %q, want %s", c.day, c.now, r.Status, r.Text, c.want)
		}
	}
}

// The alert about dead letters counts all of them: it is raised again for 100 more although more are kept than are read for the
// names of the rules.
func TestManyDeadLettersAreAlertedAgain(t *testing.T) {
	t.Parallel()
	onEachDatabase(t, lettersAreAlertedAgain)
}

// onEachDatabase runs a test with an empty store of each database.
func onEachDatabase(t *testing.T, test func(t *testing.T, s *store.Store)) {
	t.Run("sqlite", func(t *testing.T) {
		t.Parallel()
		test(t, emptyStore(t))
	})
	t.Run("postgres", func(t *testing.T) {
		t.Parallel()
		s, err := store.Open(t.Context(), store.Options{DatabaseURL: storetest.Postgres(t), Shards: 4, Log: slog.New(slog.DiscardHandler)})
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { _ = s.Close() })
		test(t, s)
	})
}

func lettersAreAlertedAgain(t *testing.T, s *store.Store) {
	seq := 0
	refuse := func(n int, summarized int64) {
		t.Helper()
		var b futurejobs.EffectBatch
		for range n {
			seq++
			b.DeadLetters = append(b.DeadLetters, futurejobs.DeadLetter{
				Event: futurejobs.Event{Stream: "ORDERS", Subject: "orders", Seq: uint64(seq)}, Rule: "unshipped", Reason: "no key", Summarized: summarized, Size: 1, //nolint:gosec // small
			})
		}
		if _, err := s.Apply(t.Context(), b); err != nil {
			t.Fatal(err)
		}
	}
	var raised []alerts.Alert
	now := time.Now()
	u := maintenance{store: s, letters: 100, now: func() time.Time { return now }, noteAlert: func(a alerts.Alert, isNew bool, err error) error {
		if isNew {
			raised = append(raised, a)
		}
		return err
	}}
	alert := func(want int, events int64) {
		t.Helper()
		if now = now.Add(time.Minute); u.alertLetters(t.Context()) != nil || len(raised) != want {
			t.Fatalf("%d alerts, want %d", len(raised), want)
		}
		if a := raised[want-1]; !strings.HasPrefix(a.Text, fmt.Sprintf("%d events are dead letters, the newest of unshipped: ", events)) || int64(a.Count) != events {
			t.Errorf("it counts %d: %s", a.Count, a.Text)
		}
	}
	refuse(5050, 0)
	refuse(1, 30) // in a summary
	alert(1, 5080)
	if _, err := s.CloseLoss(t.Context(), raised[0], "known"); err != nil {
		t.Fatal(err)
	}
	alert(1, 5080)
	refuse(99, 0)
	alert(1, 5080)
	refuse(1, 0)
	alert(2, 5180)
}
