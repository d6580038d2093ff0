package server

import (
	"database/sql"
	"fmt"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"deadman/alerts"
	"deadman/internal/store"
)

// exec executes a statement on the node's database, over another connection.
func (w *detectorFixture) exec(statement string) {
	w.Helper()
	db, err := sql.Open("sqlite", "file:"+filepath.Join(w.dir, store.DatabaseFile)+"?_pragma=busy_timeout(10000)")
	w.failOn(err)
	_, err = db.Exec(statement)
	w.failOn(err)
	w.failOn(db.Close())
}

// breakSettling makes the database reject only the writes of settlements.
func (w *detectorFixture) breakSettling() {
	w.exec(`CREATE TRIGGER broken BEFORE INSERT ON alert WHEN new.rule_id <> 0 BEGIN SELECT RAISE(ABORT, 'broken'); END`)
}

func (w *detectorFixture) repairSettling() { w.exec(`DROP TRIGGER broken`) }

// overdueJobs returns the backlog of overdue jobs.
func (w *detectorFixture) overdueJobs() backlog {
	w.Helper()
	overdueJobs, err := w.overdue.find(w.Context())
	w.failOn(err)
	return overdueJobs
}

// A node that reads due jobs but can't settle them is reported like one that does not read them.
func TestUnsettledJobsAreReported(t *testing.T) {
	runDetector(t, everyMinute, func(w *detectorFixture) {
		w.createJobs(3)
		w.advance(28 * time.Minute)
		w.breakSettling()
		w.advance(2*time.Minute + 50*time.Second)
		w.checkNoAlerts("within a minute of the slot")
		if overdueJobs := w.overdueJobs(); len(overdueJobs.parts) > 0 {
			t.Errorf("overdue within a minute: %+v", overdueJobs)
		}
		w.advance(time.Minute)
		listed := w.listAlerts()
		if len(listed) != 1 || listed[0].Key != sweepTopic || listed[0].Step != alerts.GapStep || listed[0].Count != 3 || !strings.Contains(listed[0].Text, " of n") {
			t.Fatalf("while nothing can be settled: %+v", listed)
		}
		if overdueJobs := w.overdueJobs(); overdueJobs.jobs() != 3 || overdueJobs.more {
			t.Errorf("overdue: %+v, want 3 jobs", overdueJobs)
		}
		w.repairSettling()
		w.advance(time.Minute)
		if _, resolved := w.gapAlerts(sweepTopic); resolved.Count != 3 {
			t.Errorf("%d jobs were late, want 3: %s", resolved.Count, resolved.Text)
		}
		if overdueJobs := w.overdueJobs(); len(overdueJobs.parts) > 0 {
			t.Errorf("overdue once it is over: %+v", overdueJobs)
		}
	})
}

// A due job behind the sweep's position is detected from the database, regardless of the cause.
func TestDueJobsMissedBySweepAreReported(t *testing.T) {
	runDetector(t, everyMinute, func(w *detectorFixture) {
		w.createJobs(2)
		w.advance(20 * time.Minute)
		w.exec(fmt.Sprintf(`UPDATE future_job SET next_check_at = %d`, time.Now().Add(-65*time.Second).UnixMicro()))
		w.advance(5 * time.Second)
		if overdueJobs := w.overdueJobs(); overdueJobs.jobs() != 2 {
			t.Errorf("overdue: %+v, want 2 jobs", overdueJobs)
		}
		w.checkNoAlerts("while it may pass by")
		w.advance(20 * time.Second)
		listed := w.listAlerts()
		if len(listed) != 1 || listed[0].Key != sweepTopic || listed[0].Step != overdueStep || listed[0].Count != 2 || !strings.Contains(listed[0].Text, " of n") {
			t.Fatalf("alerts: %+v", listed)
		}
		w.advance(catchUp)
		w.gapAlerts(sweepTopic)
	})
}

// catchUp is longer than a full sweep of a shard takes.
const catchUp = 6 * time.Minute
