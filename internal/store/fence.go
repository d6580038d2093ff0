package store

import (
	"context"
	"database/sql"
	"errors"
	"slices"
	"time"

	futurejobs "deadman/future_jobs"
)

// The rows that a transaction depends on stay as evaluated until the commit (decision 54):
//
//  - Settle depends on rule.fence of the rules of its jobs,
//  - Apply depends on event_cursor.revision of its stream, or on rule.revision of its rules,
//  - all of them depend on rule_set.revision while a node of schema 16 runs, as its changes leave no other trace.
//
// A closed gate admits no new transaction, so overlapping transactions cannot hold off a change.

// olderNode is the statement that finds a node that changes rules without a fence. A dead node may still have a change
// in flight, so it counts for another minute.
const olderNode = `SELECT id FROM node WHERE coalesce(schema_known, 16) < 17 AND expires_at > now() - interval '1 minute' LIMIT 1`

// errGateClosed means that the rules are as evaluated, but about to change. It is transient.
var errGateClosed = errGated{}

type errGated struct{}

func (errGated) Error() string { return "gate: " + futurejobs.ErrRulesChanged.Error() }

func (errGated) Unwrap() error { return futurejobs.ErrRulesChanged }

// rulesOf returns the rules of decisions, each once.
func rulesOf(decisions []*futurejobs.Decision) []int32 {
	var ids []int32
	last := int32(-1)
	for _, d := range decisions {
		if d.Job.RuleID == last {
			continue // the common case
		}
		if last = d.Job.RuleID; !slices.Contains(ids, last) {
			ids = append(ids, last)
		}
	}
	slices.Sort(ids)
	return ids
}

// without returns the decisions that concern none of the rules.
func without(decisions []*futurejobs.Decision, rules []int32) []*futurejobs.Decision {
	return slices.DeleteFunc(slices.Clone(decisions), func(d *futurejobs.Decision) bool { return slices.Contains(rules, d.Job.RuleID) })
}

// fenced returns ErrRulesChanged unless a rule is unchanged since its evaluation at a revision, and ErrNotHeld unless
// one of the shards is held. Both stay so until the transaction ends.
func (s *database) fenced(ctx context.Context, tx *sql.Tx, rule int32, revision int64, held []futurejobs.HeldShard, now time.Time) error {
	if err := s.fencedForAll(ctx, tx, revision, now); err != nil {
		return err
	}
	n, err := exec(ctx, tx, `UPDATE rule SET gate_until = gate_until
WHERE id = $1 AND fence <= $2 AND (gate_until IS NULL OR gate_until <= $3)`, rule, revision, now)
	if err != nil {
		return err
	}
	if n == 0 {
		return futurejobs.ErrRulesChanged
	}
	return heldBy(ctx, tx, held, now)
}

// fencedForAll returns ErrRulesChanged if a node of schema 16 runs and the rule set is not at the given revision.
func (s *database) fencedForAll(ctx context.Context, tx *sql.Tx, revision int64, now time.Time) error {
	if older, err := s.hasOlderNode(ctx, tx); !older || err != nil {
		return err
	}
	n, err := exec(ctx, tx, `UPDATE rule_set SET gate_until = gate_until
WHERE id = 1 AND revision = $1 AND (gate_until IS NULL OR gate_until <= $2)`, revision, now)
	if err == nil && n == 0 {
		err = futurejobs.ErrRulesChanged
	}
	return err
}

// hasOlderNode reports whether a node of schema 16 runs. A single-process store has no other nodes.
func (s *database) hasOlderNode(ctx context.Context, tx *sql.Tx) (bool, error) {
	if s.alone {
		return false, nil
	}
	var id string
	err := tx.QueryRowContext(ctx, olderNode).Scan(&id)
	return err == nil, ignoreErr(errors.Is(err, sql.ErrNoRows), err)
}
