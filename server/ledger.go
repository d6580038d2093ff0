package server

import (
	futurejobs "deadman/future_jobs"
	"deadman/internal/scheduler"
	"deadman/rules"
)

// ledger is by what jobs begin and change: because of events and beats, of ticks, and of rules that
// were saved.
type ledger interface {
	futurejobs.Ledger
	scheduler.Ledger
	rules.Jobs
}
