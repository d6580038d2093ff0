package server

import (
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
