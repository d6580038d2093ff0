package server_test

import (
	"errors"
	"fmt"
	"log/slog"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"deadman/internal/bus"
	"deadman/internal/store"
	"deadman/internal/store/storetest"
	"deadman/rules"
	"deadman/server"
)

const hourlyRule = `
name: hourly
entity: payment
trigger: {event: payments.started, key: event.id}
escalate: [{after: 1h, step: primary, severity: error}]
slot: 1h
`

// A rule saved by another process may have a slot long before the sweep's next one, regardless of the component that
// reads it first.
func TestRuleSavedByOtherProcessKeepsItsSlots(t *testing.T) {
	t.Parallel()
	c := server.Config{DatabaseURL: storetest.Postgres(t), NATSURL: startNATS(t), Rules: ruleFolder(t, map[string]string{"hourly.yaml": hourlyRule})}
	n := startReadyNode(t, c)
	s, err := store.Open(t.Context(), store.Options{DatabaseURL: c.DatabaseURL, Log: slog.New(slog.DiscardHandler)})
	if err != nil {
		t.Fatal(err)
	}
	defer s.Close()
	b, err := bus.Connect(t.Context(), bus.Options{URL: n.NATS, Log: slog.New(slog.DiscardHandler)})
	if err != nil {
		t.Fatal(err)
	}
	defer b.Close()
	n.eventually("it rests", func() bool { return n.get("/readyz?all", nil) == http.StatusOK })

	folder := ruleFolder(t, map[string]string{"payment.yaml": paymentRule})
	registry := &rules.Registry{Store: s, Binder: b.Binder, Catalog: rules.NewCatalog(s, s.Shards()), Jobs: s, Log: slog.New(slog.DiscardHandler)}
	if _, err := registry.ApplyDir(t.Context(), folder); err != nil {
		t.Fatal(err)
	}
	const payments = 10
	for i := range payments {
		n.call(http.MethodPost, "/api/v1/events/payments.started", fmt.Sprintf(`{"id":"p%d"}`, i), nil)
	}
	startedAt := time.Now()
	var raised list
	n.eventually("every payment has its alert", func() bool { n.get("/api/v1/alerts", &raised); return len(raised.Items) == payments })
	if took := time.Since(startedAt); took > 10*time.Second {
		t.Errorf("it took %s, with a slot every second", took)
	}
}

