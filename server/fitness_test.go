package server_test

import (
	"context"
	"database/sql"
	"fmt"
	"net/http"
	"net/url"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/Shopify/toxiproxy/v2"
	_ "github.com/jackc/pgx/v5/stdlib"
	natsserver "github.com/nats-io/nats-server/v2/server"
	"github.com/nats-io/nats.go/jetstream"
	"github.com/rs/zerolog"

	"deadman/alerts"
	futurejobs "deadman/future_jobs"
	"deadman/internal/bus"
	"deadman/internal/bus/bustest"
	"deadman/internal/store/storetest"
	"deadman/server"
)

// openDB opens another connection to the nodes' database.
func openDB(t *testing.T, dsn string) *sql.DB {
	t.Helper()
	db, err := sql.Open("pgx", dsn)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = db.Close() })
	return db
}

func queryCount(t *testing.T, db *sql.DB, query string) (n int) {
	t.Helper()
	if err := db.QueryRow(query).Scan(&n); err != nil {
		t.Fatal(err)
	}
	return n
}

// shardsAreHalved reports whether two nodes hold eight shards each.
func shardsAreHalved(t *testing.T, db *sql.DB) func() bool {
	return func() bool {
		return queryCount(t, db, `SELECT count(*) FROM (SELECT node FROM shard_lease WHERE node IS NOT NULL GROUP BY node HAVING count(*) = 8) AS q`) == 2
	}
}

const shortRule = `
name: t-unconfirmed
entity: t
trigger: {event: t.*.created, key: event.id}
escalate: [{after: 1s, step: primary, severity: error}]
slot: 1s
`

// One of two nodes loses the broker and keeps the database: the other node takes over its shards, with their streams
// and outboxes.
func TestNodeWithoutBrokerHandsOver(t *testing.T) {
	t.Parallel()
	zerolog.SetGlobalLevel(zerolog.Disabled)
	dsn, natsURL := storetest.Postgres(t), startNATS(t)
	js := bustest.JetStream(t, natsURL)
	const streams = 12
	for i := range streams {
		if _, err := js.CreateStream(t.Context(), jetstream.StreamConfig{Name: fmt.Sprintf("T%d", i), Subjects: []string{fmt.Sprintf("t.%d.created", i)}}); err != nil {
			t.Fatal(err)
		}
	}
	u, err := url.Parse(natsURL)
	if err != nil {
		t.Fatal(err)
	}
	link := toxiproxy.NewProxy(toxiproxy.NewServer(toxiproxy.NewMetricsContainer(nil), zerolog.Nop()), "a", "127.0.0.1:0", u.Host)
	if err := link.Start(); err != nil {
		t.Fatal(err)
	}
	defer link.Stop()
	c := server.Config{DatabaseURL: dsn, Rules: ruleFolder(t, map[string]string{"t.yaml": shortRule}), Lease: 3 * time.Second}
	cut := c
	c.NATSURL, cut.NATSURL = natsURL, "nats://"+link.Listen
	a := startReadyNode(t, cut)
	b := startReadyNode(t, c)
	db := openDB(t, dsn)
	a.eventually("the shards are shared", shardsAreHalved(t, db))
	publish := func(prefix string) {
		for i := range streams {
			for k := range 4 {
				if _, err := js.Publish(t.Context(), fmt.Sprintf("t.%d.created", i), fmt.Appendf(nil, `{"id":"%s-%d-%d"}`, prefix, i, k)); err != nil {
					t.Fatal(err)
				}
			}
		}
	}
	published := func(n int) func() bool {
		return func() bool {
			s, err := js.Stream(t.Context(), bus.AlertsStream)
			if err != nil {
				t.Fatal(err)
			}
			info, err := s.Info(t.Context(), jetstream.WithSubjectFilter("deadman.alerts.t-unconfirmed.>"))
			return err == nil && len(info.State.Subjects) == n
		}
	}
	publish("before")
	b.eventually("all alerts are published", published(4*streams))
	link.Stop()
	publish("after")
	b.eventually("the other node has published all alerts", published(8*streams))
	b.waitForUnfitAlert("broker")
	if err := link.Start(); err != nil {
		t.Fatal(err)
	}
	b.eventually("the shards are shared again", shardsAreHalved(t, db))
}

