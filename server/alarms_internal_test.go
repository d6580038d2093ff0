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
	late, err := w.overdue.look(w.Context())
	w.must(err)
	return late
}

// A node that reads due jobs but can't settle them is reported like one that does not read them.
func TestJobsThatCannotBeSettledAreReported(t *testing.T) {
	watch(t, everyMinute, func(w *watched) {
		w.orders(3)
		w.pass(28 * time.Minute)
		w.breakSettling()
		w.pass(2*time.Minute + 50*time.Second)
		w.silent("within a minute of the slot")
		if late := w.overdueNow(); len(late.parts) > 0 {
			t.Errorf("overdue within a minute: %+v", late)
		}
		w.pass(time.Minute)
		said := w.said()
		if len(said) != 1 || said[0].Key != sweepTopic || said[0].Step != gapStep || said[0].Count != 3 || !strings.Contains(said[0].Text, " of n") {
			t.Fatalf("while nothing can be settled: %+v", said)
		}
		if late := w.overdueNow(); late.jobs() != 3 || late.more {
			t.Errorf("overdue: %+v, want 3 jobs", late)
		}
		w.mendSettling()
		w.pass(time.Minute)
		if _, resolved := w.pair(sweepTopic); resolved.Count != 3 {
			t.Errorf("%d jobs were late, want 3: %s", resolved.Count, resolved.Text)
		}
		if late := w.overdueNow(); len(late.parts) > 0 {
			t.Errorf("overdue once it is over: %+v", late)
		}
	})
}

// A due job behind the sweep's position is detected from the database, regardless of the cause.
func TestDueJobsThatTheSweepPassedAreReported(t *testing.T) {
	watch(t, everyMinute, func(w *watched) {
		w.orders(2)
		w.pass(20 * time.Minute)
		w.exec(fmt.Sprintf(`UPDATE future_job SET next_check_at = %d`, time.Now().Add(-65*time.Second).UnixMicro()))
		w.pass(5 * time.Second)
		if late := w.overdueNow(); late.jobs() != 2 {
			t.Errorf("overdue: %+v, want 2 jobs", late)
		}
		w.silent("while it may pass by")
		w.pass(20 * time.Second)
		said := w.said()
		if len(said) != 1 || said[0].Key != sweepTopic || said[0].Step != overdueStep || said[0].Count != 2 || !strings.Contains(said[0].Text, " of n") {
			t.Fatalf("said: %+v", said)
		}
		w.pass(catchUp)
		w.pair(sweepTopic)
	})
}

// catchUp is longer than a full sweep of a shard takes.
const catchUp = 6 * time.Minute
