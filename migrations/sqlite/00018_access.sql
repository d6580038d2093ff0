-- +goose Up

-- A browser in which a person logged in with a token (decision 60). Of the session's secret only its SHA-256 is kept. A
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

-- bounds: the subjects, sources and handlers that a token may use, JSON (decision 58); NULL: none were given. Of a version of a
-- rule those of the token that saved it; NULL: it may use all. A node of the version before writes none and checks none.
ALTER TABLE token ADD COLUMN bounds TEXT;
ALTER TABLE rule_version ADD COLUMN bounds TEXT;
