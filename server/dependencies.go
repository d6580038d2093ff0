//go:build !faultpoints

package server

import (
	"time"

	"deadman/alerts"
	futurejobs "deadman/future_jobs"
	"deadman/internal/bus"
	"deadman/internal/store"
	"deadman/rules"
)

// The database, the broker and the sources as seen by the sweep, the intake, the ticks, the relay and rules. The
// fault campaign's build injects its bugs here.
func queue(s *store.Store) futurejobs.Queue { return s }
func jobStoreOf(s *store.Store) jobStore    { return s }
func outbox(s *store.Store) alerts.Outbox   { return s }

func publisher(p *bus.AlertPublisher) alerts.Publisher { return p }

func databaseClock(c Config) func() time.Time { return c.Clock }

func lookups(s sourceSet) rules.Sources { return s }
