-- +goose Up

-- Acknowledgements of jobs that the channels of their alerts are not told yet. Rows are written only while the setting
-- notify is present. A later acknowledgement replaces the row.
CREATE TABLE unrouted_ack (
    shard    smallint NOT NULL,
    job_id   bigint NOT NULL,
    alert_id uuid NOT NULL,
    by_whom  text NOT NULL,
    at       timestamptz NOT NULL,
    until_at timestamptz NOT NULL, -- the year 9999: until the job is resolved
    note     text NOT NULL,
    PRIMARY KEY (shard, job_id)
);

-- The acknowledgements in a message to a channel.
CREATE TABLE ack_notice (
    notice   bigint NOT NULL,
    shard    smallint NOT NULL,
    job_id   bigint NOT NULL,
    alert_id uuid NOT NULL,
    by_whom  text NOT NULL,
    until_at timestamptz NOT NULL,
    note     text NOT NULL,
    PRIMARY KEY (notice, shard, job_id)
);
