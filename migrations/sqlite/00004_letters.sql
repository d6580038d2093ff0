-- +goose Up

-- A letter may be tried again. size is that of a body of which only the start is kept.
ALTER TABLE dead_letter ADD COLUMN part TEXT NOT NULL DEFAULT '';
ALTER TABLE dead_letter ADD COLUMN size INTEGER NOT NULL DEFAULT 0;
ALTER TABLE dead_letter ADD COLUMN tries INTEGER NOT NULL DEFAULT 0;
ALTER TABLE dead_letter ADD COLUMN last_tried_at INTEGER;
