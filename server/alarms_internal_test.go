package server

import (
	"database/sql"
	"fmt"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"deadman/internal/store"
)

// exec executes a statement on the node's database, over another connection.
func (w *watched) exec(statement string) {
	w.Helper()
	db, err := sql.Open("sqlite", "file:"+filepath.Join(w.dir, store.DatabaseFile)+"?_pragma=busy_timeout(10000)")
	w.must(err)
	_, err = db.Exec(statement)
	w.must(err)
	w.must(db.Close())
}

// breakSettling makes the database reject only the writes of settlements.
func (w *watched) breakSettling() {
	w.exec(`CREATE TRIGGER broken BEFORE INSERT ON alert WHEN new.rule_id <> 0 BEGIN SELECT RAISE(ABORT, 'broken'); END`)
}

func (w *watched) mendSettling() { w.exec(`DROP TRIGGER broken`) }

// overdueNow returns the backlog of overdue jobs.
func (w *watched) overdueNow() backlog {
	w.Helper()
	overdueJobs, err := w.overdue.find(w.Context())
	w.must(err)
	return overdueJobs
}

// A node that reads due jobs but can't settle them is reported like one that does not read them.
func TestUnsettledJobsAreReported(t *testing.T) {
	watch(t, everyMinute, func(w *watched) {
		w.orders(3)
		w.pass(28 * time.Minute)
		w.breakSettling()
		w.pass(2*time.Minute + 50*time.Second)
		w.silent("within a minute of the slot")
		if overdueJobs := w.overdueNow(); len(overdueJobs.parts) > 0 {
			t.Errorf("overdue within a minute: %+v", overdueJobs)
		}
		w.pass(time.Minute)
		listed := w.said()
		if len(listed) != 1 || listed[0].Key != sweepTopic || listed[0].Step != gapStep || listed[0].Count != 3 || !strings.Contains(listed[0].Text, " of n") {
			t.Fatalf("while nothing can be settled: %+v", listed)
		}
		if overdueJobs := w.overdueNow(); overdueJobs.jobs() != 3 || overdueJobs.more {
			t.Errorf("overdue: %+v, want 3 jobs", overdueJobs)
		}
		w.mendSettling()
		w.pass(time.Minute)
		if _, resolved := w.pair(sweepTopic); resolved.Count != 3 {
			t.Errorf("%d jobs were late, want 3: %s", resolved.Count, resolved.Text)
		}
		if overdueJobs := w.overdueNow(); len(overdueJobs.parts) > 0 {
			t.Errorf("overdue once it is over: %+v", overdueJobs)
		}
	})
}

// A due job behind the sweep's position is detected from the database, regardless of the cause.
func TestDueJobsMissedByTheSweepAreReported(t *testing.T) {
	watch(t, everyMinute, func(w *watched) {
		w.orders(2)
		w.pass(20 * time.Minute)
		w.exec(fmt.Sprintf(`UPDATE future_job SET next_check_at = %d`, time.Now().Add(-65*time.Second).UnixMicro()))
		w.pass(5 * time.Second)
		if overdueJobs := w.overdueNow(); overdueJobs.jobs() != 2 {
			t.Errorf("overdue: %+v, want 2 jobs", overdueJobs)
		}
		w.silent("while it may pass by")
		w.pass(20 * time.Second)
		listed := w.said()
		if len(listed) != 1 || listed[0].Key != sweepTopic || listed[0].Step != overdueStep || listed[0].Count != 2 || !strings.Contains(listed[0].Text, " of n") {
			t.Fatalf("said: %+v", listed)
		}
		w.pass(catchUp)
		w.pair(sweepTopic)
	})
}

// catchUp is longer than a full sweep of a shard takes.
const catchUp = 6 * time.Minute
