-- +goose Up

-- Outages: a source that does not answer for a rule. While one is open, its alert covers all affected jobs.
CREATE TABLE outage (
    id        INTEGER PRIMARY KEY AUTOINCREMENT,
    source    TEXT NOT NULL,
    rule_id   INTEGER NOT NULL,
    version   INTEGER NOT NULL,
    opened_at INTEGER NOT NULL,
    seen_at   INTEGER NOT NULL,
    closed_at INTEGER,
    jobs      INTEGER NOT NULL,
    reason    TEXT NOT NULL
) STRICT;
CREATE UNIQUE INDEX outage_open ON outage (source, rule_id) WHERE closed_at IS NULL;

-- Started checks that must not start twice.
CREATE TABLE check_start (
    shard      INTEGER NOT NULL,
    job_id     INTEGER NOT NULL,
    checks     INTEGER NOT NULL, -- of the job before this one
    epoch      INTEGER NOT NULL,
    started_at INTEGER NOT NULL,
    PRIMARY KEY (shard, job_id)
) STRICT, WITHOUT ROWID;
