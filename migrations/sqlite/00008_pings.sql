-- +goose Up

-- Where pings come in. An id is a secret, and all that a ping has to show.
CREATE TABLE ping_address (
    id         TEXT NOT NULL,
    rule_id    INTEGER NOT NULL,
    key        TEXT, -- NULL: the rule's ping key, to which a ping adds the key
    created_at INTEGER NOT NULL,
    created_by TEXT NOT NULL,
    PRIMARY KEY (id, rule_id)
) STRICT, WITHOUT ROWID;
CREATE UNIQUE INDEX ping_address_key ON ping_address (rule_id, key) WHERE key IS NOT NULL;
CREATE UNIQUE INDEX ping_address_rule ON ping_address (rule_id) WHERE key IS NULL;
-- Several rules may have one ping key; a key's own address belongs to it alone.
CREATE UNIQUE INDEX ping_address_id ON ping_address (id) WHERE key IS NOT NULL;

-- The last pings of each key, for people.
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
    body_size   INTEGER NOT NULL -- bytes that were sent, of which body has the first
) STRICT;
CREATE INDEX ping_log_key ON ping_log (rule_id, key, id);
