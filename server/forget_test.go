package server_test

import (
	"bytes"
	"fmt"
	"io/fs"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/jackc/pgx/v5"

	"deadman/internal/bus"
	"deadman/internal/bus/bustest"
	"deadman/internal/store/storetest"
	"deadman/server"
	"deadman/web"
)

// person is a key that nothing may have after it is forgotten.
const person = "erika.mustermann"

// customerRules have the entity customer; the second one refuses events without an amount.
const customerRules = `
name: customer-unverified
entity: customer
trigger: {event: customers.signed_up, key: event.email}
resolve: {event: customers.verified, key: event.email}
escalate: [{after: 1s, step: reminder, text: '{event.email} waits'}]
slot: 1s
---
name: customer-unpaid
entity: customer
trigger: {event: customers.ordered, key: event.email, if: event.amount > 10}
resolve: {event: customers.paid, key: event.email}
escalate: [{after: 1h}]
`

// traces returns the files of a folder, or the tables of a database, that have the person's name.
func traces(t *testing.T, dir, databaseURL string) (found []string) {
	t.Helper()
	if databaseURL == "" {
		if err := filepath.WalkDir(dir, func(path string, d fs.DirEntry, err error) error {
			if err != nil || d.IsDir() {
				return err
			}
			data, err := os.ReadFile(path)
			if bytes.Contains(data, []byte(person)) {
				found = append(found, strings.TrimPrefix(path, dir))
			}
			return err
		}); err != nil {
			t.Fatal(err)
		}
		return found
	}
	db, err := pgx.Connect(t.Context(), databaseURL)
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = db.Close(t.Context()) }()
	rows, _ := db.Query(t.Context(), `SELECT c.oid::regclass::text FROM pg_class c JOIN pg_namespace n ON n.oid = c.relnamespace WHERE c.relkind = 'r' AND n.nspname = 'public'`)
	tables, err := pgx.CollectRows(rows, pgx.RowTo[string])
	if err != nil {
		t.Fatal(err)
	}
	for _, table := range tables {
		var n int // bytea is shown as hexadecimal digits
		if err := db.QueryRow(t.Context(), `SELECT count(*) FROM `+table+` AS t WHERE t::text LIKE $1 OR t::text LIKE $2`,
			"%"+person+"%", fmt.Sprintf("%%%x%%", person)).Scan(&n); err != nil {
			t.Fatal(err)
		}
		if n > 0 {
			found = append(found, table)
		}
	}
	return found
}

