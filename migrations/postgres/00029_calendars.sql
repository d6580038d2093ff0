-- +goose Up

-- Calendars of the database. A deleted calendar stays as long as a rule may use it.
CREATE TABLE calendar (
    name        text COLLATE "C" PRIMARY KEY,
    version     int NOT NULL,             -- the newest
    revision    bigint NOT NULL,          -- of the rule set, at the last change
    rescheduled int NOT NULL DEFAULT 0,   -- the version that the checks of pending jobs follow
    deleted_at  timestamptz,
    prefix      text NOT NULL DEFAULT ''  -- of the tenant that owns it; empty: all tenants use it
);
CREATE TABLE calendar_version (
    name     text COLLATE "C" NOT NULL,
    version  int NOT NULL,
    document text NOT NULL,               -- YAML, as its author wrote it
    saved_at timestamptz NOT NULL,
    saved_by text NOT NULL,
    PRIMARY KEY (name, version)
);
