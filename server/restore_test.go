package server_test

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"

	"deadman/alerts"
	"deadman/internal/bus"
	"deadman/internal/bus/bustest"
	"deadman/internal/store/storetest"
	"deadman/server"
)

const unpaidRule = `
name: payment-unconfirmed
entity: payment
trigger: {event: payments.started, key: event.id}
resolve: {event: payments.confirmed, key: event.id}
escalate: [{after: 2s, step: primary}]
slot: 1s
hold: 1h
`

// consumedAlerts is the state of an alert consumer that tracks open alerts.
type consumedAlerts struct {
	raised map[string]int       // by rule, key, status and step
	open   map[alerts.ID]string // keys
	own    []alerts.Alert       // system alerts
}

// checkNoneOpen checks that each alert was raised once and that none is open.
func (c consumedAlerts) checkNoneOpen(t *testing.T) {
	t.Helper()
	for what, times := range c.raised {
		if times > 1 {
			t.Errorf("raised %d times: %s", times, what)
		}
	}
	if len(c.open) > 0 {
		t.Errorf("open for ever: %v", c.open)
	}
}

func consume(t *testing.T, natsURL string) consumedAlerts {
	t.Helper()
	stream, err := bustest.JetStream(t, natsURL).Stream(t.Context(), bus.AlertsStream)
	if err != nil {
		t.Fatal(err)
	}
	info, err := stream.Info(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	c := consumedAlerts{raised: map[string]int{}, open: map[alerts.ID]string{}}
	for seq := uint64(1); seq <= info.State.LastSeq; seq++ {
		m, err := stream.GetMsg(t.Context(), seq)
		if err != nil {
			t.Fatal(err)
		}
		var a alerts.Alert
		if err := json.Unmarshal(m.Data, &a); err != nil {
			t.Fatal(err)
		}
		for _, id := range a.Closes {
			delete(c.open, id)
		}
		if a.Rule == alerts.SystemRule {
			c.own = append(c.own, a)
			continue
		}
		c.raised[fmt.Sprintf("%s %s %s", a.Key, a.Status, a.Step)]++
		if a.Status == alerts.Firing {
			c.open[a.ID] = a.Key
		}
	}
	return c
}

// backup copies the database of a stopped node, and returns a function that restores it.
func backup(t *testing.T, c *server.Config) (restore func()) {
	t.Helper()
	if c.DatabaseURL == "" {
		kept, err := os.ReadFile(filepath.Join(c.DataDir, "deadman.db"))
		if err != nil {
			t.Fatal(err)
		}
		return func() {
			for _, name := range []string{"deadman.db-wal", "deadman.db-shm"} {
				if err := os.Remove(filepath.Join(c.DataDir, name)); err != nil && !os.IsNotExist(err) {
					t.Fatal(err)
				}
			}
			if err := os.WriteFile(filepath.Join(c.DataDir, "deadman.db"), kept, 0o600); err != nil {
				t.Fatal(err)
			}
		}
	}
	config, err := pgx.ParseConfig(c.DatabaseURL)
	if err != nil {
		t.Fatal(err)
	}
	name := config.Database
	config.Database = "postgres"
	db, err := pgx.ConnectConfig(t.Context(), config)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		_, err := db.Exec(context.Background(), `DROP DATABASE IF EXISTS `+name+`_backup WITH (FORCE)`)
		if err != nil {
			t.Error(err)
		}
		_ = db.Close(context.Background())
	})
	if _, err := db.Exec(t.Context(), `CREATE DATABASE `+name+`_backup TEMPLATE `+name); err != nil {
		t.Fatal(err)
	}
	return func() { c.DatabaseURL = strings.Replace(c.DatabaseURL, "/"+name, "/"+name+"_backup", 1) }
}

var spanOfRestore = regexp.MustCompile(`^the database went back to its state of (\S+), (?:detected|restored) at (\S+)\. `)

// checkGap checks the span of losses named in the report about a restored database.
func checkGap(t *testing.T, report string, from, fromMost, to time.Time) {
	t.Helper()
	found := spanOfRestore.FindStringSubmatch(report)
	if found == nil {
		t.Fatalf("the report names no span: %q", report)
	}
	for i, span := range [][2]time.Time{{from, fromMost}, {to, time.Now()}} {
		at, err := time.Parse(time.RFC3339, found[i+1])
		if err != nil {
			t.Fatal(err)
		}
		if at.Before(span[0].Truncate(time.Second)) || at.After(span[1]) {
			t.Errorf("the report is %q: %s is not from %s to %s", report, at, span[0], span[1])
		}
	}
}