// One of two nodes is denied access to the stream of alerts, while its connection stays up: the other node takes over
// its shards.
func TestNodeWithoutJetStreamHandsOver(t *testing.T) {
	t.Parallel()
	users := func(denied string) []*natsserver.User {
		return []*natsserver.User{{Username: "b", Password: "secret"}, {Username: "a", Password: "secret", Permissions: &natsserver.Permissions{
			Publish:   &natsserver.SubjectPermission{Allow: []string{">"}, Deny: []string{denied}},
			Subscribe: &natsserver.SubjectPermission{Allow: []string{">"}},
		}}}
	}
	o := bustest.Options(t)
	o.Users = users("nothing")
	broker := bustest.Serve(t, o)
	dsn := storetest.Postgres(t)
	c := server.Config{DatabaseURL: dsn, Rules: ruleFolder(t, map[string]string{"t.yaml": shortRule}), Lease: 3 * time.Second}
	cut := c
	c.NATSURL, cut.NATSURL = bustest.As(broker, "b"), bustest.As(broker, "a")
	a := startReadyNode(t, cut)
	b := startReadyNode(t, c)
	db := openDB(t, dsn)
	a.eventually("the shards are shared", shardsAreHalved(t, db))
	deny := func(subject string) {
		changed := o.Clone()
		changed.Users = users(subject)
		if err := broker.ReloadOptions(changed); err != nil {
			t.Fatal(err)
		}
	}
	deny("$JS.API.STREAM.INFO." + bus.AlertsStream)
	b.waitForUnfitAlert("JetStream")
	b.eventually("the other node holds all shards", func() bool {
		return queryCount(t, db, `SELECT count(DISTINCT node) FROM shard_lease`) == 1
	})
	deny("nothing")
	b.eventually("the shards are shared again", shardsAreHalved(t, db))
}

// waitForUnfitAlert waits for the alert about an unfit node with the reason.
func (n *node) waitForUnfitAlert(why string) {
	n.Helper()
	n.eventually("an alert reports the unfit node", func() bool {
		var page struct{ Items []systemAlert }
		n.get("/api/v1/alerts?limit=500&rule="+alerts.SystemRule, &page)
		return slices.ContainsFunc(page.Items, func(a systemAlert) bool {
			return a.Step == "unfit" && a.Status == "firing" && strings.HasPrefix(a.Key, "node/") && strings.Contains(a.Text, why)
		})
	})
}

// Of two nodes on one database, one can't process its jobs: the other node takes over its shards.
func TestUnfitNodeHandsOver(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		breaks string // the operation denied to the user sick
		why    string // reason in the alert
		metric string // of the node: unreadable gauges are absent
	}{
		"settling": {`CREATE FUNCTION broken() RETURNS trigger LANGUAGE plpgsql AS $$ BEGIN
	IF current_user = 'sick' AND new.rule_id <> 0 THEN RAISE EXCEPTION 'broken'; END IF;
	RETURN new;
END $$;
CREATE TRIGGER broken BEFORE INSERT ON alert FOR EACH ROW EXECUTE FUNCTION broken()`, "cannot be settled", "deadman_node_fit 0"},
		"reading": {`REVOKE SELECT ON future_job FROM sick`, "cannot be read", "deadman_scrape_error 1"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			nodeHandsOver(t, "sick_"+name, strings.ReplaceAll(c.breaks, "sick", "sick_"+name), c.why, c.metric)
		})
	}
}

