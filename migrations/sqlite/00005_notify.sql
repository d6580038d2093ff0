-- +goose Up

-- Alerts that nobody has routed to people yet. It is written while the setting notify is
-- there, and not at all before.
CREATE TABLE alert_news (
    shard INTEGER NOT NULL,
    id    BLOB NOT NULL,
    PRIMARY KEY (shard, id)
) STRICT, WITHOUT ROWID;

-- One message to one channel. It is open to further alerts until it is tried.
CREATE TABLE notice (
    id         INTEGER PRIMARY KEY AUTOINCREMENT,
    channel    TEXT NOT NULL,
    route      TEXT NOT NULL,
    topic      TEXT NOT NULL, -- what its alerts have in common
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

-- What became of an alert on a channel.
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
    tries         INTEGER NOT NULL DEFAULT 0, -- that failed, since it last worked
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
    ended_by   TEXT -- who ended it before its time
) STRICT;

-- What the alerts of the node itself belong to. It never was alive, so that it is no rule.
INSERT INTO rule (id, name, entity, deleted_at, purged_at) VALUES (0, 'deadman', 'node', 0, 0);
