package server

import (
	"context"
	"log/slog"

	"deadman/alerts"
	"deadman/web"
)

// observer receives the decisions of all components: it updates metrics, logs alerts, and wakes the relay and the
// notifier ahead of their next poll.
type observer struct {
	*web.Metrics
	relay *alerts.Relay
	news  func()
	log   *slog.Logger
}

// Alerted processes a written alert.
func (w observer) Alerted(a alerts.Alert) {
	w.Metrics.Alerted(a)
	w.log.Info("alert", "rule", a.Rule, "key", a.Key, "status", a.Status, "severity", a.Severity, "step", a.Step, "text", a.Text)
	w.relay.Wake()
	w.news()
}

// announce writes a system alert, once regardless of the number of nodes and attempts.
func (n *node) announce(ctx context.Context, r alerts.SystemAlert) error {
	return n.observeAlert(n.store.WriteSystemAlert(ctx, r))
}

// observeAlert passes a written alert to the observer.
func (n *node) observeAlert(a alerts.Alert, observeAlert bool, err error) error {
	if observeAlert {
		n.witness.Alerted(a)
	}
	return err
}