// After a restore from a backup no alert fires twice or stays open forever, and the node reports the losses.
func TestRestoredDatabaseIsReportedWithoutDuplicates(t *testing.T) {
	t.Parallel()
	for _, database := range []string{"sqlite", "postgres"} {
		t.Run(database, func(t *testing.T) {
			t.Parallel()
			c := server.Config{
				DataDir: bustest.Dir(t), NATSURL: startNATS(t), Rules: ruleFolder(t, map[string]string{"payment.yaml": unpaidRule}),
			}
			if database == "postgres" {
				c.DatabaseURL = storetest.Postgres(t)
			}
			post := func(n *node, what string, keys ...string) {
				t.Helper()
				for _, key := range keys {
					n.callExpecting(http.StatusAccepted, http.MethodPost, "/api/v1/events/payments."+what, fmt.Sprintf(`{"id":%q}`, key))
				}
			}
			inStream := func(n *node, count int) {
				t.Helper()
				n.eventually(fmt.Sprintf("%d alerts in the stream", count), func() bool { return len(consume(t, c.NATSURL).raised) == count })
			}
			begun := time.Now()
			n := startReadyNode(t, c)
			post(n, "started", "old")
			inStream(n, 1)
			n.shutDown()
			backedUp := time.Now()
			restore := backup(t, &c)

			n = startReadyNode(t, c)
			post(n, "started", "resolved", "open", "dangling")
			inStream(n, 4)
			post(n, "confirmed", "resolved", "old")
			inStream(n, 6)
			if ok, detail, _ := n.condition("restore"); !ok {
				t.Errorf("a start is no restore: %s", detail)
			}
			n.shutDown()
			js := bustest.JetStream(t, c.NATSURL)
			if _, err := js.Publish(t.Context(), "payments.confirmed", []byte(`{"id":"dangling"}`)); err != nil {
				t.Fatal(err)
			}
			restore()
			restored := time.Now()

			n = startReadyNode(t, c)
			n.eventually("the restore is reported", func() bool { return len(n.systemAlerts("database")) > 0 })
			if got := n.systemAlerts("database")[0]; got.Status != "firing" || got.Count != 5 || !strings.Contains(got.Text, bus.EventsStream+" after sequence 1 up to 7 (6 messages)") {
				t.Errorf("the report is %+v, want 5 alerts and the stream", got)
			} else {
				checkGap(t, got.Text, begun, backedUp, restored)
			}
			if ok, detail, _ := n.condition("restore"); ok {
				t.Errorf("the condition is %q", detail)
			}
			n.eventually("the condition is fine again", func() bool {
				ok, detail, _ := n.condition("restore")
				return ok && strings.Contains(detail, "after a restore the streams are read past the state of") && strings.Contains(detail, "1 was closed")
			})
			if reported := n.systemAlerts("database"); len(reported) != 1 {
				t.Errorf("the report closes by itself: %+v", reported)
			}
			n.eventually("the dangling alert is closed", func() bool { return consume(t, c.NATSURL).raised["dangling resolved primary"] > 0 })
			if got := consume(t, c.NATSURL); len(got.open) != 1 {
				t.Errorf("open are %v, want one", got.open)
			}
			post(n, "confirmed", "open")
			n.eventually("the last one is resolved", func() bool { return consume(t, c.NATSURL).raised["open resolved primary"] > 0 })
			consume(t, c.NATSURL).checkNoneOpen(t)
			n.shutDown()

			n = startReadyNode(t, c) // a settled restore is not reported again
			n.eventually("it serves", func() bool { ok, _, _ := n.condition("sweep"); return ok })
			if reported := n.systemAlerts("database"); len(reported) != 1 {
				t.Errorf("reported: %+v", reported)
			}
			n.callExpecting(http.StatusNoContent, http.MethodPost, "/api/v1/alerts/"+n.systemAlerts("database")[0].ID+"/close", `{"reason":"all is sent again"}`)
			if reported := n.systemAlerts("database"); len(reported) != 2 {
				t.Errorf("closed: %+v", reported)
			}
		})
	}
}

