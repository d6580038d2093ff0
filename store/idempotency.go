package store

import (
	"context"
	"database/sql"
	"encoding/json"
	"time"

	"deadman/access"
)

// How long a request is remembered, and how long one that has no answer is taken to be under
// way.
const (
	remembered = 24 * time.Hour
	underWay   = time.Minute
)

// Begin claims a request that is not to be done twice; nil: the caller is the first, and has to
// Finish or Forget it. Otherwise it returns what was answered, access.ErrRunning while that
// is yet to come, or access.ErrOtherBody. body is the SHA-256 of the request's.
func (s *Store) Begin(ctx context.Context, key string, body [32]byte) (reply *access.Reply, err error) {
	err = s.tx(ctx, func(tx *sql.Tx, now time.Time) error {
		n, err := exec(ctx, tx, `
INSERT INTO idempotency (key, body, at) VALUES ($1, $2, $3)
ON CONFLICT (key) DO UPDATE SET body = excluded.body, at = excluded.at, status = NULL, header = NULL, reply = NULL
WHERE idempotency.at < $4 OR idempotency.status IS NULL AND idempotency.body = excluded.body AND idempotency.at < $5`,
			escape(key), body[:], now, now.Add(-remembered), now.Add(-underWay))
		if err != nil || n == 1 {
			return err
		}
		reply, err = answered(ctx, tx, key, body)
		return err
	})
	if err != nil {
		return nil, failed("idempotency", err)
	}
	return reply, nil
}

// answered is what was answered to a request that is remembered.
func answered(ctx context.Context, tx *sql.Tx, key string, body [32]byte) (*access.Reply, error) {
	var had, reply []byte
	var status sql.NullInt64
	var header sql.NullString
	if err := tx.QueryRowContext(ctx, `SELECT body, status, header, reply FROM idempotency WHERE key = $1`, escape(key)).
		Scan(&had, &status, &header, &reply); err != nil {
		return nil, err
	}
	switch {
	case [32]byte(had) != body:
		return nil, access.ErrOtherBody
	case !status.Valid:
		return nil, access.ErrRunning
	}
	r := &access.Reply{Status: int(status.Int64), Body: reply}
	return r, json.Unmarshal([]byte(header.String), &r.Header)
}

// Finish keeps what was answered to a request that was begun. Of two that took so long that
// both were done, the first answer stays.
func (s *Store) Finish(ctx context.Context, key string, r access.Reply) error {
	header, err := json.Marshal(r.Header)
	if err != nil {
		return failed("idempotency", err)
	}
	if _, err := exec(ctx, s.db, `UPDATE idempotency SET status = $1, header = $2, reply = $3 WHERE key = $4 AND status IS NULL`,
		r.Status, string(header), r.Body, escape(key)); err != nil {
		return failed("idempotency", err)
	}
	return nil
}

// Forget lets a request that came to nothing be made again.
func (s *Store) Forget(ctx context.Context, key string) error {
	if _, err := exec(ctx, s.db, `DELETE FROM idempotency WHERE key = $1 AND status IS NULL`, escape(key)); err != nil {
		return failed("idempotency", err)
	}
	return nil
}
