package store

import (
	"context"
	"database/sql"
	"errors"
	"slices"
	"time"

	futurejobs "deadman/future_jobs"
)

// What a transaction rests on stays as it was evaluated until the commit (decision 54):
//
//   - Settle rests on rule.fence of the rules of its jobs,
//   - Apply rests on event_cursor.revision of its stream, or on rule.revision of its rules,
//   - all of them rest on rule_set.revision while a node of schema 16 runs, whose changes leave no other trace.
//
// A gate that is closed lets no new transaction in, so that those which overlap cannot hold a change off.

// olderNode is the statement that finds a node whose changes of rules leave no fence. A node that died may
// still have a change in flight, so it counts for a minute more.
const olderNode = `SELECT id FROM node WHERE coalesce(schema_known, 16) < 17 AND expires_at > now() - interval '1 minute' LIMIT 1`

// errGateClosed means that the rules are as they were evaluated, but about to change. It passes.
var errGateClosed = errGated{}

type errGated struct{}

func (errGated) Error() string { return "gate: " + futurejobs.ErrRulesChanged.Error() }
func (errGated) Unwrap() error { return futurejobs.ErrRulesChanged }

// rulesOf returns the rules that decisions are about, each once.
func rulesOf(decisions []*futurejobs.Decision) []int32 {
	var ids []int32
	last := int32(-1)
	for _, d := range decisions {
		if d.Job.RuleID == last {
			continue // as most of the time
		}
		if last = d.Job.RuleID; !slices.Contains(ids, last) {
			ids = append(ids, last)
		}
	}
	slices.Sort(ids)
	return ids
}

// without returns the decisions that are not about any of the rules.
func without(decisions []*futurejobs.Decision, rules []int32) []*futurejobs.Decision {
	return slices.DeleteFunc(slices.Clone(decisions), func(d *futurejobs.Decision) bool { return slices.Contains(rules, d.Job.RuleID) })
}

// fenced returns ErrRulesChanged unless a rule is as it was evaluated at a revision, and ErrNotHeld unless
// one of the shards is held. Both stay so until the transaction ends.
func (s *Store) fenced(ctx context.Context, tx *sql.Tx, rule int32, revision int64, held []futurejobs.HeldShard, now time.Time) error {
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

// fencedForAll returns ErrRulesChanged where a node of schema 16 runs and the rule set is not at a revision.
func (s *Store) fencedForAll(ctx context.Context, tx *sql.Tx, revision int64, now time.Time) error {
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

// hasOlderNode reports whether a node of schema 16 runs. There is none beside a store that is alone.
func (s *Store) hasOlderNode(ctx context.Context, tx *sql.Tx) (bool, error) {
	if s.alone {
		return false, nil
	}
	var id string
	err := tx.QueryRowContext(ctx, olderNode).Scan(&id)
	return err == nil, ignoreErr(errors.Is(err, sql.ErrNoRows), err)
}
