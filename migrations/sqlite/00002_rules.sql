-- +goose Up

ALTER TABLE rule ADD COLUMN paused_at INTEGER;
ALTER TABLE rule ADD COLUMN paused_by TEXT NOT NULL DEFAULT '';
ALTER TABLE rule ADD COLUMN purged_at INTEGER; -- of a deleted rule: all its jobs have ended
ALTER TABLE rule_version ADD COLUMN saved_by TEXT NOT NULL DEFAULT '';

-- They come after the bodies. While they are NULL, reading them touches no page of those.
ALTER TABLE future_job ADD COLUMN pauses BLOB; -- 16 bytes a pause: from and to, µs; to is 0 while it lasts
ALTER TABLE future_job ADD COLUMN paused_next_at INTEGER;
ALTER TABLE future_job ADD COLUMN members BLOB; -- 8 bytes a member

-- Events that arrived before a job of their key.
CREATE TABLE early (
    shard    INTEGER NOT NULL,
    rule_id  INTEGER NOT NULL,
    key      TEXT NOT NULL,
    at       INTEGER NOT NULL,
    until_at INTEGER NOT NULL,
    outcome  TEXT,
    members  BLOB,
    PRIMARY KEY (shard, rule_id, key)
) STRICT, WITHOUT ROWID;
CREATE INDEX early_until ON early (shard, until_at);

-- Requests with an idempotency key, with their responses; no response yet: the request is in
-- progress.
CREATE TABLE idempotency (
    key    TEXT PRIMARY KEY,
    body   BLOB NOT NULL, -- its SHA-256
    at     INTEGER NOT NULL,
    status INTEGER,
    header TEXT,
    reply  BLOB
) STRICT;
CREATE INDEX idempotency_at ON idempotency (at);
