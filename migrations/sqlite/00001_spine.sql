-- +goose Up

-- Instants are microseconds since 1970, UTC.

CREATE TABLE setting (
    name  TEXT PRIMARY KEY,
    value TEXT NOT NULL
) STRICT;

CREATE TABLE rule_set (
    id         INTEGER PRIMARY KEY CHECK (id = 1),
    revision   INTEGER NOT NULL,
    gate_until INTEGER
) STRICT;
INSERT INTO rule_set (id, revision) VALUES (1, 1);

CREATE TABLE rule (
    id         INTEGER PRIMARY KEY AUTOINCREMENT,
    name       TEXT NOT NULL,
    entity     TEXT NOT NULL,
    deleted_at INTEGER
) STRICT;
-- The name of a deleted rule can be used again, by another rule.
CREATE UNIQUE INDEX rule_name ON rule (name) WHERE deleted_at IS NULL;

CREATE TABLE rule_version (
    rule_id  INTEGER NOT NULL,
    version  INTEGER NOT NULL,
    document TEXT NOT NULL,
    reads    TEXT NOT NULL,
    bundle   TEXT NOT NULL,
    saved_at INTEGER NOT NULL,
    PRIMARY KEY (rule_id, version)
) STRICT;

CREATE TABLE shard_lease (
    shard        INTEGER PRIMARY KEY,
    epoch        INTEGER NOT NULL,
    node         TEXT,
    expires_at   INTEGER NOT NULL,
    low_water_at INTEGER
) STRICT;

CREATE TABLE node (
    id         TEXT PRIMARY KEY,
    name       TEXT NOT NULL,
    version    TEXT NOT NULL,
    started_at INTEGER NOT NULL,
    seen_at    INTEGER NOT NULL,
    expires_at INTEGER NOT NULL,
    doing      TEXT NOT NULL
) STRICT;

-- The bodies come last: what only reads the columns before them never touches their pages.
CREATE TABLE future_job (
    id             INTEGER PRIMARY KEY AUTOINCREMENT, -- never reused
    shard          INTEGER NOT NULL,
    rev            INTEGER NOT NULL DEFAULT 0,
    rule_id        INTEGER NOT NULL,
    version        INTEGER NOT NULL,
    key            TEXT NOT NULL,
    created_at     INTEGER NOT NULL,
    since_at       INTEGER NOT NULL,
    first_check_at INTEGER NOT NULL,
    next_check_at  INTEGER NOT NULL,
    check_count    INTEGER NOT NULL DEFAULT 0,
    undecided      INTEGER NOT NULL DEFAULT 0,
    step           INTEGER NOT NULL DEFAULT 0,
    picked_at      INTEGER,
    started_at     INTEGER,
    completed_at   INTEGER,
    failed_at      INTEGER,
    checks         INTEGER NOT NULL DEFAULT 0,
    check_total    INTEGER NOT NULL DEFAULT 0, -- µs
    check_slowest  INTEGER NOT NULL DEFAULT 0, -- µs
    alert_ids      BLOB, -- 16 bytes an alert, oldest first
    event          TEXT,
    state          TEXT,
    UNIQUE (shard, rule_id, key)
) STRICT;
CREATE INDEX future_job_due ON future_job (shard, next_check_at, id);

-- seq is the order of time: there is one writer.
CREATE TABLE history (
    seq            INTEGER PRIMARY KEY,
    shard          INTEGER NOT NULL,
    key            TEXT NOT NULL,
    rule_id        INTEGER NOT NULL,
    id             INTEGER NOT NULL,
    version        INTEGER NOT NULL,
    outcome        TEXT NOT NULL,
    reason         TEXT,
    ended_at       INTEGER NOT NULL,
    created_at     INTEGER NOT NULL,
    since_at       INTEGER NOT NULL,
    first_check_at INTEGER NOT NULL,
    next_check_at  INTEGER NOT NULL,
    check_count    INTEGER NOT NULL,
    step           INTEGER NOT NULL,
    picked_at      INTEGER,
    started_at     INTEGER,
    completed_at   INTEGER,
    failed_at      INTEGER,
    checks         INTEGER NOT NULL,
    check_total    INTEGER NOT NULL,
    check_slowest  INTEGER NOT NULL,
    alert_ids      BLOB,
    UNIQUE (shard, key, rule_id, id)
) STRICT;

-- Ids begin with their time: newest first is the key backwards.
CREATE TABLE alert (
    shard      INTEGER NOT NULL,
    id         BLOB NOT NULL,
    rule_id    INTEGER NOT NULL,
    version    INTEGER NOT NULL,
    key        TEXT NOT NULL,
    decided_at INTEGER NOT NULL,
    detail     TEXT NOT NULL,
    PRIMARY KEY (shard, id)
) STRICT;

CREATE TABLE alert_outbox (
    shard INTEGER NOT NULL,
    id    BLOB NOT NULL,
    PRIMARY KEY (shard, id)
) STRICT, WITHOUT ROWID;

-- The row without a stream counts jobs started by users.
CREATE TABLE event_cursor (
    stream            TEXT PRIMARY KEY,
    last_seq          INTEGER NOT NULL DEFAULT 0,
    last_at           INTEGER,
    stream_created_at INTEGER,
    read_through_at   INTEGER,
    created           INTEGER NOT NULL DEFAULT 0
) STRICT;
INSERT INTO event_cursor (stream) VALUES ('');

CREATE TABLE dead_letter (
    id       INTEGER PRIMARY KEY AUTOINCREMENT,
    stream   TEXT NOT NULL,
    subject  TEXT NOT NULL,
    seq      INTEGER NOT NULL,
    event_at INTEGER,
    event_id TEXT NOT NULL,
    header   TEXT NOT NULL,
    body     BLOB NOT NULL,
    rule     TEXT NOT NULL,
    reason   TEXT NOT NULL,
    at       INTEGER NOT NULL
) STRICT;

-- Rows removed by retention, so that the sums remain valid.
CREATE TABLE pruned (
    name TEXT PRIMARY KEY,
    rows INTEGER NOT NULL DEFAULT 0
) STRICT;
INSERT INTO pruned (name) VALUES ('history'), ('alert'), ('dead_letter');
