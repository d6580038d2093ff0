-- +goose Up

-- A browser in which a person logged in with a token (decision 60). Only the SHA-256 of the session's secret is stored. A
-- session that ends before its time is deleted.
CREATE TABLE session (
    id           text PRIMARY KEY,
    hash         bytea NOT NULL UNIQUE,
    token_id     text NOT NULL,
    created_at   timestamptz NOT NULL,
    last_used_at timestamptz NOT NULL,
    expires_at   timestamptz NOT NULL,
    addr         text NOT NULL,
    user_agent   text NOT NULL
);
CREATE INDEX session_token ON session (token_id);

-- bounds: the subjects, sources and handlers that a token may use, JSON (decision 58); NULL: none were given. A version of a
-- rule has those of the token that saved it; NULL: it may use all. A node of the version before writes none and checks none.
ALTER TABLE token ADD COLUMN bounds text;
ALTER TABLE rule_version ADD COLUMN bounds text;
