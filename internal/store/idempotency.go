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

// Retention of a request, and the time after which a request without an answer no longer counts as in progress.
const (
	remembered = 24 * time.Hour
	underWay   = time.Minute
)

// keepOutcome stores the outcome of a request in the transaction that applies it. reply has the outcome until the
// answer is stored, together with a status. No row means that the request was applied already, or forgotten.
const keepOutcome = `UPDATE idempotency SET reply = $1 WHERE key = $2 AND status IS NULL AND reply IS NULL`

// outcomeOf encodes the parts of a batch's result that keepOutcome stores.
func outcomeOf(done futurejobs.ApplyResult) ([]byte, error) {
	return json.Marshal(futurejobs.ApplyResult{EffectCounts: done.EffectCounts, AlreadyPending: done.AlreadyPending, Over: done.Over})
}

// applyUnlessRepeated applies a batch unless its request was applied before, and then returns the earlier result.
func applyUnlessRepeated(ctx context.Context, db reader, b futurejobs.EffectBatch, apply func() (futurejobs.ApplyResult, error)) (futurejobs.ApplyResult, error) {
	done, isRepeated, err := unlessRepeated(ctx, db, b.RequestID, apply)
	done.Repeated = done.Repeated || isRepeated
	return done, err
}

// unlessRepeated carries out a request with a key unless it was carried out before, and then returns the earlier outcome. This
// also finds a commit that succeeded although its reply was lost. An empty key has no outcome.
func unlessRepeated[T any](ctx context.Context, db reader, key string, carryOut func() (T, error)) (done T, isRepeated bool, err error) {
	if key == "" {
		done, err = carryOut()
		return done, false, err
	}
	before, ok, err := outcome[T](ctx, db, key)
	if ok || err != nil {
		return before, ok, err
	}
	done, why := carryOut()
	if !errors.Is(why, access.ErrRunning) {
		return done, false, why
	}
	if before, ok, err = outcome[T](ctx, db, key); ok || err != nil {
		return before, ok, err
	}
	return done, false, why
}

// outcome returns the result of a request that was applied but has no stored answer.
func outcome[T any](ctx context.Context, db reader, key string) (done T, ok bool, err error) {
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
	return done, true, nil
}

// keepOutcomeIn stores the outcome of a request with a key in its transaction. It returns access.ErrRunning if the request was
// carried out already, or forgotten.
func keepOutcomeIn(ctx context.Context, tx *sql.Tx, key string, done any) error {
	if key == "" {
		return nil
	}
	kept, err := json.Marshal(done)
	if err != nil {
		return err
	}
	n, err := exec(ctx, tx, keepOutcome, kept, escape(key))
	if err == nil && n == 0 {
		err = access.ErrRunning
	}
	return err
}

// RequestStore remembers requests with an idempotency key.
type RequestStore struct{ *database }

// Begin claims a request that must not run twice. A nil reply means that the caller is the first, and must call Finish
// or Forget. This includes a request that was applied without a stored answer: its Apply returns the earlier result.
// Otherwise Begin returns the stored answer, access.ErrRunning until an answer is stored, or access.ErrOtherBody. body
// is the SHA-256 of the request's.
func (s *RequestStore) Begin(ctx context.Context, key string, body [32]byte) (reply *access.StoredResponse, err error) {
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

// Known reports whether a request with a key began before, and was not forgotten: it is answered, in progress, or its
// answer was lost.
func (s *RequestStore) Known(ctx context.Context, key string) (known bool, err error) {
	now, err := s.Time(ctx)
	if err != nil {
		return false, err
	}
	ctx, cancel := withDBTimeout(ctx)
	defer cancel()
	if err := s.read.QueryRowContext(ctx, `SELECT count(*) > 0 FROM idempotency WHERE key = $1 AND at >= $2`, escape(key), now.Add(-remembered)).Scan(&known); err != nil {
		return false, wrapErr("idempotency", err)
	}
	return known, nil
}

// answered returns the stored answer of a known request.
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
		return nil, nil // applied; the caller makes the answer again
	case !status.Valid:
		return nil, access.ErrRunning
	}
	r := &access.StoredResponse{Status: int(status.Int64), Body: reply}
	return r, json.Unmarshal([]byte(header.String), &r.Header)
}

// Finish stores the answer of a request that Begin claimed. If two attempts took so long that both finished, the first
// answer stays.
func (s *RequestStore) Finish(ctx context.Context, key string, r access.StoredResponse) error {
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

// Forget lets a failed request be made again. A request that was applied stays.
func (s *RequestStore) Forget(ctx context.Context, key string) error {
	if _, err := exec(ctx, s.db, `DELETE FROM idempotency WHERE key = $1 AND status IS NULL AND reply IS NULL`, escape(key)); err != nil {
		return wrapErr("idempotency", err)
	}
	return nil
}

// forgetRequests deletes requests beyond their retention.
func (s *RequestStore) forgetRequests(ctx context.Context, now time.Time) error {
	_, err := s.pruneAll(ctx, "", `DELETE FROM idempotency WHERE key IN
	(SELECT i.key FROM idempotency i WHERE i.at < $1 ORDER BY i.at LIMIT $2)`, now.Add(-remembered), pruneBatch)
	return err
}