// nodeHandsOver breaks the node whose database user is sick. The name of the user is unique on the database server.
func nodeHandsOver(t *testing.T, sick, breaks, why, metric string) {
	dsn, natsURL := storetest.Postgres(t), startNATS(t)
	c := server.Config{DatabaseURL: dsn, NATSURL: natsURL, Rules: ruleFolder(t, map[string]string{"t.yaml": shortRule}), Lease: 3 * time.Second}
	b := startReadyNode(t, c)
	db := openDB(t, dsn)
	exec := func(statement string) {
		t.Helper()
		if _, err := db.Exec(statement); err != nil {
			t.Fatal(err)
		}
	}
	u, err := url.Parse(dsn)
	if err != nil {
		t.Fatal(err)
	}
	password, _ := u.User.Password()
	u.User = url.UserPassword(sick, password)
	exec(strings.ReplaceAll(`DROP ROLE IF EXISTS sick; CREATE ROLE sick LOGIN PASSWORD '`+password+`';
GRANT ALL ON SCHEMA public TO sick; GRANT ALL ON ALL TABLES IN SCHEMA public TO sick; GRANT ALL ON ALL SEQUENCES IN SCHEMA public TO sick`, "sick", sick))
	t.Cleanup(func() { exec(strings.ReplaceAll(`DROP OWNED BY sick; DROP ROLE sick`, "sick", sick)) })
	c.DatabaseURL = u.String()
	a := startReadyNode(t, c)
	a.eventually("the shards are shared", shardsAreHalved(t, db))
	a.eventually("it is fit", func() bool { return strings.Contains(a.metrics(), "\ndeadman_node_fit 1\n") })
	exec(breaks)
	const jobs = 40
	created := 0
	createJob := func() {
		created++
		b.callExpecting(http.StatusAccepted, http.MethodPost, "/api/v1/events/t.x.created", fmt.Sprintf(`{"id":"k%d"}`, created))
	}
	for range jobs {
		createJob()
	}
	b.eventually("all jobs are decided", func() bool { return queryCount(t, db, `SELECT count(*) FROM alert WHERE rule_id <> 0`) == jobs })
	b.waitForUnfitAlert(why)
	a.eventually("the node reports that it is unfit", func() bool {
		createJob() // the node may have rested since, and without a job nothing shows that it is still unfit
		fit, detail, _ := a.condition("node")
		return !fit && strings.Contains(detail, why) && strings.Contains(a.metrics(), "\n"+metric+"\n")
	})
	if fit, detail, _ := b.condition("node"); !fit {
		t.Errorf("the other node is unfit: %s", detail)
	}
}

// The holder of a shard keeps its lease and reports its sweeps, but decides nothing. Another node sees the shard's
// due jobs in the database: an alert, /readyz, the health page, metrics and the heartbeat report them.
func TestJobsOfAnotherNodeThatAreOverdueAreReported(t *testing.T) {
	t.Parallel() // it waits for more than a minute
	dsn, r := storetest.Postgres(t), newHeartbeatReceiver(t)
	s, held := holdLastShard(t, dsn, "idler", time.Minute)
	idling, end := context.WithCancel(t.Context())
	defer end()
	released := make(chan error, 1)
	go func() {
		for idling.Err() == nil {
			now, err := s.Now(t.Context())
			held.Swept = now
			if err == nil {
				_, err = s.Renew(t.Context(), "idler", []futurejobs.Lease{held}, time.Minute)
			}
			if err != nil {
				released <- err
				return
			}
			time.Sleep(time.Second)
		}
		released <- s.Release(t.Context(), "idler", []futurejobs.Lease{held})
	}()
	n := startReadyNode(t, server.Config{
		DatabaseURL: dsn, NATSURL: startNATS(t), Rules: ruleFolder(t, map[string]string{"t.yaml": shortRule}), HeartbeatURL: r.url(), HeartbeatEvery: time.Second,
	})
	n.eventually("a heartbeat", func() bool { return len(r.received()) > 0 })
	const jobs = 64
	var lines strings.Builder // of one request, so that all jobs are due at the same time
	for i := range jobs {
		fmt.Fprintf(&lines, `{"rule":"t-unconfirmed","key":"k%d"}`+"\n", i)
	}
	n.callExpecting(http.StatusOK, http.MethodPost, "/api/v1/jobs/bulk", lines.String())
	db := openDB(t, dsn)
	var late int
	n.eventually("its own jobs are decided", func() bool {
		late = queryCount(t, db, fmt.Sprintf(`SELECT count(*) FROM future_job WHERE shard = %d`, held.Shard))
		return queryCount(t, db, `SELECT count(*) FROM alert WHERE rule_id <> 0`) == jobs-late
	})
	if late == 0 {
		t.Fatal("the shard has no jobs: nothing is tested")
	}
	overdue := fmt.Sprintf("%d due job", late)
	n.eventually("/readyz, the page and metrics report them", func() bool {
		ok, detail, _ := n.condition("due")
		return !ok && strings.HasPrefix(detail, overdue) && n.get("/readyz?all", nil) == http.StatusServiceUnavailable &&
			strings.Contains(n.metrics(), fmt.Sprintf("\ndeadman_jobs_overdue %d\n", late)) &&
			strings.Contains(n.metrics(), "\ndeadman_condition_failed{condition=\"due\"} 1\n") &&
			strings.Contains(n.metrics(), fmt.Sprintf("\ndeadman_decision_delay_seconds_count %d\n", jobs-late)) &&
			strings.Contains(string(n.callRaw(http.MethodGet, "/health", "").body), overdue)
	})
	n.eventually("the heartbeat is withheld", func() bool { return strings.Contains(n.log.String(), "withheld: jobs that are due are not decided") })
	var raised []systemAlert
	n.eventually("an alert", func() bool { raised = n.systemAlerts("sweep"); return len(raised) > 0 })
	if a := raised[0]; len(raised) != 1 || a.Step != "overdue" || a.Status != "firing" || a.Count != late || !strings.Contains(a.Text, fmt.Sprintf("shard %d of no node", held.Shard)) {
		t.Errorf("the alerts are %+v", raised)
	}
	sent := len(r.received())
	end()
	if err := <-released; err != nil {
		t.Fatal(err)
	}
	n.eventually("the rest is decided", func() bool { return queryCount(t, db, `SELECT count(*) FROM alert WHERE rule_id <> 0`) == jobs })
	n.eventually("it is over", func() bool {
		raised = n.systemAlerts("sweep")
		return len(raised) == 2 && raised[1].Status == "resolved" && n.get("/readyz?all", nil) == http.StatusOK && len(r.received()) > sent &&
			strings.Contains(n.metrics(), "\ndeadman_jobs_overdue 0\n")
	})
}

