package store

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"time"

	futurejobs "deadman/future_jobs"
	"deadman/internal/access"
	"deadman/internal/pings"
)

var _ pings.Store = (*Store)(nil)

// pingAddresses selects addresses a of rules r that are not deleted.
const pingAddresses = `SELECT a.id, a.rule_id, r.name, coalesce(a.key, ''), a.created_at, a.created_by
FROM ping_address a JOIN rule r ON r.id = a.rule_id AND r.deleted_at IS NULL `

func readPingAddress(row scanner, a *pings.Address) error {
	return row.Scan(&a.ID, &a.RuleID, &a.Rule, (*escapedText)(&a.Key), at(&a.CreatedAt), (*escapedText)(&a.CreatedBy))
}

// onPingKey returns the condition for the address of a rule, $1, and a key, $2, or for the rule's ping key.
func onPingKey(key string) string {
	if key == "" {
		return `WHERE a.rule_id = $1 AND a.key IS NULL AND $2 = ''`
	}
	return `WHERE a.rule_id = $1 AND a.key = $2`
}

// PingAddressStore keeps the addresses that receive pings.
type PingAddressStore struct{ *database }

// PingTargets implements pings.Store.
func (s *PingAddressStore) PingTargets(ctx context.Context, id string) ([]pings.Address, error) {
	found, err := query(ctx, s.read, readPingAddress, pingAddresses+`WHERE a.id = $1 ORDER BY a.rule_id`, escape(id))
	if err != nil {
		return nil, wrapErr("address of pings", err)
	}
	return found, nil
}

// PingAddresses implements pings.Store.
func (s *PingAddressStore) PingAddresses(ctx context.Context, ruleID int32) ([]pings.Address, error) {
	found, err := query(ctx, s.read, readPingAddress, pingAddresses+`WHERE a.rule_id = $1 ORDER BY coalesce(a.key, '')`, ruleID)
	if err != nil {
		return nil, wrapErr("addresses of pings", err)
	}
	return found, nil
}

// CountPingAddresses implements pings.Store.
func (s *PingAddressStore) CountPingAddresses(ctx context.Context, ruleID int32) (n int, err error) {
	ctx, cancel := withDBTimeout(ctx)
	defer cancel()
	if err := s.read.QueryRowContext(ctx, `SELECT count(*) FROM ping_address WHERE rule_id = $1`, ruleID).Scan(&n); err != nil {
		return 0, wrapErr("count addresses of pings", err)
	}
	return n, nil
}

// PingAddress implements pings.Store.
func (s *PingAddressStore) PingAddress(ctx context.Context, ruleID int32, key string) (pings.Address, error) {
	return first(ctx, s.read, readPingAddress, noPingAddress(key), "address of pings", pingAddresses+onPingKey(key), ruleID, escape(key))
}

func noPingAddress(key string) error {
	if key == "" {
		return fmt.Errorf("ping key: %w", futurejobs.ErrNotFound)
	}
	return fmt.Errorf("key %q: %w", key, futurejobs.ErrNotFound)
}

// CreatePingAddress implements pings.Store. Every change of a rule's addresses locks the row of the rule.
func (s *PingAddressStore) CreatePingAddress(ctx context.Context, a pings.Address, replace bool) (kept pings.Address, created bool, err error) {
	err = s.tx(ctx, func(tx *sql.Tx, now time.Time) error {
		kept, created = pings.Address{}, false
		rule, err := lockPings(ctx, tx, a.RuleID)
		if err != nil {
			return err
		}
		there, err := query(ctx, tx, readPingAddress, pingAddresses+onPingKey(a.Key), a.RuleID, escape(a.Key))
		if err != nil {
			return err
		}
		if len(there) > 0 && !replace {
			kept = there[0]
			return nil
		}
		if err := clearPingAddress(ctx, tx, a); err != nil {
			return err
		}
		a.Rule, a.CreatedAt, a.CreatedBy = rule, now, access.ActorOf(ctx).Name
		if err := insertPingAddress(ctx, tx, a); err != nil {
			return err
		}
		kept, created = a, true
		action := access.PingCreate
		if len(there) > 0 {
			action = access.PingRotate
		}
		return audit(ctx, tx, now, action, "rule/"+rule, pingDetail(a.Key))
	})
	if err != nil {
		return kept, false, wrapErr("create address of pings", err)
	}
	return kept, created, nil
}

