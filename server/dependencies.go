//go:build !faultpoints

package server

import (
	"time"

	"deadman/alerts"
	futurejobs "deadman/future_jobs"
	"deadman/rules"
)

// What the sweep, the intake, the ticks and the relay see of the database and the broker, and rules of
// sources. The fault campaign's build
// puts its planted bugs in between.
func (n *node) queue() futurejobs.Queue { return n.store }
func (n *node) ledger() jobStore        { return n.store }
func (n *node) outbox() alerts.Outbox   { return n.store }

func (n *node) publisher() alerts.Publisher { return n.bus }

func (n *node) databaseClock() func() time.Time { return n.Clock }

func (n *node) lookups() rules.Sources { return n.sources }
