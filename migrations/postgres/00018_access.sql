-- +goose Up

-- A browser in which a person logged in with a token (decision 60). Of the session's secret only its SHA-256 is kept. A
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

-- bounds: the subjects, sources and handlers that a token may use, JSON (decision 58); NULL: none were given. Of a version of a
-- rule those of the token that saved it; NULL: it may use all. A node of the version before writes none and checks none.
ALTER TABLE token ADD COLUMN bounds text;
ALTER TABLE rule_version ADD COLUMN bounds text;
