package store

import (
	"context"
	"database/sql"
	"time"

	"deadman/alerts"
)

// Announce writes an alert that the node says about itself, once however often it is called.
// said is false where it was written before.
func (s *Store) Announce(ctx context.Context, a alerts.Alert) (said bool, err error) {
	text, err := detail(a)
	if err != nil {
		return false, err
	}
	err = s.tx(ctx, func(tx *sql.Tx, _ time.Time) error {
		n, err := exec(ctx, tx, `INSERT INTO alert (shard, id, rule_id, version, key, decided_at, detail)
VALUES ($1, $2, $3, $4, $5, $6, $7) ON CONFLICT DO NOTHING`,
			a.Shard, a.ID[:], alerts.OwnRuleID, a.RuleVersion, escape(a.Key), a.DecidedAt, text)
		if said = n == 1; err != nil || !said {
			return err
		}
		if _, err := exec(ctx, tx, `INSERT INTO alert_outbox (shard, id) VALUES ($1, $2)`, a.Shard, a.ID[:]); err != nil {
			return err
		}
		_, err = exec(ctx, tx, `INSERT INTO alert_news (shard, id) SELECT shard, id FROM alert WHERE shard = $1 AND id = $2 AND `+notifying,
			a.Shard, a.ID[:])
		return err
	})
	if err != nil {
		return false, failed("announce", err)
	}
	return said, nil
}
