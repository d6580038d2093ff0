package server_test

import (
	"context"
	"encoding/json"
	"fmt"
	"net/http"
	"slices"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"

	futurejobs "deadman/future_jobs"
	"deadman/internal/store/storetest"
	"deadman/server"
)

// steppingNode is a node with an adjustable database clock.
type steppingNode struct {
	*node
	set func(offset time.Duration) // offset of the clock
}

// onSteppingClocks runs a test with a node on each database.
func onSteppingClocks(t *testing.T, rules map[string]string, test func(steppingNode)) {
	t.Run("sqlite", func(t *testing.T) {
		t.Parallel()
		var offset atomic.Int64
		test(steppingNode{startReadyNode(t, server.Config{
			Rules: ruleFolder(t, rules),
			Clock: func() time.Time { return time.Now().Add(time.Duration(offset.Load())) },
		}), func(by time.Duration) { offset.Store(int64(by)) }})
	})
	t.Run("postgres", func(t *testing.T) {
		t.Parallel()
		dsn := storetest.Postgres(t)
		set := stepPostgres(t, dsn)
		test(steppingNode{startReadyNode(t, server.Config{Rules: ruleFolder(t, rules), DatabaseURL: dsn, NATSURL: startNATS(t)}), set})
	})
}

// stepPostgres shifts the server's clock for the connections to a database. Its functions precede the server's own,
// because the store names no schema for them.
func stepPostgres(t *testing.T, dsn string) (set func(offset time.Duration)) {
	t.Helper()
	conn, err := pgx.Connect(t.Context(), dsn)
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = conn.Close(t.Context()) }()
	for _, text := range []string{
		`CREATE SCHEMA wall`,
		`CREATE TABLE wall.clock (off interval NOT NULL)`,
		`INSERT INTO wall.clock VALUES ('0')`,
		`CREATE FUNCTION public.now() RETURNS timestamptz LANGUAGE sql STABLE AS 'SELECT pg_catalog.now() + off FROM wall.clock'`,
		`CREATE FUNCTION public.clock_timestamp() RETURNS timestamptz LANGUAGE sql VOLATILE AS 'SELECT pg_catalog.clock_timestamp() + off FROM wall.clock'`,
		`ALTER DATABASE ` + pgx.Identifier{conn.Config().Database}.Sanitize() + ` SET search_path = public, pg_catalog`,
	} {
		if _, err := conn.Exec(t.Context(), text); err != nil {
			t.Fatal(err)
		}
	}
	return func(offset time.Duration) {
		conn, err := pgx.Connect(t.Context(), dsn)
		if err == nil {
			_, err = conn.Exec(t.Context(), `UPDATE wall.clock SET off = $1::bigint * interval '1 microsecond'`, offset.Microseconds())
			_ = conn.Close(t.Context())
		}
		if err != nil {
			t.Error(err)
		}
	}
}

// alertsOf counts the alerts of a key, or of the clock.
func (n steppingNode) alertsOf(key, status string) (found int) {
	var all list
	where := "key=" + key
	if key == "clock" {
		where = "rule=deadman" // finds the alerts of deadman itself
	}
	n.get("/api/v1/alerts?"+where, &all)
	for _, a := range all.Items {
		if a.Key == key && a.Status == status {
			found++
		}
	}
	return found
}

func (n steppingNode) createJob(rule, key string) {
	n.Helper()
	if status := n.call(http.MethodPost, "/api/v1/jobs", fmt.Sprintf(`{"rule":%q,"key":%q}`, rule, key), nil); status != http.StatusCreated {
		n.Fatalf("job %s: %d", key, status)
	}
}

func (n steppingNode) isHealthy() bool {
	return !strings.Contains(string(n.callRaw(http.MethodGet, "/readyz?all", "").body), "stepped")
}

// The machine's clock is set back by five minutes and forward again under a running node. Due jobs still raise
// alerts, and so does each step.
func TestNodeSurvivesClockSetBack(t *testing.T) {
	t.Parallel()
	onSteppingClocks(t, map[string]string{"p.yaml": paymentRule}, func(n steppingNode) {
		begin := func(key string) {
			n.Helper()
			n.createJob("payment-unconfirmed", key)
			n.eventually("an alert of "+key, func() bool { return n.alertsOf(key, "firing") == 1 })
		}
		begin("before")
		for i, step := range []struct {
			name   string
			offset time.Duration
		}{{"set-back", -5 * time.Minute}, {"set-ahead", 0}} {
			n.set(step.offset)
			if i == 0 {
				n.eventually("the clock is not in order", func() bool { return !n.isHealthy() })
			}
			n.eventually("the step is alerted", func() bool { return n.alertsOf("clock", "firing") == i+1 })
			begin("while-" + step.name)
			n.eventually("the clock is in order", n.isHealthy)
			n.eventually("the alert of the step is resolved", func() bool { return n.alertsOf("clock", "resolved") == i+1 })
			begin("after-" + step.name)
		}
	})
}

const slowRule = `
name: slow
entity: thing
trigger: {event: slow.created, key: event.id}
escalate: [{after: 20s, step: only, severity: error}]
slot: 1s
---
name: slower
entity: thing
trigger: {event: slower.created, key: event.id}
escalate: [{after: 5h, step: only, severity: error}]
slot: 1s
`

