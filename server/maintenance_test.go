package server_test

import (
	"database/sql"
	"net/http"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"

	"deadman/internal/store/storetest"
	"deadman/internal/testwait"
	"deadman/server"
	"deadman/web"
)

// A failing part of the maintenance does not stop the others: here pruning fails, and outcomes are still counted.
func TestMaintenancePartsAreIndependent(t *testing.T) {
	t.Parallel()
	dsn := storetest.Postgres(t)
	startReadyNode(t, server.Config{DatabaseURL: dsn, NATSURL: startNATS(t)}.WithMaintenanceEvery(time.Second))
	db := openDB(t, dsn)
	if _, err := db.Exec(`ALTER TABLE early RENAME TO gone`); err != nil {
		t.Fatal(err)
	}
	leaveHoursToCount(t, db)
	testwait.Until(t, "outcomes are counted", hoursAreCounted(t, db))
}

// A node that takes the maintenance shard does a whole round at once: the next one at its interval may be a minute away.
func TestTakenMaintenanceShardStartsRound(t *testing.T) {
	t.Parallel()
	dsn := storetest.Postgres(t)
	c := server.Config{DatabaseURL: dsn, NATSURL: startNATS(t)}.WithMaintenanceEvery(time.Hour)
	first := startReadyNode(t, c)
	db := openDB(t, dsn)
	var before string
	testwait.Until(t, "the first node holds the maintenance shard", func() bool {
		before = leaveHoursToCount(t, db)
		return before != ""
	})
	second := startReadyNode(t, c)
	testwait.Until(t, "two nodes hold shards", shardsAreHalved(t, db))
	if leaveHoursToCount(t, db) == before {
		first.stop()
	} else {
		second.stop()
	}
	testwait.Until(t, "the other node counts outcomes", hoursAreCounted(t, db))
}

// leaveHoursToCount makes the last six hours the next ones to count, also those of yesterday, so that a round counts some at each
// time of a day, and all of them within its budget. It returns the node that holds the maintenance shard, if one does.
func leaveHoursToCount(t *testing.T, db *sql.DB) (holder string) {
	t.Helper()
	if err := db.QueryRow(`INSERT INTO setting (name, value) VALUES ('outcomes_through', to_char(now() AT TIME ZONE 'UTC' - interval '6 hours', 'YYYY-MM-DD"T"HH24:00:00"Z"'))
ON CONFLICT (name) DO UPDATE SET value = excluded.value RETURNING coalesce((SELECT node FROM shard_lease WHERE shard = 0), '')`).Scan(&holder); err != nil {
		t.Fatal(err)
	}
	return holder
}

// hoursAreCounted reports whether the hours that leaveHoursToCount left are counted.
func hoursAreCounted(t *testing.T, db *sql.DB) func() bool {
	return func() bool {
		return queryCount(t, db, `SELECT count(*) FROM setting WHERE name = 'outcomes_through' AND value::timestamptz > now() - interval '3 hours'`) == 1
	}
}

// A sender of events that no rule can process does not fill the disk: the maintenance removes dead letters beyond the
// caps, raises one alert, and counts them.
func TestDeadLettersBeyondCapAreRemovedAndAlerted(t *testing.T) {
	t.Parallel()
	dsn := storetest.Postgres(t)
	n := startReadyNode(t, server.Config{DatabaseURL: dsn, NATSURL: startNATS(t)}.WithMaintenanceEvery(time.Second))
	conn, err := pgx.Connect(t.Context(), dsn)
	if err != nil {
		t.Fatal(err)
	}
	defer conn.Close(t.Context())
	// The number that a sender causes within some minutes; sending real events would take as long.
	if _, err := conn.Exec(t.Context(), `INSERT INTO dead_letter (stream, subject, seq, event_id, header, body, rule, reason, at)
SELECT 'S', 's', n, '', '{}', 'not json', 'orders', 'no JSON', now() FROM generate_series(1, 20500) AS n`); err != nil {
		t.Fatal(err)
	}
	count := func(text string) (n int) {
		t.Helper()
		if err := conn.QueryRow(t.Context(), text).Scan(&n); err != nil {
			t.Fatal(err)
		}
		return n
	}
	n.eventually("the bodies beyond the cap are gone", func() bool { return count(`SELECT count(*) FROM dead_letter WHERE length(body) > 0`) == 1000 })
	if letters, pruned := count(`SELECT count(*) FROM dead_letter`), count(`SELECT rows FROM pruned WHERE name = 'dead_letter'`); letters != 20_000 || pruned != 500 {
		t.Errorf("%d letters are left and %d are counted as pruned, want 20,000 and 500", letters, pruned)
	}
	n.waitForCapAlert("dead-letters")
	metrics := n.callRaw(http.MethodGet, "/metrics", "")
	for _, want := range []string{`deadman_rows_removed_total{kind="dead_letters"} 500`, `deadman_rows_removed_total{kind="dead_letter_bodies"} 19000`} {
		if !strings.Contains(string(metrics.body), want) {
			t.Errorf("the metrics lack %s", want)
		}
	}
}

