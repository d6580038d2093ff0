-- +goose Up

-- The log of a pending job, shown to users: an entry per line, oldest first.
ALTER TABLE future_job ADD COLUMN trail text;
ALTER TABLE history ADD COLUMN trail text;

-- An engine without TOAST leaves this statement out. A trail stays in its row, and is compressed there
-- to a tenth once the row is over 2 kB: every check rewrites it.
ALTER TABLE future_job ALTER COLUMN trail SET STORAGE MAIN;
