-- +goose Up

-- A letter may be tried again. size is that of a body of which only the start is kept.
ALTER TABLE dead_letter ADD COLUMN part text NOT NULL DEFAULT '';
ALTER TABLE dead_letter ADD COLUMN size bigint NOT NULL DEFAULT 0;
ALTER TABLE dead_letter ADD COLUMN tries int NOT NULL DEFAULT 0;
ALTER TABLE dead_letter ADD COLUMN last_tried_at timestamptz;
