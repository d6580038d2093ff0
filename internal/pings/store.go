package pings

import (
	"context"
	"time"

	futurejobs "deadman/future_jobs"
)

// Store keeps addresses and the log of pings. Implementations are safe for concurrent use.
type Store interface {
	// PingTargets returns the addresses of an id: one of a key, or the ping key of one or several
	// rules. Those of deleted rules are not among them.
	PingTargets(ctx context.Context, id string) ([]Address, error)
	// PingAddresses returns all addresses of a rule, its ping key first, then by key.
	PingAddresses(ctx context.Context, ruleID int32) ([]Address, error)
	// PingAddress returns the address of a rule and a key, or futurejobs.ErrNotFound.
	PingAddress(ctx context.Context, ruleID int32, key string) (Address, error)
	// CreatePingAddress keeps an address, and audits ping.create. Where the key has one it returns
	// that, unless replace: then the new one takes its place, and ping.rotate is audited. It
	// returns ErrTaken, ErrFull, or futurejobs.ErrNotFound where the rule is deleted.
	CreatePingAddress(ctx context.Context, a Address, replace bool) (kept Address, created bool, err error)
	// DeletePingAddress takes the address of a rule and a key away, and audits ping.delete. It
	// returns futurejobs.ErrNotFound.
	DeletePingAddress(ctx context.Context, ruleID int32, key string) error

	// LogPings adds pings to the log, oldest first, and takes away those of their keys that are
	// older than the last Logged, and the bodies of those that are older than the last KeptBodies.
	LogPings(ctx context.Context, entries []Entry) error
	// PingLog returns pings of a rule, newest first: of a key, or of all where it is empty.
	// Before narrows it to those with a smaller id; 0 narrows nothing.
	PingLog(ctx context.Context, ruleID int32, key string, before int64, limit int) ([]Entry, error)
}

const (
	// Logged is how many pings of a key the log keeps.
	Logged = 100
	// KeptBodies is how much the bodies of a key's pings that the log keeps come to at most, in
	// bytes: whoever knows a ping key can make MaxAddresses keys. It is more than any one body has.
	KeptBodies = 50_000
)

// Entry is a line of the log.
type Entry struct {
	ID       int64 // later entries have greater ones
	RuleID   int32
	Key      string
	At       time.Time
	Signal   Signal
	Run      string // a UUID; empty: it named none
	Agent    string // what the client calls itself, clipped
	Body     string // what was said beside, clipped to MaxBody; empty also where it is older than what is kept
	BodySize int    // bytes that were sent

	// Took is how long the run took that the ping ends. It is found from the entries that are
	// listed with it; 0: not known.
	Took time.Duration
}

// Ledger is where beats become jobs. The store implements it; its errors are
// futurejobs.EffectStore's.
type Ledger interface {
	Apply(ctx context.Context, b futurejobs.EffectBatch) (futurejobs.ApplyResult, error)
}