// Early resolves without a trigger do not fill the disk either.
func TestEarlyResolvesBeyondCapAreForgottenAndAlerted(t *testing.T) {
	t.Parallel()
	dsn := storetest.Postgres(t)
	n := startReadyNode(t, server.Config{DatabaseURL: dsn, NATSURL: startNATS(t)}.WithMaintenanceEvery(time.Second))
	saveRule(n, "r")
	conn, err := pgx.Connect(t.Context(), dsn)
	if err != nil {
		t.Fatal(err)
	}
	defer conn.Close(t.Context())
	// The number that a sender causes within some minutes; sending real events would take as long.
	if _, err := conn.Exec(t.Context(), `INSERT INTO early (shard, rule_id, key, at, until_at, outcome)
SELECT 0, r.id, n, now(), now() + interval '1 day' + n * interval '1ms', 'resolved' FROM rule r, generate_series(1, 200500) AS n WHERE r.name = 'r'`); err != nil {
		t.Fatal(err)
	}
	n.waitForCapAlert("early-resolves")
	var left int
	if err := conn.QueryRow(t.Context(), `SELECT count(*) FROM early`).Scan(&left); err != nil || left != 200_000 {
		t.Errorf("%d early resolves are left, want 200,000: %v", left, err)
	}
	if metrics := n.callRaw(http.MethodGet, "/metrics", ""); !strings.Contains(string(metrics.body), `deadman_rows_removed_total{kind="early_resolves"} 500`) {
		t.Error("the metrics do not count 500 early resolves")
	}
}

// waitForCapAlert waits for the alert that a cap was reached. Another alert may be about the number of rows.
func (n *node) waitForCapAlert(topic string) {
	n.Helper()
	n.eventually("an alert of "+topic, func() bool {
		return slices.ContainsFunc(n.systemAlerts(topic), func(a systemAlert) bool { return a.Step == "capped" && a.Status == "firing" })
	})
}

// saveRule saves a rule.
func saveRule(n *node, name string) {
	n.Helper()
	rule := `{"name":"` + name + `","entity":"e","trigger":{"event":"r.begun","key":"event.id"},"escalate":[{"after":"1h","step":"late","severity":"error"}]}`
	if status := n.call(http.MethodPut, "/api/v1/rules/"+name, rule, nil); status >= 300 {
		n.Fatalf("the rule is answered with %d", status)
	}
}

// The maintenance counts the jobs of past hours, from the first day of history on.
func TestEndedJobsAreCountedByHour(t *testing.T) {
	t.Parallel()
	dsn := storetest.Postgres(t)
	n := startReadyNode(t, server.Config{DatabaseURL: dsn, NATSURL: startNATS(t)}.WithMaintenanceEvery(time.Second))
	saveRule(n, "r")
	conn, err := pgx.Connect(t.Context(), dsn)
	if err != nil {
		t.Fatal(err)
	}
	defer conn.Close(t.Context())
	if _, err := conn.Exec(t.Context(), `INSERT INTO history (shard, key, rule_id, id, version, outcome, ended_at, created_at, since_at, first_check_at, next_check_at, check_count, step, checks, check_total, check_slowest)
SELECT 0, n, r.id, n, 1, 'resolved', now() - n * interval '20h', now(), now() - n * interval '22h', now(), now(), 0, n - 1, 0, 0, 0 FROM rule r, generate_series(1, 2) AS n WHERE r.name = 'r'`); err != nil {
		t.Fatal(err)
	}
	if _, err := conn.Exec(t.Context(), `DELETE FROM setting WHERE name = 'outcomes_through'`); err != nil { // as after an upgrade
		t.Fatal(err)
	}
	var got web.RuleStatistics
	n.eventually("both jobs are counted", func() bool {
		n.call(http.MethodGet, "/api/v1/rules/r/statistics?window=week", "", &got)
		return got.InTime+got.Late == 2
	})
	if got.InTime != 1 || got.Late != 1 || *got.P50 != 2*3600 || *got.P95 != 4*3600 || !got.CountedFrom.After(got.From) {
		t.Errorf("counted %+v", got)
	}
}
