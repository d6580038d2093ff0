package futurejobs_test

import (
	"database/sql"
	"errors"
	"fmt"
	"log/slog"
	"path/filepath"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"deadman/alerts"
	"deadman/checks"
	"deadman/internal/store"
	"deadman/internal/store/storetest"
)

// A decision that the database refuses delays no other. Its job ends, with a record and an alert.
func TestRefusedDecisionEndsItsJobAlone(t *testing.T) {
	dir := storetest.DataDir(t)
	refuseAlerts(t, dir, `NEW.detail LIKE '%"id":"7"%'`)
	synctest.Test(t, func(t *testing.T) {
		e := startEngineIn(t, dir, nil, fmt.Sprintf(noResolve, "computes", "computes"))
		e.publish("computes.created", keys(20)...)
		time.Sleep(13 * time.Second)
		outcomes := map[checks.Outcome]int{}
		for _, h := range e.ended() {
			outcomes[h.Outcome]++
			if h.Outcome == checks.Undetermined && (h.Key != "7" || !strings.Contains(h.Reason, "the detail is odd")) {
				t.Errorf("%s ended because %s", h.Key, h.Reason)
			}
		}
		if outcomes[checks.Exhausted] != 19 || outcomes[checks.Undetermined] != 1 {
			t.Errorf("3 s after the slot, ended: %v", outcomes)
		}
		gaveUp := 0
		for _, a := range e.alerts() {
			if a.Status == alerts.GaveUp && a.Key == "7" {
				gaveUp++
			}
		}
		if gaveUp != 1 || e.sweeper.Err() != nil {
			t.Errorf("%d alerts say that the job ended, error %v", gaveUp, e.sweeper.Err())
		}
	})
}

// refuseAlerts makes the database in a directory refuse alerts that match a condition.
func refuseAlerts(t *testing.T, dir, condition string) {
	t.Helper()
	s, err := store.Open(t.Context(), store.Options{DataDir: dir, Shards: 4, Log: slog.New(slog.DiscardHandler)})
	if err != nil {
		t.Fatal(err)
	}
	if err := s.Close(); err != nil {
		t.Fatal(err)
	}
	db, err := sql.Open("sqlite", filepath.Join(dir, store.DatabaseFile))
	if err != nil {
		t.Fatal(err)
	}
	_, err = db.Exec(`CREATE TRIGGER refuse BEFORE INSERT ON alert WHEN ` + condition + ` BEGIN SELECT RAISE(ABORT, 'the detail is odd'); END`)
	if err := errors.Join(err, db.Close()); err != nil {
		t.Fatal(err)
	}
}
