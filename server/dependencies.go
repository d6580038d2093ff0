//go:build !faultpoints

package server

import (
	"time"

	"deadman/alerts"
	futurejobs "deadman/future_jobs"
	"deadman/rules"
)

// The database, the broker and the sources as seen by the sweep, the intake, the ticks, the relay and rules. The
// fault campaign's build injects its bugs here.
func (n *node) queue() futurejobs.Queue { return n.store }
func (n *node) ledger() jobStore        { return n.store }
func (n *node) outbox() alerts.Outbox   { return n.store }

func (n *node) publisher() alerts.Publisher { return n.bus }

func (n *node) databaseClock() func() time.Time { return n.Clock }

func (n *node) lookups() rules.Sources { return n.sources }
