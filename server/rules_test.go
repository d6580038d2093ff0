package server_test

import (
	"fmt"
	"log/slog"
	"net/http"
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
