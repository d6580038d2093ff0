package store

import (
	"context"
	"errors"
	"time"

	"github.com/jackc/pgx/v5"

	"deadman/alerts"
)

// takeRows deletes the rows that were sent completely, and cuts the sent alerts from rows that begin with them. It
// returns the numbers of all other rows.
const takeRows = `WITH sent AS (
	SELECT * FROM unnest($1::smallint[], $2::timestamptz[], $3::uuid[], $4::bytea[]) WITH ORDINALITY AS sent (shard, at, first_id, ids, n)
), dropped AS (
	DELETE FROM alert_outbox o USING sent
	WHERE o.shard = sent.shard AND o.at = sent.at AND o.first_id = sent.first_id AND o.ids = sent.ids
	RETURNING sent.n
), cut AS (
	UPDATE alert_outbox o SET ids = substr(o.ids, length(sent.ids) + 1) FROM sent
	WHERE o.shard = sent.shard AND o.at = sent.at AND o.first_id = sent.first_id
		AND length(o.ids) > length(sent.ids) AND substr(o.ids, 1, length(sent.ids)) = sent.ids
	RETURNING sent.n
)
SELECT n FROM sent WHERE n NOT IN (SELECT n FROM dropped UNION ALL SELECT n FROM cut) ORDER BY n`

// postgresOutbox removes published alerts from the outbox.
type postgresOutbox struct{ *postgresPool }

// MarkPublished implements alerts.Outbox.
func (p *postgresOutbox) MarkPublished(ctx context.Context, sent []alerts.Alert) error {
	if len(sent) == 0 {
		return nil
	}
	ctx, cancel := withDBTimeout(ctx)
	defer cancel()
	rows := rowsOf(sent)
	var others []int
	err := retry(ctx, p.isRetryable, func() (err error) {
		others, err = p.take(ctx, rows)
		return err
	})
	for _, n := range others {
		if err == nil {
			err = retry(ctx, p.isRetryable, func() error { return p.takeOut(ctx, rows[n-1]) })
		}
	}
	if err != nil {
		return wrapErr("mark published", err)
	}
	return nil
}

// take returns the numbers, from 1, of the rows that takeRows left unchanged.
func (p *postgresOutbox) take(ctx context.Context, rows []outboxRow) ([]int, error) {
	shards, ats := make([]int16, len(rows)), make([]time.Time, len(rows))
	firsts, ids := make([][16]byte, len(rows)), make([][]byte, len(rows))
	for i, r := range rows {
		shards[i], ats[i], firsts[i], ids[i] = r.shard, r.place.At, r.place.First, packed(r.ids)
	}
	found, err := p.pool.Query(ctx, takeRows, shards, ats, firsts, ids)
	if err != nil {
		return nil, err
	}
	return pgx.CollectRows(found, pgx.RowTo[int])
}

// takeOut removes alerts from a row with any content. It retries if another node changes the row between its read and
// its write; each time one of the nodes makes progress.
func (p *postgresOutbox) takeOut(ctx context.Context, r outboxRow) error {
	for {
		var ids idList
		switch err := p.pool.QueryRow(ctx, findRow, r.key()...).Scan(&ids); {
		case errors.Is(err, pgx.ErrNoRows):
			return nil // all of it was sent
		case err != nil:
			return err
		}
		text, args := r.write(ids)
		if text == "" {
			return nil
		}
		tag, err := p.pool.Exec(ctx, text, args...)
		if err != nil || tag.RowsAffected() > 0 {
			return err
		}
	}
}
