-- +goose Up

-- What became of a job between its beginning and its end, for people: an entry a line, oldest first.
ALTER TABLE future_job ADD COLUMN trail TEXT;
ALTER TABLE history ADD COLUMN trail TEXT;