// TestForget checks that after a key is forgotten no table and no file of deadman has it, and that another key keeps its data.
func TestForget(t *testing.T) {
	t.Parallel()
	for _, database := range []string{"sqlite", "postgres"} {
		t.Run(database, func(t *testing.T) {
			t.Parallel()
			r := newReceiver(t)
			c := server.Config{
				DataDir: bustest.Dir(t), Rules: ruleFolder(t, map[string]string{"customers.yaml": customerRules}),
				Notify: channelFile(t, "channels: {hook: {kind: webhook, url: "+r.URL+"}}\nroutes: [{to: hook, group_by: [key], group_wait: 0s}]\n"),
			}
			streams := ""
			if database == "postgres" {
				c.DatabaseURL, c.NATSURL = storetest.Postgres(t), startNATS(t)
			} else {
				streams = c.DataDir
			}
			n := startReadyNode(t, c)
			for i, key := range []string{person, "otto"} {
				leaveTraces(n, key, i+1)
			}
			n.eventually("notifications", func() bool { return strings.Count(r.statusList(), "resolved") == 2 })
			if database == "sqlite" && len(traces(t, streams, "")) < 2 {
				t.Fatal("the key is in no file before")
			}
			if database == "postgres" && len(traces(t, "", c.DatabaseURL)) < 6 {
				t.Fatalf("the key is in %q only", traces(t, "", c.DatabaseURL))
			}

			request := fmt.Sprintf(`{"entity":"customer","key":%q`, person)
			var counted, done, again web.Forgotten
			n.eventually("the counts", func() bool {
				return n.call(http.MethodPost, "/api/v1/entities/forget", request+`,"dry_run":true}`, &counted) == http.StatusOK && counted.UnreadEvents == 0
			})
			if counted.Jobs != 2 || counted.Alerts != 2 || counted.AlertMessages != 2 || counted.Events != 3 || counted.DeadLetters != 1 || counted.Answers != 1 || counted.AuditEntries != 4 {
				t.Errorf("dry run: %+v", counted)
			}
			if status := n.call(http.MethodPost, "/api/v1/entities/forget", request+"}", &done); status != http.StatusOK || done.Pseudonym == "" {
				t.Fatalf("%d: %+v", status, done)
			}
			if counted.Pseudonym = done.Pseudonym; fmt.Sprint(done) != fmt.Sprint(counted) {
				t.Errorf("deleted %+v, and counted %+v before", done, counted)
			}
			if n.call(http.MethodPost, "/api/v1/entities/forget", request+`,"dry_run":true}`, &again); again.Jobs+again.Alerts+again.Events+again.AlertMessages+again.DeadLetters+again.AuditEntries != 0 {
				t.Errorf("left: %+v", again)
			}
			var others struct{ History, Alerts list }
			if n.get("/api/v1/entities/customer/otto", &others); len(others.History.Items) != 2 || len(others.Alerts.Items) != 2 {
				t.Errorf("the other key has %+v", others)
			}
			stream, err := bustest.JetStream(t, n.natsURL("admin")).Stream(t.Context(), bus.AlertsStream)
			if err != nil {
				t.Fatal(err)
			}
			if left := stream.CachedInfo().State.Msgs; left != 2 {
				t.Errorf("the stream of alerts has %d messages, want those of the other key", left)
			}
			n.stop()
			if err := <-n.ended; err != nil {
				t.Fatal(err)
			}
			if found := traces(t, streams, c.DatabaseURL); len(found) != 0 {
				t.Errorf("the key is still in %q", found)
			}
		})
	}
}

// leaveTraces gives a key a job with alerts, an acknowledgement and a mute, a cancelled job, and a dead letter. letters is the number of
// dead letters after that.
func leaveTraces(n *node, key string, letters int) {
	n.Helper()
	post := func(path, body string) {
		n.Helper()
		if status := n.call(http.MethodPost, path, body, nil); status/100 != 2 {
			n.Fatalf("%s: %d", path, status)
		}
	}
	post("/api/v1/events/customers.signed_up", fmt.Sprintf(`{"email":%q}`, key))
	post("/api/v1/events/customers.ordered", fmt.Sprintf(`{"email":%q,"amount":"a lot"}`, key))
	var raised list
	n.eventually("an alert", func() bool { n.get("/api/v1/alerts?open=true&key="+key, &raised); return len(raised.Items) == 1 })
	post("/api/v1/alerts/ack", fmt.Sprintf(`{"match":{"key":%q},"note":"I write to %s"}`, key, key))
	post("/api/v1/mutes", fmt.Sprintf(`{"match":{"key":%q,"severity":"info"},"for":"1h","reason":"moved"}`, key))
	post("/api/v1/events/customers.verified", fmt.Sprintf(`{"email":%q}`, key))
	n.eventually("the end", func() bool {
		n.get("/api/v1/history?rule=customer-unverified&key="+key, &raised)
		return len(raised.Items) == 1
	})
	if a := n.callRaw(http.MethodPost, "/api/v1/jobs", fmt.Sprintf(`{"rule":"customer-unpaid","key":%q}`, key), "Idempotency-Key", "of "+key, "Content-Type", "application/json"); a.status != http.StatusCreated {
		n.Fatalf("create a job: %d", a.status)
	}
	if status := n.call(http.MethodDelete, "/api/v1/jobs/customer-unpaid/"+key, "", nil); status/100 != 2 {
		n.Fatalf("cancel a job: %d", status)
	}
	var kept list
	n.eventually("a dead letter", func() bool {
		n.get("/api/v1/dead-letters", &kept)
		return len(kept.Items) == letters
	})
}
