-- +goose Up

-- The end of the acknowledgement that suppresses the steps of a job; the year 9999: until it is resolved.
ALTER TABLE future_job ADD COLUMN acked_until timestamptz;

-- The acknowledgement of a job's alerts. It is kept until the job has ended.
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
