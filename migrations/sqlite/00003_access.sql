-- +goose Up

-- Only the SHA-256 of a secret is stored.
CREATE TABLE token (
    id           TEXT PRIMARY KEY,
    hash         BLOB NOT NULL UNIQUE,
    name         TEXT NOT NULL,
    scopes       TEXT NOT NULL, -- with commas between them
    prefix       TEXT NOT NULL,
    created_at   INTEGER NOT NULL,
    created_by   TEXT NOT NULL,
    expires_at   INTEGER,
    revoked_at   INTEGER,
    last_used_at INTEGER
) STRICT;
-- The name of a revoked token can be used again, by another token.
CREATE UNIQUE INDEX token_name ON token (name) WHERE revoked_at IS NULL;

-- The audit log. Rows are added, never changed, and removed by age.
CREATE TABLE audit (
    id       INTEGER PRIMARY KEY AUTOINCREMENT,
    at       INTEGER NOT NULL,
    actor    TEXT NOT NULL,
    token_id TEXT NOT NULL,
    addr     TEXT NOT NULL,
    action   TEXT NOT NULL,
    object   TEXT NOT NULL,
    detail   TEXT NOT NULL
) STRICT;
CREATE INDEX audit_object ON audit (object, id);

INSERT INTO pruned (name) VALUES ('audit');