// A refused rule file is a failed condition and an alert, until the file is corrected and read again.
func TestRefusedRuleFileIsAlerted(t *testing.T) {
	t.Parallel()
	again := make(chan struct{})
	folder := ruleFolder(t, map[string]string{"payment.yaml": paymentRule, "refund.yaml": "name: refund\nentity: refund\ntriger: {event: refunds.started, key: event.id}\n"})
	n := startReadyNode(t, server.Config{Rules: folder, Reload: again})
	isMet := func() bool { ok, _, _ := n.condition("rule_files"); return ok }
	if ok, detail, _ := n.condition("rule_files"); ok || !strings.HasPrefix(detail, "refused: refund.yaml; ") {
		t.Errorf("the condition is %t, %q", ok, detail)
	}
	topic := "rule-files/" + filepath.Base(folder)
	n.eventually("it is alerted", func() bool { return len(n.systemAlerts(topic)) == 1 })
	if a := n.systemAlerts(topic)[0]; a.Status != "firing" || a.Step != "refused" || !strings.Contains(a.Text, "refund.yaml:3:1: ") {
		t.Errorf("the alert is %+v", a)
	}
	if status := n.call(http.MethodGet, "/api/v1/rules/payment-unconfirmed", "", nil); status != http.StatusOK {
		t.Errorf("the other rule answers %d", status)
	}
	write := func(text string) {
		t.Helper()
		if err := os.WriteFile(filepath.Join(folder, "refund.yaml"), []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
		again <- struct{}{}
	}
	write("\nname: refund\nentity: refund\ntriger: {event: refunds.started, key: event.id}\n")
	n.eventually("the alert names the problem of the changed file", func() bool {
		all := n.systemAlerts(topic)
		return len(all) == 3 && all[1].Status == "resolved" && all[2].Status == "firing" && strings.Contains(all[2].Text, "3 problems in") && strings.Contains(all[2].Text, "refund.yaml:4:1: ")
	})
	write(strings.Replace(strings.ReplaceAll(paymentRule, "payment", "refund"), "payments.", "refunds.", 1))
	n.eventually("the rule is in force", func() bool {
		return n.call(http.MethodGet, "/api/v1/rules/refund-unconfirmed", "", nil) == http.StatusOK && isMet()
	})
	n.eventually("the alert is resolved", func() bool {
		all := n.systemAlerts(topic)
		return len(all) == 4 && all[3].Status == "resolved"
	})
	write("name: [")
	n.eventually("the condition fails again", func() bool { return !isMet() })
	if status := n.call(http.MethodGet, "/api/v1/rules/refund-unconfirmed", "", nil); status != http.StatusOK {
		t.Errorf("the rule of a refused file is gone: %d", status)
	}
}

// TestFoldersOfTwoNodesThatDifferAreReported checks that a node whose folder another node's folder replaced says so, with both
// nodes and files, until the files are the same, and that a change by a person is no such conflict.
func TestFoldersOfTwoNodesThatDifferAreReported(t *testing.T) {
	t.Parallel()
	other := strings.Replace(paymentRule, "severity: error", "severity: critical", 1)
	folders := [2]string{filepath.Join(ruleFolder(t, nil), "rules"), filepath.Join(ruleFolder(t, nil), "rules")}
	write := func(node int, file, text string) {
		if err := errors.Join(os.MkdirAll(folders[node], 0o700), os.WriteFile(filepath.Join(folders[node], file), []byte(text), 0o600)); err != nil {
			t.Fatal(err)
		}
	}
	late := func(rule string) string { return strings.Replace(rule, "payment-unconfirmed", "payment-late", 1) }
	write(0, "payment.yaml", paymentRule)
	write(0, "late.yaml", late(paymentRule))
	write(1, "payment.yaml", other)
	c := server.Config{DatabaseURL: storetest.Postgres(t), NATSURL: startNATS(t), Lease: 3 * time.Second}
	reload := [2]chan struct{}{make(chan struct{}), make(chan struct{})}
	var nodes [2]*node
	for i := range nodes {
		c.Rules, c.Reload = folders[i], reload[i]
		nodes[i] = startReadyNode(t, c)
	}
	isMet := func(i int) bool { ok, _, _ := nodes[i].condition("rule_files"); return ok }
	conflict := func(i int, rule, file string, version int) string {
		return fmt.Sprintf("the folder of another node replaced rules of this node's folder: rule %s: version %d, of node %s, file %s/payment.yaml, replaced that of node %s, file %s/%s. ",
			rule, version, server.NodeName(), folders[1-i], server.NodeName(), folders[i], file)
	}
	isReported := func(i int, want string) func() bool {
		return func() bool { _, detail, _ := nodes[i].condition("rule_files"); return strings.HasPrefix(detail, want) }
	}
	nodes[0].eventually("the first node reports the second", isReported(0, conflict(0, "payment-unconfirmed", "payment.yaml", 2)))
	if !isMet(1) {
		t.Error("the node that replaced the rule reports it, too")
	}
	reload[0] <- struct{}{}
	nodes[1].eventually("the second node reports the first", isReported(1, conflict(1, "payment-unconfirmed", "payment.yaml", 3)))
	nodes[0].eventually("the first node has its rule", func() bool { return isMet(0) })
	var audit struct{ Items []struct{ Detail string } }
	nodes[0].get("/api/v1/audit?action=rule.save&object=rule/payment-unconfirmed", &audit)
	for i, want := range []string{folders[0], folders[1], folders[0]} {
		want = fmt.Sprintf("version %d; bundle file:rules; node %s, file %s/payment.yaml", len(audit.Items)-i, server.NodeName(), want)
		if len(audit.Items) != 3 || audit.Items[i].Detail != want {
			t.Errorf("the audit log has %+v, want %q at %d", audit.Items, want, i)
		}
	}
	write(1, "payment.yaml", paymentRule)
	reload[1] <- struct{}{}
	nodes[1].eventually("the files are the same", func() bool { return isMet(1) })

	// A person takes the rule over: no folder replaced it.
	if answer := nodes[0].callRaw(http.MethodPut, "/api/v1/rules/payment-unconfirmed?adopt=true", other); answer.status != http.StatusOK || !strings.Contains(string(answer.body), `"version":4`) {
		t.Fatalf("%d %s", answer.status, answer.body)
	}
	write(1, "payment.yaml", late(other))
	reload[1] <- struct{}{}
	nodes[0].eventually("the first node reports the other rule alone", isReported(0, conflict(0, "payment-late", "late.yaml", 2)))
}
