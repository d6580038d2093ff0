-- +goose Up

-- Calendars of the database. A deleted calendar stays as long as a rule may use it.
CREATE TABLE calendar (
    name        TEXT PRIMARY KEY,
    version     INTEGER NOT NULL,           -- the newest
    revision    INTEGER NOT NULL,           -- of the rule set, at the last change
    rescheduled INTEGER NOT NULL DEFAULT 0, -- the version that the checks of pending jobs follow
    deleted_at  INTEGER,
    prefix      TEXT NOT NULL DEFAULT ''    -- of the tenant that owns it; empty: all tenants use it
) STRICT, WITHOUT ROWID;
CREATE TABLE calendar_version (
    name     TEXT NOT NULL,
    version  INTEGER NOT NULL,
    document TEXT NOT NULL,                 -- YAML, as its author wrote it
    saved_at INTEGER NOT NULL,
    saved_by TEXT NOT NULL,
    PRIMARY KEY (name, version)
) STRICT, WITHOUT ROWID;
