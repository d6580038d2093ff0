-- +goose Up

-- Until when the steps of a job stay unsaid, because somebody acknowledged what it said; the year 9999: for
-- good.
ALTER TABLE future_job ADD COLUMN acked_until timestamptz;

-- Who acknowledged what was said about a job. It stays until its job has ended.
CREATE TABLE acknowledgement (
    shard    smallint NOT NULL,
    job_id   bigint NOT NULL,
    alert_id uuid NOT NULL,
    by_whom  text NOT NULL,
    at       timestamptz NOT NULL,
    until_at timestamptz NOT NULL,
    note     text NOT NULL,
    PRIMARY KEY (shard, job_id)
);
