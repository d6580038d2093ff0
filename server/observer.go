package server

import (
	"context"
	"log/slog"

	"deadman/alerts"
	"deadman/internal/store"
	"deadman/web"
)

// observer receives the decisions of all components: it updates metrics, logs alerts at the level debug, and wakes the relay and the
// notifier ahead of their next poll.
type observer struct {
	*web.Metrics
	store *store.Store
	relay *alerts.Relay
	wake  func()
	log   *slog.Logger
}

// Alerted processes a written alert.
func (w *observer) Alerted(a alerts.Alert) {
	w.Metrics.Alerted(a)
	alerts.TracedLog(w.log, a.Trace).Debug("alert", "rule", a.Rule, "key", a.Key, "status", a.Status, "severity", a.Severity, "step", a.Step, "text", a.Text)
	w.relay.Wake()
	w.wake()
}

// announce writes a system alert, once regardless of the number of nodes and attempts.
func (w *observer) announce(ctx context.Context, r alerts.SystemAlert) error {
	return w.observe(w.store.WriteSystemAlert(ctx, r))
}

// observe processes an alert if it was written.
func (w *observer) observe(a alerts.Alert, isWritten bool, err error) error {
	if isWritten {
		w.Alerted(a)
	}
	return err
}
