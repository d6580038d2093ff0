package pings

import (
	"context"
	"time"

	futurejobs "deadman/future_jobs"
)

// Store stores addresses and the ping log. Implementations are safe for concurrent use.
type Store interface {
	// PingTargets returns the addresses with an id: one of a key, or the ping key of one or several rules. It leaves
	// out deleted rules.
	PingTargets(ctx context.Context, id string) ([]Address, error)
	// PingAddresses returns all addresses of a rule: its ping key first, then ordered by key.
	PingAddresses(ctx context.Context, ruleID int32) ([]Address, error)
	// CountPingAddresses returns the number of addresses of a rule.
	CountPingAddresses(ctx context.Context, ruleID int32) (int, error)
	// PingAddress returns the address of a rule and a key, or futurejobs.ErrNotFound.
	PingAddress(ctx context.Context, ruleID int32, key string) (Address, error)
	// CreatePingAddress stores an address and audits ping.create. If the key has an address already, it returns that
	// one, unless replace is set: then the new one replaces it and ping.rotate is audited. It returns ErrAddressExists,
	// ErrTooManyAddresses, or futurejobs.ErrNotFound if the rule is deleted.
	CreatePingAddress(ctx context.Context, a Address, replace bool) (kept Address, created bool, err error)
	// DeletePingAddress deletes the address of a rule and a key, and audits ping.delete. It returns
	// futurejobs.ErrNotFound.
	DeletePingAddress(ctx context.Context, ruleID int32, key string) error

	// LogPings adds pings to the log, oldest first. For each of their keys it deletes entries older than the last
	// Logged, and bodies older than the last KeptBodies bytes.
	LogPings(ctx context.Context, entries []Entry) error
	// PingLog returns pings of a rule, newest first. An empty key returns those of all keys. If before is not 0, only
	// entries with smaller ids are returned.
	PingLog(ctx context.Context, ruleID int32, key string, before int64, limit int) ([]Entry, error)
}

const (
	// Logged is the number of log entries kept for a key.
	Logged = 100
	// KeptBodies is the maximum total size of the bodies kept in the log of a key, in bytes. Any client with a ping key
	// can create MaxAddresses keys. It is larger than MaxBody.
	KeptBodies = 50_000
)

// Entry is a line of the log.
type Entry struct {
	ID       int64 // increasing
	RuleID   int32
	Key      string
	At       time.Time
	Signal   Signal
	Run      string // a UUID; empty: none given
	Agent    string // User-Agent of the client, truncated
	Body     string // truncated to MaxBody; empty also if older than KeptBodies, or beyond a quota
	BodySize int    // bytes sent

	// Took is the duration of the run that the ping ends. It is computed from the entries of the same list; 0: unknown.
	Took time.Duration
}

// EffectStore applies heartbeats to jobs. The store implements it; its errors are those of futurejobs.EffectStore.
type EffectStore interface {
	Apply(ctx context.Context, b futurejobs.EffectBatch) (futurejobs.ApplyResult, error)
}
