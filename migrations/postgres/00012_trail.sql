-- +goose Up

-- What became of a job between its beginning and its end, for people: an entry a line, oldest first.
ALTER TABLE future_job ADD COLUMN trail text;
ALTER TABLE history ADD COLUMN trail text;

-- An engine without TOAST leaves this statement out. A trail stays in its row, and is compressed there
-- to a tenth once the row is over 2 kB: every look writes it anew.
ALTER TABLE future_job ALTER COLUMN trail SET STORAGE MAIN;
