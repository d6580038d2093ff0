-- +goose Up

-- The person of a session for whom a provider vouched, JSON (decision 63); NULL: the session is that of the token. A node of the
-- version before finds no token with such a session's empty token_id, and asks the person to log in.
ALTER TABLE session ADD COLUMN person text;
