-- +goose Up

-- The log of a pending job, shown to users: an entry per line, oldest first.
ALTER TABLE future_job ADD COLUMN trail TEXT;
ALTER TABLE history ADD COLUMN trail TEXT;
