package store

import (
	"context"
	"database/sql"
	"encoding/json"
	"errors"
	"time"

	futurejobs "deadman/future_jobs"
	"deadman/internal/access"
)

// How long a request is remembered, and how long one that has no answer is taken to be under
// way.
const (
	remembered = 24 * time.Hour
	underWay   = time.Minute
)

// keepOutcome keeps what a request came to, in the transaction that carries it out. reply has the outcome
// until there is an answer, which comes with a status. No row: the request was carried out, or given up.
const keepOutcome = `UPDATE idempotency SET reply = $1 WHERE key = $2 AND status IS NULL AND reply IS NULL`

// outcomeOf is what keepOutcome keeps of a batch.
func outcomeOf(done futurejobs.ApplyResult) ([]byte, error) {
	return json.Marshal(futurejobs.ApplyResult{EffectCounts: done.EffectCounts, Stood: done.Stood, Over: done.Over})
}

// once applies a batch unless its request was carried out before: then it returns what that came to.
// A commit whose answer was lost is found in this way, too.
func once(ctx context.Context, db reader, b futurejobs.EffectBatch, apply func() (futurejobs.ApplyResult, error)) (futurejobs.ApplyResult, error) {
	if b.Once == "" {
		return apply()
	}
	before, ok, err := outcome(ctx, db, b.Once)
	if ok || err != nil {
		return before, err
	}
	done, why := apply()
	if !errors.Is(why, access.ErrRunning) {
		return done, why
	}
	if before, ok, err = outcome(ctx, db, b.Once); ok || err != nil {
		return before, err
	}
	return done, why
}

// outcome returns what a request came to that was carried out, and whose answer is not kept.
func outcome(ctx context.Context, db reader, key string) (done futurejobs.ApplyResult, ok bool, err error) {
	var kept []byte
	err = db.QueryRowContext(ctx, `SELECT reply FROM idempotency WHERE key = $1 AND status IS NULL AND reply IS NOT NULL`, escape(key)).Scan(&kept)
	if errors.Is(err, sql.ErrNoRows) {
		return done, false, nil
	}
	if err == nil {
		err = json.Unmarshal(kept, &done)
	}
	if err != nil {
		return done, false, wrapErr("idempotency", err)
	}
	done.Before = true
	return done, true, nil
}

// Begin claims a request that is not to be done twice; nil: the caller is the first, and has to
// Finish or Forget it. So is the caller where the request was carried out and its answer was not kept: its
// Apply returns what it came to. Otherwise it returns what was answered, access.ErrRunning while that
// is yet to come, or access.ErrOtherBody. body is the SHA-256 of the request's.
func (s *Store) Begin(ctx context.Context, key string, body [32]byte) (reply *access.StoredResponse, err error) {
	err = s.tx(ctx, func(tx *sql.Tx, now time.Time) error {
		n, err := exec(ctx, tx, `
INSERT INTO idempotency (key, body, at) VALUES ($1, $2, $3)
ON CONFLICT (key) DO UPDATE SET body = excluded.body, at = excluded.at, status = NULL, header = NULL, reply = NULL
WHERE idempotency.at < $4
	OR idempotency.status IS NULL AND idempotency.reply IS NULL AND idempotency.body = excluded.body AND idempotency.at < $5`,
			escape(key), body[:], now, now.Add(-remembered), now.Add(-underWay))
		if err != nil || n == 1 {
			return err
		}
		reply, err = answered(ctx, tx, key, body)
		return err
	})
	if err != nil {
		return nil, wrapErr("idempotency", err)
	}
	return reply, nil
}

// answered is what was answered to a request that is remembered.
func answered(ctx context.Context, tx *sql.Tx, key string, body [32]byte) (*access.StoredResponse, error) {
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
	case !status.Valid && reply != nil:
		return nil, nil // carried out; the answer is made again
	case !status.Valid:
		return nil, access.ErrRunning
	}
	r := &access.StoredResponse{Status: int(status.Int64), Body: reply}
	return r, json.Unmarshal([]byte(header.String), &r.Header)
}

// Finish keeps what was answered to a request that was begun. Of two that took so long that
// both were done, the first answer stays.
func (s *Store) Finish(ctx context.Context, key string, r access.StoredResponse) error {
	header, err := json.Marshal(r.Header)
	if err != nil {
		return wrapErr("idempotency", err)
	}
	if _, err := exec(ctx, s.db, `UPDATE idempotency SET status = $1, header = $2, reply = $3 WHERE key = $4 AND status IS NULL`,
		r.Status, string(header), r.Body, escape(key)); err != nil {
		return wrapErr("idempotency", err)
	}
	return nil
}

// Forget lets a request that came to nothing be made again. One that was carried out stays.
func (s *Store) Forget(ctx context.Context, key string) error {
	if _, err := exec(ctx, s.db, `DELETE FROM idempotency WHERE key = $1 AND status IS NULL AND reply IS NULL`, escape(key)); err != nil {
		return wrapErr("idempotency", err)
	}
	return nil
}
