package server

import (
	futurejobs "deadman/future_jobs"
	"deadman/internal/scheduler"
	"deadman/rules"
)

// jobStore is by what jobs begin and change: because of events and beats, of ticks, and of rules that
// were saved.
type jobStore interface {
	futurejobs.EffectStore
	scheduler.CursorStore
	rules.Jobs
}
