package store_test

import (
	"fmt"
	"io/fs"
	"strings"
	"testing"
	"time"

	"deadman/alerts"
	"deadman/internal/store"
	"deadman/migrations"
)

// raiseAlerts writes n alerts that belong to no job, in a database of one shard.
func raiseAlerts(t *testing.T, s *store.Store, n int) (raised []alerts.Alert) {
	t.Helper()
	for i := range n {
		a, ok, err := s.WriteSystemAlert(t.Context(), alerts.SystemAlert{
			Topic: fmt.Sprintf("stream/%d", i), Status: alerts.Firing, Severity: alerts.Error, Since: time.Unix(int64(i), 0), Text: "an alert is raised",
		})
		if err != nil || !ok {
			t.Fatal(ok, err)
		}
		raised = append(raised, a)
	}
	return raised
}

// checkUnpublished checks the next unpublished alerts, and their number.
func checkUnpublished(t *testing.T, s *store.Store, limit int, total int64, want ...alerts.Alert) {
	t.Helper()
	got, _, err := s.Unpublished(t.Context(), []int16{0}, limit, nil)
	if err != nil {
		t.Fatal(err)
	}
	if len(got) != len(want) {
		t.Fatalf("%d alerts come, want %d", len(got), len(want))
	}
	for i, a := range got {
		if a.ID != want[i].ID {
			t.Errorf("alert %d is %s, want %s", i, a.ID, want[i].ID)
		}
	}
	g, err := s.Gauges(t.Context())
	if err != nil || g.Unpublished != total {
		t.Errorf("%d are counted, want %d: %v", g.Unpublished, total, err)
	}
}

// TestRepublishSkipsAlertsDeletedByRetention checks an alert that retention deletes while it is put back into the outbox.
func TestRepublishSkipsAlertsDeletedByRetention(t *testing.T) {
	onAllStores(t, func(t *testing.T, reopen func(int) (*store.Store, error)) {
		s := openStore(t, reopen, 1)
		defer closeStore(t, s)
		raised := raiseAlerts(t, s, 3)
		for _, a := range raised[:2] {
			if _, err := s.DB().ExecContext(t.Context(), `DELETE FROM alert WHERE shard = 0 AND id = $1`, a.ID[:]); err != nil {
				t.Fatal(err)
			}
		}
		checkUnpublished(t, s, 1, 1, raised[2])
	})
}

// TestOutboxOfOldIsCarriedOver checks that the migration keeps the unpublished alerts of an outbox with one alert per
// row.
func TestOutboxOfOldIsCarriedOver(t *testing.T) {
	onAllStores(t, func(t *testing.T, reopen func(int) (*store.Store, error)) {
		s := openStore(t, reopen, 1)
		defer closeStore(t, s)
		raised := raiseAlerts(t, s, 3)
		folder, files, kind := "postgres", migrations.Postgres, "uuid"
		if s.SingleProcess() {
			folder, files, kind = "sqlite", migrations.SQLite, "BLOB"
		}
		exec(t, s, `DROP TABLE alert_outbox`)
		exec(t, s, `CREATE TABLE alert_outbox (shard smallint, id `+kind+`)`)
		exec(t, s, `INSERT INTO alert_outbox (shard, id) SELECT shard, id FROM alert`)
		later, err := fs.Glob(files, folder+"/*.sql")
		if err != nil {
			t.Fatal(err)
		}
		for _, file := range later {
			if file < folder+"/00014" {
				continue
			}
			text, err := files.ReadFile(file)
			if err != nil {
				t.Fatal(err)
			}
			for statement := range strings.SplitSeq(withoutComments(string(text)), ";") {
				if strings.Contains(statement, "alert_outbox") || strings.Contains(file, "00014") && strings.TrimSpace(statement) != "" {
					exec(t, s, statement)
				}
			}
		}
		checkUnpublished(t, s, 10, 3, raised...)
	})
}

// withoutComments returns SQL without its -- comments.
func withoutComments(text string) string {
	var b strings.Builder
	for line := range strings.Lines(text) {
		code, _, _ := strings.Cut(line, "--")
		b.WriteString(code + "\n")
	}
	return b.String()
}

func TestRowsOfOutboxStayInTheirPages(t *testing.T) {
	t.Parallel()
	f := onPostgres(t, time.Hour) // of four shards
	jobs := f.start(2000)
	settlement := f.settlement(jobs...)
	for _, d := range settlement.Decisions {
		d.Alerts = []alerts.Alert{{ID: alerts.Decision{JobID: d.Job.ID, At: d.Job.NextCheckAt}.ID(), DecidedAt: d.Job.NextCheckAt}}
	}
	if settled, err := f.Settle(t.Context(), settlement); err != nil || settled.Alerts != len(jobs) {
		t.Fatalf("settle: %d alerts, %v", settled.Alerts, err)
	}
	var rows, longest int
	var asIs bool // neither compressed nor out of line
	f.check(f.Pool().QueryRow(t.Context(), `SELECT count(*), max(length(ids)), bool_and(pg_column_size(ids) >= length(ids)) FROM alert_outbox`).
		Scan(&rows, &longest, &asIs))
	if limit := len(jobs)*16/1600 + 4; rows > limit || longest < 1600 || !asIs {
		t.Errorf("%d rows, the longest with %d bytes of ids, kept as they are: %v; want at most %d rows of 1600 bytes or more, kept as they are",
			rows, longest, asIs, limit)
	}
}
