-- +goose Up

-- A dead letter can be retried. size is the length of a body that is stored only in part.
ALTER TABLE dead_letter ADD COLUMN part TEXT NOT NULL DEFAULT '';
ALTER TABLE dead_letter ADD COLUMN size INTEGER NOT NULL DEFAULT 0;
ALTER TABLE dead_letter ADD COLUMN tries INTEGER NOT NULL DEFAULT 0;
ALTER TABLE dead_letter ADD COLUMN last_tried_at INTEGER;
