package server

import (
	"context"
	"log/slog"

	"deadman/alerts"
	"deadman/web"
)

// observer is told what the parts decided: it counts, writes the alerts to the log, and
// wakes the relay and the notifier, which would find them by themselves a little later.
type observer struct {
	*web.Metrics
	relay *alerts.Relay
	news  func()
	log   *slog.Logger
}

// Alerted is told of an alert that was written.
func (w observer) Alerted(a alerts.Alert) {
	w.Metrics.Alerted(a)
	w.log.Info("alert", "rule", a.Rule, "key", a.Key, "status", a.Status, "severity", a.Severity, "step", a.Step, "text", a.Text)
	w.relay.Wake()
	w.news()
}

// announce says something that the node has to say about itself, once however many nodes and
// tries there are.
func (n *node) announce(ctx context.Context, r alerts.SystemAlert) error {
	return n.observeAlert(n.store.WriteSystemAlert(ctx, r))
}

// observeAlert tells the witness of what was written.
func (n *node) observeAlert(a alerts.Alert, observeAlert bool, err error) error {
	if observeAlert {
		n.witness.Alerted(a)
	}
	return err
}
