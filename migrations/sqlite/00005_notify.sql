-- +goose Up

-- Alerts that are not routed to channels yet. Rows are written only while the setting notify
-- is present.
CREATE TABLE alert_news (
    shard INTEGER NOT NULL,
    id    BLOB NOT NULL,
    PRIMARY KEY (shard, id)
) STRICT, WITHOUT ROWID;

-- One message to one channel. Further alerts can join it until its first attempt.
CREATE TABLE notice (
    id         INTEGER PRIMARY KEY AUTOINCREMENT,
    channel    TEXT NOT NULL,
    route      TEXT NOT NULL,
    topic      TEXT NOT NULL, -- the common property of its alerts
    alerts     INTEGER NOT NULL,
    planned_at INTEGER NOT NULL,
    next_at    INTEGER NOT NULL,
    tries      INTEGER NOT NULL DEFAULT 0,
    sent_at    INTEGER,
    failed_at  INTEGER, -- given up
    error      TEXT
) STRICT;
CREATE INDEX notice_due ON notice (next_at) WHERE sent_at IS NULL AND failed_at IS NULL;
CREATE INDEX notice_lane ON notice (channel, route, planned_at);

-- The delivery of an alert to a channel.
CREATE TABLE delivery (
    shard    INTEGER NOT NULL,
    alert_id BLOB NOT NULL,
    channel  TEXT NOT NULL,
    notice   INTEGER, -- NULL: muted
    mute     INTEGER,
    unclosed INTEGER NOT NULL, -- it fires, and no later alert has closed it
    PRIMARY KEY (shard, alert_id, channel)
) STRICT;
CREATE INDEX delivery_notice ON delivery (notice);

CREATE TABLE channel (
    name          TEXT PRIMARY KEY,
    sent          INTEGER NOT NULL DEFAULT 0,
    sent_at       INTEGER,
    tries         INTEGER NOT NULL DEFAULT 0, -- failed attempts since the last success
    failing_since INTEGER,
    error         TEXT
) STRICT;

CREATE TABLE mute (
    id         INTEGER PRIMARY KEY AUTOINCREMENT,
    matches    TEXT NOT NULL,
    reason     TEXT NOT NULL,
    created_at INTEGER NOT NULL,
    created_by TEXT NOT NULL,
    ends_at    INTEGER NOT NULL,
    ended_by   TEXT -- the actor that ended it early
) STRICT;

-- The rule of system alerts. It is deleted from the start, so it is never listed as a rule.
INSERT INTO rule (id, name, entity, deleted_at, purged_at) VALUES (0, 'deadman', 'node', 0, 0);