// lockPings locks the addresses of a rule and returns its name.
func lockPings(ctx context.Context, tx *sql.Tx, ruleID int32) (name string, err error) {
	err = tx.QueryRowContext(ctx, `UPDATE rule SET name = name WHERE id = $1 AND deleted_at IS NULL RETURNING name`, ruleID).Scan(&name)
	if errors.Is(err, sql.ErrNoRows) {
		err = fmt.Errorf("rule: %w", futurejobs.ErrNotFound)
	}
	return name, err
}

// clearPingAddress deletes the address being replaced and any address with this id that belongs to a deleted rule.
func clearPingAddress(ctx context.Context, tx *sql.Tx, a pings.Address) error {
	if _, err := deletePing(ctx, tx, a.RuleID, a.Key); err != nil {
		return err
	}
	_, err := exec(ctx, tx, `DELETE FROM ping_address WHERE id = $1 AND rule_id IN (SELECT id FROM rule WHERE deleted_at IS NOT NULL)`, escape(a.ID))
	return err
}

func deletePing(ctx context.Context, tx *sql.Tx, ruleID int32, key string) (int64, error) {
	return exec(ctx, tx, `DELETE FROM ping_address AS a `+onPingKey(key), ruleID, escape(key))
}

// insertPingAddress returns ErrAddressExists if another key has the id, and ErrTooManyAddresses at the limit.
func insertPingAddress(ctx context.Context, tx *sql.Tx, a pings.Address) error {
	var others, all int
	if err := tx.QueryRowContext(ctx, `SELECT
	(SELECT count(*) FROM ping_address WHERE id = $1 AND (key IS NOT NULL OR $2 <> '')),
	(SELECT count(*) FROM ping_address WHERE rule_id = $3)`, escape(a.ID), escape(a.Key), a.RuleID).Scan(&others, &all); err != nil {
		return err
	}
	switch {
	case others > 0:
		return pings.ErrAddressExists
	case all >= pings.MaxAddresses:
		return fmt.Errorf("%w: %d; delete unused ones", pings.ErrTooManyAddresses, pings.MaxAddresses)
	}
	n, err := exec(ctx, tx, `INSERT INTO ping_address (id, rule_id, key, created_at, created_by) VALUES ($1, $2, $3, $4, $5) ON CONFLICT DO NOTHING`,
		escape(a.ID), a.RuleID, pingColumn(a.Key), a.CreatedAt, escape(a.CreatedBy))
	if err == nil && n == 0 {
		err = pings.ErrAddressExists
	}
	return err
}

// pingColumn returns a key as it is stored: NULL for a rule's ping key.
func pingColumn(key string) any {
	if key == "" {
		return nil
	}
	return escape(key)
}

// pingDetail describes an address in the audit log. Its id is a secret.
func pingDetail(key string) string {
	if key == "" {
		return "ping key"
	}
	return "key " + key
}

// DeletePingAddress implements pings.Store.
func (s *PingAddressStore) DeletePingAddress(ctx context.Context, ruleID int32, key string) error {
	err := s.tx(ctx, func(tx *sql.Tx, now time.Time) error {
		rule, err := lockPings(ctx, tx, ruleID)
		if err != nil {
			return err
		}
		n, err := deletePing(ctx, tx, ruleID, key)
		switch {
		case err != nil:
			return err
		case n == 0:
			return noPingAddress(key)
		}
		return audit(ctx, tx, now, access.PingDelete, "rule/"+rule, pingDetail(key))
	})
	if err != nil {
		return wrapErr("delete address of pings", err)
	}
	return nil
}

// forgetPingAddresses deletes the addresses of rules that were deleted before the given time, in bounded transactions.
// It returns their number.
func (s *PingAddressStore) forgetPingAddresses(ctx context.Context, before time.Time) (int64, error) {
	return s.pruneAll(ctx, "", `DELETE FROM ping_address WHERE (id, rule_id) IN
	(SELECT a.id, a.rule_id FROM ping_address a JOIN rule r ON r.id = a.rule_id WHERE r.deleted_at < $1 LIMIT $2)`, before, pruneBatch)
}
