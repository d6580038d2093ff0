-- +goose Up

-- Limits of the bytes that the database keeps for a prefix (decision 82); NULL: the program's own. A node of the version before
-- neither changes nor applies them.
ALTER TABLE quota ADD COLUMN kept_alert_bytes bigint;
ALTER TABLE quota ADD COLUMN kept_answer_bytes bigint;

-- The bytes of the alerts of a prefix that were stored within the hour, and those of answers to requests with an Idempotency-Key.
ALTER TABLE quota_hour ADD COLUMN kept_bytes bigint NOT NULL DEFAULT 0;
ALTER TABLE quota_hour ADD COLUMN answer_bytes bigint NOT NULL DEFAULT 0;
