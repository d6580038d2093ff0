package server_test

import (
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
	if err := os.WriteFile(filepath.Join(folder, "refund.yaml"), []byte(strings.Replace(strings.ReplaceAll(paymentRule, "payment", "refund"), "payments.", "refunds.", 1)), 0o600); err != nil {
		t.Fatal(err)
	}
	again <- struct{}{}
	n.eventually("the rule is in force", func() bool {
		return n.call(http.MethodGet, "/api/v1/rules/refund-unconfirmed", "", nil) == http.StatusOK && isMet()
	})
	n.eventually("the alert is resolved", func() bool {
		all := n.systemAlerts(topic)
		return len(all) == 2 && all[1].Status == "resolved"
	})
	if err := os.WriteFile(filepath.Join(folder, "refund.yaml"), []byte("name: ["), 0o600); err != nil {
		t.Fatal(err)
	}
	again <- struct{}{}
	n.eventually("the condition fails again", func() bool { return !isMet() })
	if status := n.call(http.MethodGet, "/api/v1/rules/refund-unconfirmed", "", nil); status != http.StatusOK {
		t.Errorf("the rule of a refused file is gone: %d", status)
	}
}