// The database clock is set back by a year under a running node, stays there beyond the tolerance, and is corrected.
// Jobs created before and during that time are neither late nor early.
func TestNodeMovesJobsWithClock(t *testing.T) {
	t.Parallel()
	onSteppingClocks(t, map[string]string{"slow.yaml": slowRule}, func(n steppingNode) {
		const year = 365 * futurejobs.Day
		waits := func(key string, off time.Duration) {
			n.Helper()
			var job struct {
				Since       time.Time `json:"since"`
				NextCheckAt time.Time `json:"next_check_at"`
			}
			if status := n.get("/api/v1/jobs/slower?key="+key, &job); status != http.StatusOK {
				n.Fatalf("job %s: %d", key, status)
			}
			now := time.Now().Add(off)
			if began, left := now.Sub(job.Since), job.NextCheckAt.Sub(now); began < -time.Hour || began > time.Hour || left < 4*time.Hour || left > 6*time.Hour {
				n.Errorf("job %s waits since %s, and is checked at %s; the clock shows %s", key, job.Since, job.NextCheckAt, now)
			}
		}
		n.createJob("slow", "soon")
		n.createJob("slower", "before")
		n.set(-year)
		n.eventually("the step is alerted", func() bool { return n.alertsOf("clock", "firing") == 1 })
		n.eventually("an alert of what was due meanwhile", func() bool { return n.alertsOf("soon", "firing") == 1 })
		n.eventually("the alert of the step is resolved", func() bool { return n.alertsOf("clock", "resolved") == 1 })
		waits("before", -year)
		n.createJob("slower", "meanwhile")
		n.set(0)
		n.eventually("that the clock is back is alerted", func() bool { return n.alertsOf("clock", "resolved") == 2 })
		waits("before", 0)
		waits("meanwhile", 0)
		n.createJob("slow", "after")
		n.eventually("an alert of what began afterwards", func() bool { return n.alertsOf("after", "firing") == 1 })
		if early := n.alertsOf("before", "firing") + n.alertsOf("meanwhile", "firing"); early != 0 {
			n.Errorf("%d alerts came hours early", early)
		}
	})
}

// A node starts while the database clock is hours ahead. It adopts the time of the running node, so no job is checked
// early.
func TestNodeStartsWithWrongClock(t *testing.T) {
	t.Parallel()
	dsn := storetest.Postgres(t)
	set := stepPostgres(t, dsn)
	c := server.Config{Rules: ruleFolder(t, map[string]string{"slow.yaml": slowRule}), DatabaseURL: dsn, NATSURL: startNATS(t), Lease: 3 * time.Second}
	n := steppingNode{startReadyNode(t, c), set}
	n.createJob("slower", "before")

	ctx, steady := context.WithCancel(t.Context())
	defer steady()
	wrong := make(chan struct{})
	go func() { // no offset lasts long enough for a node to follow it
		defer close(wrong)
		for hours := 6; ctx.Err() == nil; hours++ {
			set(time.Duration(hours) * time.Hour)
			select {
			case <-ctx.Done():
			case <-time.After(3 * time.Second):
			}
		}
		set(0)
	}()
	n.eventually("the step is alerted", func() bool { return n.alertsOf("clock", "firing") > 0 })
	other := steppingNode{startReadyNode(t, c), set}
	other.eventually("the node takes shards", func() bool {
		return strings.Contains(other.log.String(), `"shards taken"`)
	})
	other.createJob("slow", "meanwhile")
	steady()
	<-wrong
	other.eventually("an alert of what began meanwhile", func() bool { return other.alertsOf("meanwhile", "firing") == 1 })
	n.eventually("the alert of the step is resolved", func() bool { return n.alertsOf("clock", "firing") == n.alertsOf("clock", "resolved") })
	if early := n.alertsOf("before", "firing"); early != 0 {
		t.Errorf("%d alerts came hours early", early)
	}
}

// A start beside registered nodes without a recent heartbeat names them in its log, and goes on with the first heartbeat.
func TestWaitingStartNamesNodes(t *testing.T) {
	t.Parallel()
	dsn := storetest.Postgres(t)
	db := openDB(t, dsn)
	if _, err := db.ExecContext(t.Context(), `INSERT INTO node (id, name, version, started_at, seen_at, expires_at, doing)
SELECT 'id-' || i, 'node-' || to_char(i, 'FM00'), 'v0', now() - interval '2 hours', now() - interval '1 hour', now() - interval '50 minutes', '{}' FROM generate_series(1, 12) i`); err != nil {
		t.Fatal(err)
	}
	// Without a heartbeat the start would wait for four minutes.
	n, ready := startNode(t, server.Config{DatabaseURL: dsn, NATSURL: startNATS(t), Lease: 10 * time.Minute})
	var line struct {
		Nodes      []string
		Registered int
		Until      time.Time
		Component  string
	}
	n.eventually("the log has the wait", func() bool {
		for text := range strings.Lines(n.log.String()) {
			if strings.Contains(text, "waiting to take the time from a running node") {
				if err := json.Unmarshal([]byte(text), &line); err != nil {
					t.Fatal(err)
				}
				return true
			}
		}
		return false
	})
	// By their ids, which are texts, node 10 comes before node 2.
	want := []string{"node-01", "node-10", "node-11", "node-12", "node-02", "node-03", "node-04", "node-05", "node-06", "node-07"}
	if !slices.Equal(line.Nodes, want) || line.Registered != 12 || line.Component != "clock" || line.Until.IsZero() {
		t.Errorf("the log has %+v, want 10 of 12 nodes, %q", line, want)
	}
	select {
	case <-ready:
		t.Fatal("it serves before the heartbeat")
	default:
	}
	if _, err := db.ExecContext(t.Context(), `UPDATE node SET seen_at = now() WHERE id = 'id-3'`); err != nil {
		t.Fatal(err)
	}
	select {
	case <-ready:
	case err := <-n.ended:
		t.Fatalf("serve: %v", err)
	case <-time.After(within):
		t.Fatal("it does not serve after the heartbeat")
	}
	if got := strings.Count(n.log.String(), "waiting to take the time from a running node"); got != 1 {
		t.Errorf("the log has the wait %d times", got)
	}
}
