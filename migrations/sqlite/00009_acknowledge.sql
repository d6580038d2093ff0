-- +goose Up

-- Until when the steps of a job stay unsaid, because somebody acknowledged what it said; the year 9999: for
-- good.
ALTER TABLE future_job ADD COLUMN acked_until INTEGER;

-- Who acknowledged what was said about a job. It stays until its job has ended.
CREATE TABLE acknowledgement (
    shard    INTEGER NOT NULL,
    job_id   INTEGER NOT NULL,
    alert_id BLOB NOT NULL,
    by_whom  TEXT NOT NULL,
    at       INTEGER NOT NULL,
    until_at INTEGER NOT NULL,
    note     TEXT NOT NULL,
    PRIMARY KEY (shard, job_id)
) STRICT, WITHOUT ROWID;
