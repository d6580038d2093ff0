-- +goose Up

-- Ping URLs. An id is a secret, and the only credential of a ping.
CREATE TABLE ping_address (
    id         TEXT NOT NULL,
    rule_id    INTEGER NOT NULL,
    key        TEXT, -- NULL: the rule's ping key, with the key appended by the ping
    created_at INTEGER NOT NULL,
    created_by TEXT NOT NULL,
    PRIMARY KEY (id, rule_id)
) STRICT, WITHOUT ROWID;
CREATE UNIQUE INDEX ping_address_key ON ping_address (rule_id, key) WHERE key IS NOT NULL;
CREATE UNIQUE INDEX ping_address_rule ON ping_address (rule_id) WHERE key IS NULL;
-- Several rules may share a ping key; the address of a single key is unique.
CREATE UNIQUE INDEX ping_address_id ON ping_address (id) WHERE key IS NOT NULL;

-- The last pings of each key, shown to users.
CREATE TABLE ping_log (
    id          INTEGER PRIMARY KEY AUTOINCREMENT,
    rule_id     INTEGER NOT NULL,
    key         TEXT NOT NULL,
    at          INTEGER NOT NULL,
    kind        TEXT NOT NULL,
    exit_status INTEGER,
    run         TEXT,
    agent       TEXT NOT NULL,
    body        TEXT,
    body_size   INTEGER NOT NULL -- bytes sent; body has the first of them
) STRICT;
CREATE INDEX ping_log_key ON ping_log (rule_id, key, id);
