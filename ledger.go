package deadman

import (
	futurejobs "deadman/future_jobs"
	"deadman/rules"
	"deadman/ticks"
)

// ledger is by what jobs begin and change: because of events and beats, of ticks, and of rules that
// were saved.
type ledger interface {
	futurejobs.Ledger
	ticks.Ledger
	rules.Jobs
}
