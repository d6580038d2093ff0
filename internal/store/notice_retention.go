package store

import (
	"context"
	"database/sql"
	"time"
)

// forgetNotices deletes the notifications of alerts beyond their retention, while more says so.
func (s *NotificationStore) forgetNotices(ctx context.Context, before time.Time, more func() bool) error {
	bound := firstAlert(before)
	for shard := range s.shards {
		for _, text := range []string{
			`DELETE FROM alert_news WHERE shard = $1 AND id IN (SELECT n.id FROM alert_news n WHERE n.shard = $1 AND n.id < $2 ORDER BY n.id LIMIT $3)`,
			`DELETE FROM delivery WHERE shard = $1 AND alert_id < $2 AND (alert_id, channel) IN
	(SELECT d.alert_id, d.channel FROM delivery d WHERE d.shard = $1 AND d.alert_id < $2 ORDER BY d.alert_id LIMIT $3)`,
		} {
			if _, err := s.pruneWhile(ctx, more, "", text, shard, bound[:], pruneBatch); err != nil {
				return err
			}
		}
	}
	if _, err := exec(ctx, s.db, `DELETE FROM mute WHERE `+muteEnd+` < $1`, before); err != nil {
		return err
	}
	return s.forgetSent(ctx, before, more)
}

// forgetSent deletes the notifications that were planned before a time and are sent or given up, while more says so.
// Notifications are read by id, the order of creation, up to the first pruneBatch without one to delete: no index has the
// order of planned_at.
func (s *NotificationStore) forgetSent(ctx context.Context, before time.Time, more func() bool) error {
	for after := int64(0); more(); {
		next, err := query(ctx, s.read, readPastNotice, `SELECT id, planned_at, `+unfinished+` FROM notice WHERE id > $1 ORDER BY id LIMIT $2`, after, pruneBatch)
		if err != nil {
			return err
		}
		var gone []int64
		for _, n := range next {
			after = n.id
			if n.plannedAt.Before(before) && !n.unfinished {
				gone = append(gone, n.id)
			}
		}
		if len(gone) == 0 {
			return nil
		}
		if err := s.tx(ctx, func(tx *sql.Tx, _ time.Time) error {
			if _, err := exec(ctx, tx, `DELETE FROM ack_notice WHERE notice IN `+inList(gone)); err != nil {
				return err
			}
			_, err := exec(ctx, tx, `DELETE FROM notice WHERE id IN `+inList(gone))
			return err
		}); err != nil {
			return err
		}
	}
	return nil
}

// pastNotice is a notification, for its deletion.
type pastNotice struct {
	id         int64
	plannedAt  time.Time
	unfinished bool
}

func readPastNotice(row scanner, n *pastNotice) error {
	return row.Scan(&n.id, at(&n.plannedAt), &n.unfinished)
}
