package store

import (
	"context"
	"database/sql"
	"time"
)

// forgetNotices deletes old notifications and deliveries that belong to no alert, while more says so. Those of an alert have no
// retention of their own: the end of an open alert, however old, is sent to the channels of its deliveries.
func (s *NotificationStore) forgetNotices(ctx context.Context, before time.Time, more func() bool) error {
	bound := firstAlert(before)
	for shard := range s.shards {
		for _, text := range []string{
			`DELETE FROM alert_news WHERE shard = $1 AND id IN (SELECT n.id FROM alert_news n WHERE n.shard = $1 AND n.id < $2
	AND NOT EXISTS (SELECT 1 FROM alert a WHERE a.shard = n.shard AND a.id = n.id) ORDER BY n.id LIMIT $3)`,
			`DELETE FROM delivery WHERE shard = $1 AND alert_id < $2 AND (alert_id, channel) IN
	(SELECT d.alert_id, d.channel FROM delivery d WHERE d.shard = $1 AND d.alert_id < $2
	AND NOT EXISTS (SELECT 1 FROM alert a WHERE a.shard = d.shard AND a.id = d.alert_id) ORDER BY d.alert_id LIMIT $3)`,
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

// forgetSent deletes the notifications without a delivery that were planned before a time and are sent or given up, while more
// says so. Notifications are read by id, the order of creation, up to the first pruneBatch without one from before the time: no
// index has the order of planned_at.
func (s *NotificationStore) forgetSent(ctx context.Context, before time.Time, more func() bool) error {
	for after := int64(0); more(); {
		next, err := query(ctx, s.read, readPastNotice, `SELECT id, planned_at, `+unfinished+` OR EXISTS (SELECT 1 FROM delivery d WHERE d.notice = notice.id)
FROM notice WHERE id > $1 ORDER BY id LIMIT $2`, after, pruneBatch)
		if err != nil {
			return err
		}
		var gone []int64
		old := false
		for _, n := range next {
			after = n.id
			isOld := n.plannedAt.Before(before)
			old = old || isOld
			if isOld && !n.used {
				gone = append(gone, n.id)
			}
		}
		if !old {
			return nil
		}
		if len(gone) == 0 {
			continue
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
	id        int64
	plannedAt time.Time
	used      bool // it is neither sent nor given up, or has a delivery
}

func readPastNotice(row scanner, n *pastNotice) error {
	return row.Scan(&n.id, at(&n.plannedAt), &n.used)
}
