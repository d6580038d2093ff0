-- +goose Up

ALTER TABLE rule
    ADD COLUMN paused_at timestamptz,
    ADD COLUMN paused_by text NOT NULL DEFAULT '',
    ADD COLUMN purged_at timestamptz; -- of a deleted rule: all its jobs have ended
ALTER TABLE rule_version
    ADD COLUMN saved_by text NOT NULL DEFAULT '';

ALTER TABLE future_job
    ADD COLUMN pauses         bytea, -- 16 bytes a pause: from and to, µs; to is 0 while it lasts
    ADD COLUMN paused_next_at timestamptz,
    ADD COLUMN members        bytea; -- 8 bytes a member
-- Hashes do not compress.
ALTER TABLE future_job ALTER COLUMN members SET STORAGE EXTERNAL;

-- Events that arrived before a job of their key.
CREATE TABLE early (
    shard    smallint NOT NULL,
    rule_id  int NOT NULL,
    key      text COLLATE "C" NOT NULL,
    at       timestamptz NOT NULL,
    until_at timestamptz NOT NULL,
    outcome  text,
    members  bytea,
    PRIMARY KEY (shard, rule_id, key)
);
CREATE INDEX early_until ON early (shard, until_at);

-- Requests with an idempotency key, with their responses; no response yet: the request is in
-- progress.
CREATE TABLE idempotency (
    key    text COLLATE "C" PRIMARY KEY,
    body   bytea NOT NULL, -- its SHA-256
    at     timestamptz NOT NULL,
    status int,
    header text,
    reply  bytea
);
CREATE INDEX idempotency_at ON idempotency (at);
