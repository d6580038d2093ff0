package store

import (
	"context"
	"database/sql"
	"encoding/hex"
	"errors"
	"time"

	"deadman/alerts"
	futurejobs "deadman/future_jobs"
	"deadman/internal/access"
	"deadman/internal/acklinks"
)

// AckLinkStore keeps the key of the links that acknowledge alerts, and reads their alerts.
type AckLinkStore struct{ *database }

// ackKey is the setting with the key of the links, in hexadecimal digits.
const ackKey = "ack_key"

// AckKey returns the key of the links that acknowledge alerts. It creates one if there is none.
func (s *AckLinkStore) AckKey(ctx context.Context) ([]byte, error) {
	key, err := readAckKey(ctx, s.read)
	if errors.Is(err, sql.ErrNoRows) {
		err = s.tx(ctx, func(tx *sql.Tx, _ time.Time) (err error) {
			if _, err := exec(ctx, tx, `INSERT INTO setting (name, value) VALUES ($1, $2) ON CONFLICT DO NOTHING`, ackKey, hex.EncodeToString(acklinks.NewKey())); err != nil {
				return err
			}
			key, err = readAckKey(ctx, tx)
			return err
		})
	}
	if err != nil {
		return nil, wrapErr("key of acknowledge links", err)
	}
	return key, nil
}

// readAckKey returns sql.ErrNoRows if there is no key.
func readAckKey(ctx context.Context, q reader) ([]byte, error) {
	var value string
	if err := q.QueryRowContext(ctx, `SELECT value FROM setting WHERE name = $1`, ackKey).Scan(&value); err != nil {
		return nil, err
	}
	return hex.DecodeString(value)
}

// RevokeAckLinks replaces the key: all links and buttons that were sent before are invalid. It audits ack-link.revoke in
// the same transaction.
func (s *AckLinkStore) RevokeAckLinks(ctx context.Context) error {
	err := s.tx(ctx, func(tx *sql.Tx, now time.Time) error {
		if _, err := exec(ctx, tx, putSetting,
			ackKey, hex.EncodeToString(acklinks.NewKey())); err != nil {
			return err
		}
		return audit(ctx, tx, now, access.AckLinkRevoke, "ack-links", "")
	})
	if err != nil {
		return wrapErr("revoke acknowledge links", err)
	}
	return nil
}

// MessageAlerts returns the newest alert of each key of a notification, while the job that raised it is pending, in the
// order of ids from after on, with the acknowledgement of the job. The alerts have no documents.
func (s *AckLinkStore) MessageAlerts(ctx context.Context, message int64, after alerts.ID, limit int) ([]futurejobs.ListedAlert, error) {
	found, err := query(ctx, s.read, readOpen, `SELECT `+alertHeads+`, `+s.unpublished()+`, `+besideOpen+`
FROM (`+keysOfMessage+`) AS m
JOIN alert a ON a.shard = m.shard AND a.id = m.id
JOIN rule r ON r.id = a.rule_id
JOIN future_job f ON f.shard = a.shard AND f.rule_id = a.rule_id AND f.key = a.key AND `+s.holds(`f.alert_ids`, `a.id`)+withAck+`
WHERE m.ranked <> 0 AND a.id > $2 ORDER BY a.id LIMIT $3`, message, after[:], limit)
	if err != nil {
		return nil, wrapErr("alerts of a message", err)
	}
	return found, nil
}
