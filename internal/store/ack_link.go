package store

import (
	"context"
	"database/sql"
	"encoding/hex"
	"errors"
	"slices"
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
		if _, err := exec(ctx, tx, `INSERT INTO setting (name, value) VALUES ($1, $2) ON CONFLICT (name) DO UPDATE SET value = excluded.value`,
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

// messageAlert is an alert of a message, with all alerts of the pending job of its key.
type messageAlert struct {
	futurejobs.ListedAlert
	all []alerts.ID
}

func readMessageAlert(row scanner, a *messageAlert) error {
	return readOpen(rowWithExtras{row, []any{(*idList)(&a.all)}}, &a.ListedAlert)
}

// MessageAlerts returns the newest alert of each key of a notification, while the job that raised it is pending, in the
// order of ids from after on, with the acknowledgement of the job. It reads up to limit keys. next is the position of the
// next page; zero: there is none. The alerts have no documents.
func (s *AckLinkStore) MessageAlerts(ctx context.Context, message int64, after alerts.ID, limit int) (page []futurejobs.ListedAlert, next alerts.ID, err error) {
	found, err := query(ctx, s.read, readMessageAlert, `SELECT `+alertHeads+`, `+s.unpublished()+`, `+ackColumns+`, f.alert_ids
FROM (`+keysOfMessage+`) AS m
JOIN alert a ON a.shard = m.shard AND a.id = m.id
JOIN rule r ON r.id = a.rule_id
JOIN future_job f ON f.shard = a.shard AND f.rule_id = a.rule_id AND f.key = a.key`+withAck+`
WHERE m.ranked <> 0 AND a.id > $2 ORDER BY a.id LIMIT $3`, message, after[:], limit)
	if err != nil {
		return nil, next, wrapErr("alerts of a message", err)
	}
	for _, a := range found {
		if slices.Contains(a.all, a.ID) { // a later job of the key did not raise it
			page = append(page, a.ListedAlert)
		}
	}
	if len(found) == limit {
		next = found[limit-1].ID
	}
	return page, next, nil
}
