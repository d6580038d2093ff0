package store

import (
	"context"
	"database/sql"
	"encoding/hex"
	"errors"
	"time"

	futurejobs "deadman/future_jobs"
	"deadman/internal/access"
	"deadman/internal/badges"
)

// BadgeStore keeps the keys that sign the addresses of badges, one for each rule.
type BadgeStore struct{ *database }

// BadgeKey returns the key of the badges of a rule that is not deleted, or futurejobs.ErrNotFound.
func (s *BadgeStore) BadgeKey(ctx context.Context, ruleID int32) ([]byte, error) {
	key, err := readBadgeKey(ctx, s.read, ruleID)
	if err != nil {
		return nil, wrapErr("key of badges", err)
	}
	return key, nil
}

func readBadgeKey(ctx context.Context, q reader, ruleID int32) ([]byte, error) {
	var value string
	err := q.QueryRowContext(ctx, `SELECT b.secret FROM badge_key b JOIN rule r ON r.id = b.rule_id AND r.deleted_at IS NULL WHERE b.rule_id = $1`, ruleID).Scan(&value)
	if errors.Is(err, sql.ErrNoRows) {
		return nil, futurejobs.ErrNotFound
	}
	if err != nil {
		return nil, err
	}
	return hex.DecodeString(value)
}

// CreateBadgeKey returns the key of the badges of a rule. If there is none, it creates one, and audits badge.create.
func (s *BadgeStore) CreateBadgeKey(ctx context.Context, ruleID int32) (key []byte, err error) {
	err = s.tx(ctx, func(tx *sql.Tx, now time.Time) error {
		rule, err := lockPings(ctx, tx, ruleID)
		if err != nil {
			return err
		}
		if key, err = readBadgeKey(ctx, tx, ruleID); !errors.Is(err, futurejobs.ErrNotFound) {
			return err
		}
		key = badges.NewKey()
		if _, err := exec(ctx, tx, `INSERT INTO badge_key (rule_id, secret) VALUES ($1, $2)`, ruleID, hex.EncodeToString(key)); err != nil {
			return err
		}
		return audit(ctx, tx, now, access.BadgeCreate, "rule/"+rule, "")
	})
	if err != nil {
		return nil, wrapErr("create key of badges", err)
	}
	return key, nil
}

// DeleteBadgeKey makes all badges of a rule invalid, and audits badge.revoke. Without a key it returns
// futurejobs.ErrNotFound.
func (s *BadgeStore) DeleteBadgeKey(ctx context.Context, ruleID int32) error {
	err := s.tx(ctx, func(tx *sql.Tx, now time.Time) error {
		rule, err := lockPings(ctx, tx, ruleID)
		if err != nil {
			return err
		}
		n, err := exec(ctx, tx, `DELETE FROM badge_key WHERE rule_id = $1`, ruleID)
		switch {
		case err != nil:
			return err
		case n == 0:
			return futurejobs.ErrNotFound
		}
		return audit(ctx, tx, now, access.BadgeRevoke, "rule/"+rule, "")
	})
	if err != nil {
		return wrapErr("delete key of badges", err)
	}
	return nil
}

// forgetBadgeKeys deletes the keys of deleted rules.
func (s *BadgeStore) forgetBadgeKeys(ctx context.Context) error {
	_, err := exec(ctx, s.db, `DELETE FROM badge_key WHERE rule_id IN (SELECT id FROM rule WHERE deleted_at IS NOT NULL)`)
	return err
}
