package store

import (
	"context"

	"deadman/alerts"
)

// keysOfMessage selects the newest alert of each key of a notification, with its rank: its severity, or 0 if the key is
// resolved.
const keysOfMessage = `
SELECT q.shard, q.id, q.rule_id, q.severity, q.closed, CASE WHEN q.closed OR q.status = 2 THEN 0 ELSE q.severity END AS ranked
FROM (SELECT a.shard, a.id, a.rule_id, a.status, a.severity, a.status = 1 AND NOT d.unclosed AS closed,
		row_number() OVER (PARTITION BY a.rule_id, a.key ORDER BY a.id DESC) AS age
	FROM delivery d JOIN alert a ON a.shard = d.shard AND a.id = d.alert_id
	WHERE d.notice = $1) AS q
WHERE q.age = 1`

// Summary returns the state of the keys of a notification, with the alerts of up to limit of them.
func (s *NotificationStore) Summary(ctx context.Context, n alerts.Notification, limit int) (m alerts.Summary, err error) {
	m.Counts, err = query(ctx, s.read, readKeyCount, `SELECT r.name, k.ranked = 0, k.severity, count(*)
FROM (`+keysOfMessage+`) AS k JOIN rule r ON r.id = k.rule_id
GROUP BY r.name, k.ranked = 0, k.severity ORDER BY r.name, k.ranked = 0, k.severity DESC`, n.ID)
	if err == nil {
		m.Keys, err = query(ctx, s.read, readKeyState, `SELECT `+alertColumns+`, k.closed
FROM (SELECT o.*, row_number() OVER (PARTITION BY o.rule_id ORDER BY o.ranked DESC, o.id) AS turn FROM (`+keysOfMessage+`) AS o) AS k
JOIN alert a ON a.shard = k.shard AND a.id = k.id
JOIN rule r ON r.id = a.rule_id
ORDER BY k.ranked = 0, k.turn, k.ranked DESC, k.id LIMIT $2`, n.ID, limit)
	}
	if err != nil {
		return alerts.Summary{}, wrapErr("summary", err)
	}
	return m, nil
}

func readKeyCount(row scanner, c *alerts.KeyCount) error {
	var severity int16
	if err := row.Scan(&c.Rule, &c.Resolved, &severity, &c.Count); err != nil {
		return err
	}
	c.Severity = alerts.SeverityOf(severity)
	return nil
}

func readKeyState(row scanner, k *alerts.KeyState) error {
	r := alertRow{Alert: &k.Alert}
	if err := row.Scan(append(r.fields(), &k.Closed)...); err != nil {
		return err
	}
	return r.read()
}