// The open alert of a rule that the restored database does not have, or has since after the restore, stays open: the payment may
// still be unconfirmed. An alert of the node names it, and its close by an actor closes both.
func TestAlertsOfRulesNewerThanRestoredDatabaseStayOpen(t *testing.T) {
	t.Parallel()
	for _, database := range []string{"sqlite", "postgres"} {
		for _, again := range []bool{false, true} {
			t.Run(fmt.Sprintf("%s, rule saved again %t", database, again), func(t *testing.T) {
				t.Parallel()
				before := ruleFolder(t, map[string]string{"payment.yaml": unpaidRule})
				after := ruleFolder(t, map[string]string{
					"payment.yaml": unpaidRule, "refund.yaml": strings.ReplaceAll(strings.Replace(unpaidRule, "payment-", "refund-", 1), "payments.", "refunds."),
				})
				c := server.Config{DataDir: bustest.Dir(t), NATSURL: startNATS(t), Rules: before}
				if database == "postgres" {
					c.DatabaseURL = storetest.Postgres(t)
				}
				startReadyNode(t, c).shutDown()
				restore := backup(t, &c)

				c.Rules = after
				n := startReadyNode(t, c)
				n.callExpecting(http.StatusAccepted, http.MethodPost, "/api/v1/events/refunds.started", `{"id":"unpaid"}`)
				n.eventually("an alert in the stream", func() bool { return len(consume(t, c.NATSURL).open) == 1 })
				n.shutDown()
				restore()

				if !again {
					c.Rules = before
				}
				n = startReadyNode(t, c)
				n.eventually("the restore is dealt with", func() bool {
					ok, detail, _ := n.condition("restore")
					return ok && strings.Contains(detail, "0 were closed") && strings.Contains(detail, "1 stays open, as its rule is newer than that state")
				})
				checkStaysOpen(t, n, c.NATSURL, "refund-unconfirmed")
			})
		}
	}
}

// checkStaysOpen checks that one alert of a rule is open, that an alert of the node reports the open one, and that the close of the
// report closes both.
func checkStaysOpen(t *testing.T, n *node, natsURL, rule string) {
	t.Helper()
	if got := consume(t, natsURL); len(got.open) != 1 {
		t.Errorf("open are %v, want one", got.open)
	}
	var reported []string
	for _, a := range n.systemAlerts("database") {
		if a.Step == "newer-rules" && a.Status == "firing" && a.Count == 1 && strings.Contains(a.Text, rule) {
			reported = append(reported, a.ID)
		}
	}
	if len(reported) != 1 {
		t.Fatalf("reported by %d alerts of %+v", len(reported), n.systemAlerts("database"))
	}
	n.callExpecting(http.StatusNoContent, http.MethodPost, "/api/v1/alerts/"+reported[0]+"/close", `{"reason":"it is refunded"}`)
	n.eventually("nothing is open", func() bool { return len(consume(t, natsURL).open) == 0 })
}

// A new database beside an alert stream with alerts is refused until an operator gives it the stream. It knows none of the
// alerts: the node reports it. The open ones stay open, as their rules are new in the database.
func TestNewDatabaseWithOldAlertStreamIsReported(t *testing.T) {
	t.Parallel()
	c := server.Config{NATSURL: startNATS(t), Rules: ruleFolder(t, map[string]string{"payment.yaml": unpaidRule})}
	c.DataDir = bustest.Dir(t)
	n := startReadyNode(t, c)
	n.callExpecting(http.StatusAccepted, http.MethodPost, "/api/v1/events/payments.started", `{"id":"open"}`)
	n.eventually("an alert in the stream", func() bool { return len(consume(t, c.NATSURL).open) == 1 })
	n.shutDown()

	c.DataDir = bustest.Dir(t)
	refused, _ := startNode(t, c)
	err := <-refused.ended
	if !errors.Is(err, bus.ErrForeignStream) {
		t.Fatalf("a new database takes the stream of another one: %v", err)
	}
	giveStream(t, c.NATSURL, err.Error())
	n = startReadyNode(t, c)
	n.eventually("it is reported and dealt with", func() bool {
		ok, detail, _ := n.condition("restore")
		return ok && strings.Contains(detail, "1 stays open")
	})
	for _, got := range n.systemAlerts("database") {
		if got.Step == "restored" && (got.Count != 1 || !strings.Contains(got.Text, fmt.Sprintf("its state of %d-", time.Now().UTC().Year()))) {
			t.Errorf("the report is %+v, want 1 alert of this year", got)
		}
	}
	checkStaysOpen(t, n, c.NATSURL, "payment-unconfirmed")
}

// giveStream runs the command that a refusal names.
func giveStream(t *testing.T, url, refusal string) {
	t.Helper()
	named := regexp.MustCompile(`nats stream edit (\S+) --metadata (\w+)=(\S+)$`).FindStringSubmatch(refusal)
	if named == nil {
		t.Fatalf("the refusal names no command: %s", refusal)
	}
	js := bustest.JetStream(t, url)
	stream, err := js.Stream(t.Context(), named[1])
	if err != nil {
		t.Fatal(err)
	}
	cfg := stream.CachedInfo().Config
	cfg.Metadata[named[2]] = named[3]
	if _, err := js.UpdateStream(t.Context(), cfg); err != nil {
		t.Fatal(err)
	}
}
