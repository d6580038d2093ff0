-- +goose Up

-- A browser in which a person logged in with a token (decision 60). Only the SHA-256 of the session's secret is stored. A
-- session that ends before its time is deleted.
CREATE TABLE session (
    id           TEXT PRIMARY KEY,
    hash         BLOB NOT NULL UNIQUE,
    token_id     TEXT NOT NULL,
    created_at   INTEGER NOT NULL,
    last_used_at INTEGER NOT NULL,
    expires_at   INTEGER NOT NULL,
    addr         TEXT NOT NULL,
    user_agent   TEXT NOT NULL
) STRICT;
CREATE INDEX session_token ON session (token_id);

-- bounds: the subjects, sources and handlers that a token may use, JSON (decision 58); NULL: none were given. A version of a
-- rule has those of the token that saved it; NULL: it may use all. A node of the version before writes none and checks none.
ALTER TABLE token ADD COLUMN bounds TEXT;
ALTER TABLE rule_version ADD COLUMN bounds TEXT;
