package deadman_test

import (
	"net/http"
	"testing"

	"github.com/jackc/pgx/v5"

	"deadman"
	"deadman/store/storetest"
)

// A part of the upkeep that fails keeps none of the others from being done: here nothing can be pruned, and
// the jobs of a deleted rule end all the same.
func TestAFailingPartOfTheUpkeepStopsNoOther(t *testing.T) {
	t.Parallel()
	dsn := storetest.Postgres(t)
	n := serve(t, deadman.Config{DatabaseURL: dsn, NATSURL: broker(t)})
	const rule = `{"name":"r","entity":"e","trigger":{"event":"r.begun","key":"event.id"},"escalate":[{"after":"1h","step":"late","severity":"error"}]}`
	if status := n.ask(http.MethodPut, "/api/v1/rules/r", rule, nil); status >= 300 {
		t.Fatalf("the rule is answered with %d", status)
	}
	n.ask(http.MethodPost, "/api/v1/events/r.begun", `{"id":"1"}`, nil)
	n.eventually("a job", func() bool { var jobs list; n.get("/api/v1/jobs", &jobs); return len(jobs.Items) == 1 })

	conn, err := pgx.Connect(t.Context(), dsn)
	if err != nil {
		t.Fatal(err)
	}
	defer conn.Close(t.Context())
	if _, err := conn.Exec(t.Context(), `ALTER TABLE early RENAME TO gone`); err != nil {
		t.Fatal(err)
	}
	if status := n.ask(http.MethodDelete, "/api/v1/rules/r", "", nil); status >= 300 {
		t.Fatalf("the deletion is answered with %d", status)
	}
	n.eventually("the job of the deleted rule ends", func() bool {
		var left int
		if err := conn.QueryRow(t.Context(), `SELECT count(*) FROM future_job`).Scan(&left); err != nil {
			t.Fatal(err)
		}
		return left == 0
	})
}
