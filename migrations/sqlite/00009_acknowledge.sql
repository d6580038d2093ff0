-- +goose Up

-- The end of the acknowledgement that suppresses the steps of a job; the year 9999: until it is resolved.
ALTER TABLE future_job ADD COLUMN acked_until INTEGER;

-- The acknowledgement of a job's alerts. It is kept until the job has ended.
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
