-- +goose Up

-- Acknowledgements of jobs that the channels of their alerts are not told yet. Rows are written only while the setting
-- notify is present. A later acknowledgement replaces the row.
CREATE TABLE unrouted_ack (
    shard    INTEGER NOT NULL,
    job_id   INTEGER NOT NULL,
    alert_id BLOB NOT NULL,
    by_whom  TEXT NOT NULL,
    at       INTEGER NOT NULL,
    until_at INTEGER NOT NULL, -- the year 9999: until the job is resolved
    note     TEXT NOT NULL,
    PRIMARY KEY (shard, job_id)
) STRICT, WITHOUT ROWID;

-- The acknowledgements in a message to a channel.
CREATE TABLE ack_notice (
    notice   INTEGER NOT NULL,
    shard    INTEGER NOT NULL,
    job_id   INTEGER NOT NULL,
    alert_id BLOB NOT NULL,
    by_whom  TEXT NOT NULL,
    until_at INTEGER NOT NULL,
    note     TEXT NOT NULL,
    PRIMARY KEY (notice, shard, job_id)
) STRICT, WITHOUT ROWID;
