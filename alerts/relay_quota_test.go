package alerts_test

import (
	"context"
	"testing"

	"deadman/alerts"
	"deadman/internal/bus"
)

// countingQuota implements Quotas: it admits all alerts except those of some keys, and counts them.
type countingQuota struct {
	admitted, returned int
	withholds          func(alerts.Alert) bool
	outbox             interface {
		Withhold(ctx context.Context, over []alerts.Alert) error
	}
}

func (q *countingQuota) Admit(ctx context.Context, batch []alerts.Alert) (admitted []alerts.Alert, err error) {
	for _, a := range batch {
		if !q.withholds(a) {
			admitted = append(admitted, a)
			continue
		}
		if err := q.outbox.Withhold(ctx, []alerts.Alert{a}); err != nil {
			return nil, err
		}
	}
	q.admitted += len(admitted)
	return admitted, nil
}

func (q *countingQuota) Return(unsent []alerts.Alert) { q.returned += len(unsent) }

// Admitted alerts that are not in the stream are returned, so that quotas count only published alerts.
func TestQuotasReleaseUnsentAlerts(t *testing.T) {
	w := newRelayFixture(t, func(o *bus.Options) { o.AlertsBytes = 100_000 })
	w.raise(500)
	q := &countingQuota{withholds: func(alerts.Alert) bool { return false }}
	relay := alerts.NewRelay(w.store, w.bus.AlertPublisher, w.shards, discardLog())
	relay.Quotas = q
	if _, err := relay.Step(t.Context()); err == nil {
		t.Error("a full stream takes all alerts")
	}
	published := 500 - len(w.unpublished())
	if q.admitted != 500 || published == 0 || q.admitted-q.returned != published {
		t.Errorf("of %d admitted alerts %d were given back, and %d are published", q.admitted, q.returned, published)
	}
}

// A withheld alert is neither published nor read again, and blocks no other alert.
func TestWithheldAlertsAreNotPublished(t *testing.T) {
	w := newRelayFixture(t)
	w.raise(40)
	seen := 0
	q := &countingQuota{outbox: w.store, withholds: func(alerts.Alert) bool { seen++; return seen%2 == 0 }}
	relay := alerts.NewRelay(w.store, w.bus.AlertPublisher, w.shards, discardLog())
	relay.Quotas = q
	for range 2 {
		if _, err := relay.Step(t.Context()); err != nil {
			t.Fatal(err)
		}
	}
	if seen != 40 || len(w.unpublished()) != 0 {
		t.Errorf("%d alerts were read, and %d wait", seen, len(w.unpublished()))
	}
	if received := w.receive(20); len(received) != 20 || q.returned != 0 {
		t.Errorf("the stream has %d alerts, and %d were given back", len(received), q.returned)
	}
}