// The calendar of a rule is missing at a restart, and a job of the rule is due: an alert is raised, and no endpoint
// reports that all is fine. Once the calendar is back, the job is decided and the alert is resolved.
func TestUnreadableRuleIsReported(t *testing.T) {
	t.Parallel()
	onBothDatabases(t, ruleThatCannotBeReadIsReported)
}

func ruleThatCannotBeReadIsReported(t *testing.T, c server.Config) {
	c = c.WithOverdueAfter(10 * time.Second)
	c.DataDir = bustest.Dir(t)
	calendars := filepath.Join(t.TempDir(), "calendars.yaml")
	if err := os.WriteFile(calendars, []byte("calendars:\n  office: {zone: UTC, hours: \"00:00-24:00\"}\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	rule := strings.Replace(shortRule, "{after: 1s, step: primary, severity: error}", "{after: 30s, of: office, step: primary, severity: critical}", 1)
	known := c
	known.Calendars = calendars
	saved := known
	saved.Rules = ruleFolder(t, map[string]string{"t.yaml": rule})
	n := startReadyNode(t, saved)
	n.callExpecting(http.StatusAccepted, http.MethodPost, "/api/v1/events/t.x.created", `{"id":"k"}`)
	var jobs list
	n.eventually("a job", func() bool { n.get("/api/v1/jobs", &jobs); return len(jobs.Items) == 1 })
	restart := func(c server.Config) {
		t.Helper()
		n.stop()
		if err := <-n.ended; err != nil {
			t.Fatal(err)
		}
		n = startReadyNode(t, c)
	}
	restart(c)
	const topic = "rule/t-unconfirmed/1"
	remarks := func(limit int) (raised []systemAlert) {
		for deadline := time.Now().Add(5 * time.Minute); len(raised) < limit && time.Now().Before(deadline); time.Sleep(time.Second) {
			raised = n.systemAlerts(topic)
		}
		return raised
	}
	raised := remarks(1)
	if len(raised) != 1 || raised[0].Status != "firing" || raised[0].Step != "unreadable" || raised[0].Count != 1 || !strings.Contains(raised[0].Text, "office") {
		t.Fatalf("alerts: %+v", raised)
	}
	if status := n.get("/readyz?all", nil); status != http.StatusServiceUnavailable {
		t.Errorf("/readyz?all answers %d while a due job waits", status)
	}
	n.eventually("metrics report it", func() bool {
		text := n.metrics()
		return strings.Contains(text, "\ndeadman_rule_versions_unreadable 1\n") && strings.Contains(text, "\ndeadman_jobs_overdue 1\n")
	})
	restart(known)
	n.eventually("the job is decided", func() bool {
		var alerts list
		n.get("/api/v1/alerts?key=k", &alerts)
		return len(alerts.Items) == 1 && alerts.Items[0].Status == "firing"
	})
	raised = remarks(2)
	if len(raised) != 2 || !slices.ContainsFunc(raised, func(a systemAlert) bool { return a.Status == "resolved" && a.Step == "unreadable" }) {
		t.Errorf("once the version can be read: %+v", raised)
	}
	n.eventually("all is fine", func() bool { return n.get("/readyz?all", nil) == http.StatusOK })
}
