// This program is a node of deadman with its own handler. docs/how-to/own-handler.md explains it.
package main

import (
	"context"
	"encoding/json"
	"fmt"
	"os"
	"os/signal"
	"syscall"
	"time"

	"deadman/alerts"
	"deadman/checks"
	"deadman/server"
)

func main() {
	if err := serve(); err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
}

func serve() error {
	ctx, stop := signal.NotifyContext(context.Background(), syscall.SIGINT, syscall.SIGTERM)
	defer stop()
	handlers := &checks.Handlers{}
	if err := handlers.Register("shipping", checks.HandlerFunc(shipping)); err != nil {
		return err
	}
	return server.Run(ctx, server.Config{Rules: "rules", Handlers: handlers})
}

// shipping raises three alerts about a late order, an hour apart. Alerts of expensive orders are critical.
func shipping(_ context.Context, c checks.Check) (checks.Answer, error) {
	var order struct{ Total float64 }
	if err := json.Unmarshal(c.State, &order); err != nil {
		return checks.Answer{}, err // undetermined: the check is repeated, then reported
	}
	late := alerts.Draft{Step: fmt.Sprintf("hour-%d", c.Step), Text: fmt.Sprintf("order %s over %.2f not shipped since %s", c.Key, order.Total, c.Since)}
	if order.Total > 1000 {
		late.Severity = alerts.Critical
	}
	answer := checks.Answer{Next: c.Slot.Add(time.Hour), Step: c.Step + 1, Alerts: []alerts.Draft{late}}
	if answer.Step == 3 {
		answer.Next, answer.Outcome = time.Time{}, checks.Exhausted
	}
	return answer, nil
}
